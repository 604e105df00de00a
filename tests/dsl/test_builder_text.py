"""A kernel as the Python that builds it: the program makes an equal kernel, and a reader would have written it so."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import amk.dsl.expr
from amk.cli.main import main
from amk.cli.selftest import families
from amk.dsl.builder import KernelBuilder
from amk.dsl.builder_text import Unprintable, builder_code
from amk.dsl.expr import Apply, Const, Var, both, cdiv
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded, Strided, Swizzle
from amk.harness import samples
from amk.harness.mutations import mutate
from amk.harness.rules.examples import example


def built(kernel: KernelDescriptor) -> KernelDescriptor:
    made: dict[str, Any] = {}
    exec(builder_code(kernel), made)
    found = made["kernel"]
    assert isinstance(found, KernelDescriptor)
    return found


@pytest.mark.parametrize("name", families())
def test_the_program_makes_the_kernel(name: str) -> None:
    for variant in range(3):
        kernel, _ = families()[name](Random(variant))
        assert built(kernel) == kernel


def test_programs_of_mutants_make_the_mutants() -> None:
    """Terms that no builder would write, in any place."""
    kernels, made = (samples.transpose(), samples.block_sum(), samples.doubled()), 0
    for i in range(120):
        mutant, said = mutate(kernels[i % 3], Random(f"builder/{i}"))
        try:
            code = builder_code(mutant)
        except Unprintable:
            continue
        found: dict[str, Any] = {}
        try:
            exec(code, found)
        except Exception as e:  # the builder refuses what its own types refuse
            assert type(e).__name__ == "DescriptorError", said
            continue
        assert found["kernel"] == mutant, said
        made += 1
    assert made >= 100


def test_it_reads_as_an_author_would_write_it() -> None:
    assert builder_code(samples.vector_add()) == (
        "from amk import KernelBuilder\n"
        "from amk.dsl.expr import cdiv\n\n"
        'k = KernelBuilder("vector_add", target="sm_80", threads=256)\n'
        'n = k.size("n", min=0)\n'
        'x = k.tensor("x", "f32", (n,))\n'
        'y = k.tensor("y", "f32", (n,))\n'
        'z = k.tensor("z", "f32", (n,), access="write")\n'
        'a = k.registers("a", "f32", (2,))\n'
        'i = k.let("i", k.bx * 256 + k.t)\n'
        "with k.when(i < n):\n"
        "    k.load(a[0], x[i])\n"
        "    k.load(a[1], y[i])\n"
        "    k.store(z[i], a[0] + a[1])\n"
        "kernel = k.finish(grid=(cdiv(n, 256),))\n"
    )


def test_everything_that_a_builder_can_say() -> None:
    k = KernelBuilder("all_of_it", target="sm_90a", threads=64, min_blocks=2, spill_bytes=8)
    n, f = k.size("n", min=4, max=4096, multiple_of=4), k.scalar("lambda", "f32")
    q = k.scalar("q", "u64", min=1)
    x = k.tensor("x", "f32", (n, 4), strides=(n * 2, 1), align=16, offsets="i32")
    y = k.tensor("y", "f32", (n,), access="add")
    s = k.shared("s", "f32", (4, 32), layout=Padded(pad=4), align=128)
    u = k.shared("u", "f32", (64,), layout=Strided(strides=(2,)))
    w = k.shared("w", "f32", (128,), layout=Swizzle(bits=2, base=2, shift=3))
    a = k.registers("a", "f32", (4,))
    k.assume(n * 4 < 65536)
    v = k.view("v", s[1, 0])
    wide = k.let("wide", Apply("i64", (k.t,)), dtype="i64", uniform=True)
    with k.loop("j", 0, n, 4, unroll=2, total=0, sum=(0.0, "f32")) as j:
        k.load(a[0], x[j.var, 0], width=4, when=both(j.var < n, k.t < 32), other=0.0)
        k.store(v[k.t % 32], a[0] * f)
        j.next(total=j.total + 1)
    k.call("cp.async.16", {"dst": u[k.t], "src": x[k.t, 0]}, when=k.t < 1)
    k.commit()
    k.wait(pending=1)
    k.sync("warp")
    k.atomic("add", y[wide % 4], a[0])
    k.store(w[k.t], a[0], a[1])
    with k.when(q == 3):
        pass
    k.suppress("AMK501", 'it is "meant"', "/body/3")
    kernel = k.finish(grid=(cdiv(n, 64), 2))
    again = built(kernel)
    assert again == kernel and again.suppress == kernel.suppress
    code = builder_code(kernel)
    assert 'lambda_ = k.scalar("lambda", "f32")' in code and "unroll=2" in code and "j.next(total=j.total + 1)" in code


@pytest.mark.parametrize("term", [
    Apply("+", (Var("n"), Const(0))), Apply("or", (Apply("<", (Var("n"), Const(1))), Const(True))),
    Apply("<", (Const(1), Var("n"))), Apply("//", (Const(8), Var("n"))), Apply("not", (Const(False),)),
    Apply("-", (Const(3), Const(5))), Apply("neg", (Apply("neg", (Var("n"),)),)), Apply("i64", (Var("n"),)),
    Apply("<<", (Var("n"), Const(-1))), Apply("*", (Apply("+", (Var("n"), Var("t"))), Const(-2))),
])  # fmt: skip
def test_terms_that_operators_would_change_stand_as_text(term: Apply) -> None:
    made = {"k": KernelBuilder("x", target="sm_80", threads=1), "n": Var("n"), **vars(amk.dsl.expr)}
    from amk.dsl.builder_text import _Printer

    printer = _Printer(example())
    printer.python["n"] = "n"
    assert amk.dsl.expr.as_expr(eval(printer.term(term), made)) == term


@pytest.mark.parametrize("kernel", [
    example(body=[{"kind": "let", "name": "i", "value": "t"}, {"kind": "let", "name": "i", "value": "t"}]),
])  # fmt: skip
def test_what_the_builder_refuses_has_no_program(kernel: KernelDescriptor) -> None:
    with pytest.raises(Unprintable):
        builder_code(kernel)


def test_describe_prints_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.json").write_text(samples.vector_add().to_json())
    assert main(["describe", "k.json", "--builder"]) == 0
    assert capsys.readouterr().out == builder_code(samples.vector_add())
    (tmp_path / "k.json").write_text(
        example(body=[{"kind": "let", "name": "i", "value": "t"}, {"kind": "let", "name": "i", "value": "t"}]).to_json()
    )
    assert main(["describe", "k.json", "--builder"]) == 2
    assert "the builder has no method for the name i twice" in capsys.readouterr().err
