"""Printing: golden texts, what compiles, what is refused, and that the text is the same in every process."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amk.dsl import nodes
from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Const, apply
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Store, Sync
from amk.dsl.text import parse
from amk.errors import InternalError
from amk.harness.certify import certify
from amk.harness.check import check
from amk.synth import fingerprint
from amk.synth import render as module
from amk.synth.compile import compile_cubin
from amk.synth.fingerprint import template_hash
from amk.synth.passes import fold, simplify
from amk.synth.print_expr import ExprPrinter, literal
from amk.synth.print_stmt import KINDS, comment
from amk.synth.render import text_of

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from kernels import GOLDEN, gemm, transpose, vector_add  # noqa: E402

FOLDER = HERE.parent / "golden"
needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None, reason="needs NVRTC"
)


# -------------------------------------------------------------------------------------------------------------- golden
@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, update_golden: bool) -> None:
    path, text = FOLDER / f"{name}.cu", text_of(GOLDEN[name]())
    if update_golden:
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), "run with --update-golden and review the difference"


def test_every_statement_names_its_place() -> None:
    """Golden kernels have no places; a builder's have."""
    body = text_of(vector_add()).partition("{\n  const int t")[2].splitlines()[1:]
    statements = [line for line in body if ";" in line and not line.startswith("  float")]
    assert len(statements) == 4 and all("// kernels.py:" in line for line in statements)


@needs_nvrtc
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_compiles_without_spills(name: str, target: str) -> None:
    kernel = GOLDEN[name]()
    if kernel.target != "sm_80" and target != kernel.target:
        pytest.skip(f"for {kernel.target} alone")
    done = compile_cubin((FOLDER / f"{name}.cu").read_text("utf-8"), target, name=kernel.name)
    assert (done.spill_stores, done.spill_loads) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_compiles_with_nvcc(name: str, tmp_path: Path) -> None:
    nvcc, arch = _nvcc(), GOLDEN[name]().target
    done = subprocess.run(
        [nvcc, "-cubin", f"-arch={arch}", "-std=c++17", "-o", str(tmp_path / "k.cubin"), str(FOLDER / f"{name}.cu")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_vector_accesses_and_shared_pointers_reach_ptx(tmp_path: Path) -> None:
    """Four floats move in one instruction, and a view of a shared array stays a shared address."""
    out = tmp_path / "k.ptx"
    subprocess.run(
        [_nvcc(), "-ptx", "-arch=sm_80", "-o", str(out), str(FOLDER / "gemm.cu")], check=True, capture_output=True
    )
    text = out.read_text()
    for wanted in ("ld.shared.v4", "st.global.v4", "cp.async.cg.shared.global"):
        assert wanted in text
    assert not re.search(r"\b(ld|st)\.(v4\.)?f32", text), "a generic access"


def _nvcc() -> str:
    import shutil

    found = shutil.which("nvcc") or next((str(p) for p in Path("/usr/local").glob("cuda*/bin/nvcc")), None)
    if found is None:
        pytest.skip("needs nvcc")
    return found


# ------------------------------------------------------------------------------------------------------------ the same
def test_same_text_in_every_process() -> None:
    code = (
        f"import hashlib, sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import kernels\nfrom amk.synth.render import text_of\nfrom amk.synth.fingerprint import template_hash\n"
        "t = ''.join(text_of(f()) for f in kernels.GOLDEN.values()) + template_hash()\n"
        "print(hashlib.sha256(t.encode()).hexdigest())"
    )

    def said(seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    assert len({said(seed) for seed in ("0", "1", "4242")}) == 1


def test_same_text_after_json() -> None:
    for make in GOLDEN.values():
        kernel = make()
        assert text_of(KernelDescriptor.from_json(kernel.to_json())) == text_of(kernel)


def test_a_thousand_statements_print_quickly() -> None:
    k = KernelBuilder("lengthy", target="sm_80", threads=32)
    n = k.size("n")
    x = k.tensor("x", "f32", (n, 128), access="readwrite")
    a = k.registers("a", "f32", (4,))
    for i in range(500):
        k.load(a[i % 4], x[k.bx * 4 + i, k.t * 2 + i % 7], when=k.t + i < n, other=0.0)
        k.store(x[k.bx * 4 + i, k.t], a[0] * 2.0 + a[i % 4])
    kernel = k.finish(grid=(1,))
    text_of(vector_add())
    start = time.process_time()
    text_of(kernel)
    assert time.process_time() - start < 2.0  # about 0.2 s on an idle core


# ----------------------------------------------------------------------------------------------- templates and refusal
def test_macros_are_the_kinds_and_the_rows() -> None:
    env, macros = module._templates()
    kinds = {m.model_fields["kind"].default for m in get_args(nodes.Statement)}
    assert set(module.macros_of(env, "stmt.cu.j2")) == KINDS == kinds
    assert set(macros.rows) == {r.macro for r in ROWS.values()}


def test_template_hash_covers_every_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "synth"
    shutil.copytree(fingerprint._AMK / "synth", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "_AMK", copy.parent)
    seen = {template_hash.__wrapped__()}
    files = [*copy.glob("templates/**/*.j2"), *copy.glob("prelude/*.cuh"), copy / "print_expr.py", copy / "render.py"]
    for path in files:
        path.write_text(path.read_text() + "\n")
        seen.add(template_hash.__wrapped__())
    assert len(seen) == 1 + len(files)


def test_only_a_certificate_is_rendered() -> None:
    for wrong in (vector_add(), SimpleNamespace(kernel=vector_add(), target="sm_80", digest="0"), None):
        with pytest.raises(InternalError, match="certified"):
            module.render(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("statement", [
    Sync(relaxed=True), Sync(scope="warp", part="arrive"), nodes.Wait(barrier="b[0]", parity=0),
    nodes.Call(row="mma.none"),
    nodes.Atomic(op="min", dst="z[0]", value=1.0), Store(dst="z[0]", values=(1.0, 2.0, 3.0)),
])  # fmt: skip
def test_what_is_not_printed_is_refused(statement: nodes.Statement) -> None:
    kernel = _with(vector_add(), (statement,))
    with pytest.raises(InternalError, match="cannot print"):
        text_of(kernel)


def test_carried_values_change_at_once() -> None:
    k = KernelBuilder("swap", target="sm_80", threads=32)
    with k.loop("i", 0, 3, x=0, y=1) as loop:
        loop.next(x=loop.y, y=loop.x)
    lines = [line.split("//")[0].strip() for line in text_of(k.finish(grid=(1,))).splitlines()]
    at = lines.index("const int next0_ = y;")
    assert lines[at : at + 4] == ["const int next0_ = y;", "const int next1_ = x;", "x = next0_;", "y = next1_;"]


def test_half_precision_is_stored_and_not_computed_with() -> None:
    k = KernelBuilder("halves", target="sm_80", threads=32)
    h = k.registers("h", "bf16", (2,))
    k.store(h[0], 1.5)
    assert f"h[0] = {0x3FC0};" in text_of(k.finish(grid=(1,)))
    k.store(h[1], "bf16(f32(h[0]) * 0.5)")
    assert "h[1] = amk_to_bf16(amk_bf16_to_f32(h[0]) * 0.5f);" in text_of(k.finish(grid=(1,)))
    k.store(h[1], "1.0 + select(t < 3, 2.0, 0.5)")
    assert "h[1] = amk_to_bf16(1.0f + ((t < 3) ? 2.0f : 0.5f));" in text_of(k.finish(grid=(1,)))
    k.store(h[1], h[0] + h[0])
    assert "computes with bf16" in next(d.message for d in check(k.finish(grid=(1,))).errors)
    with pytest.raises(InternalError, match="computes with bf16"):
        text_of(k.finish(grid=(1,)))


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_kernels_are_certified_and_rendered(name: str) -> None:
    """The real way through: what the golden files show is what the harness accepts."""
    certificate = certify(GOLDEN[name]())
    source, kernel = module.render(certificate), certificate.kernel
    assert source.text == text_of(kernel) and source.kernel_hash == kernel.hash
    assert (source.name, source.threads, source.shared_bytes) == (kernel.name, kernel.threads, kernel.shared_bytes)
    assert (source.cluster, source.min_blocks) == (kernel.cluster, kernel.min_blocks)


@pytest.mark.parametrize(
    "place", ["a.py:3\\", "a.py:3\nint evil;", "a*/b.py:1", "??/", "\u202ea.py", "a\u2028b", "\x1b[31m", "x" * 256]
)
def test_a_place_stays_in_its_comment(place: str) -> None:
    kernel = _with(vector_add(), (Sync(at=place),))
    lines = text_of(kernel).splitlines()
    line = next(x for x in lines if "__syncthreads" in x)
    assert not line.endswith("\\") and "*/" not in line and "?" not in line and len(line) < 140
    assert line.isprintable() and not any(x.lstrip().startswith("int evil") for x in lines)


def test_no_place_no_comment() -> None:
    assert comment(None) == comment("\n") == ""


def _with(kernel: KernelDescriptor, body: tuple[nodes.Statement, ...]) -> KernelDescriptor:
    fields = {name: getattr(kernel, name) for name in KernelDescriptor.model_fields}
    return KernelDescriptor(**fields | {"body": body})


# ------------------------------------------------------------------------------------------------------------ literals
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_f32_literals_are_exact(value: float) -> None:
    text = literal(value, "f32")
    assert text.endswith("f") and struct.pack("<f", float(text[:-1])) == struct.pack("<f", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_f64_literals_are_exact(value: float) -> None:
    assert struct.pack("<d", float(literal(value, "f64"))) == struct.pack("<d", value)


def test_literals() -> None:
    assert literal(0.1, "f32") == "0.1f" and literal(1, "f32") == "1.0f" and literal(-0.0, "f32") == "-0.0f"
    assert literal(-(2**31), "i32") == "(-2147483647 - 1)" and literal(2**31, "i32") == "2147483648LL"
    assert literal(3, "i64") == "3LL" and literal(3, "u32") == "3u" and literal(True, "bool") == "true"
    assert literal(math.inf, "f32") == "__int_as_float(2139095040)" and literal(1e40, "f32") == literal(math.inf, "f32")


@pytest.mark.parametrize("text, wanted", [
    ("a + b*c", "a + b * c"), ("(a + b)*c", "(a + b) * c"), ("a - (b - c)", "a - (b - c)"), ("a - b - c", "a - b - c"),
    ("a//b*c", "a / b * c"), ("a//(b*c)", "a / (b * c)"), ("a % b + 1", "a % b + 1"), ("a & b == c", "(a & b) == c"),
    ("(a & 3) + 1", "(a & 3) + 1"), ("a << b + 1", "a << (b + 1)"), ("a ^ b & c", "a ^ (b & c)"),
    ("not a < b", "!(a < b)"),
    ("a < b and b < c or c < a", "(a < b && b < c) || c < a"), ("-a*b", "(-a) * b"), ("a - -3", "a - (-3)"),
    ("select(a < b, a, b) + 1", "((a < b) ? a : b) + 1"), ("cdiv(a, 8)", "amk_cdiv<int>(a, 8)"),
    ("min(a, w)", "amk_min<long long>(a, w)"), ("i64(a + 1)*b", "(long long)(a + 1) * b"), ("w + 1", "w + 1LL"),
    ("w < 5", "w < 5LL"), ("a << w", "(long long)(a) << w"), ("fma(f, f, 1.0)", "__fmaf_rn(f, f, 1.0f)"),
    ("i32(f) + 1", "(int)f + 1"), ("f32(a)/2.0", "(float)a / 2.0f"), ("f64(0.1)", "(double)0.1f"),
    ("i64(5000000000)", "(long long)5000000000LL"),
])  # fmt: skip
def test_expressions(text: str, wanted: str) -> None:
    k = KernelBuilder("e", target="sm_80", threads=32)
    for name, dtype in {**dict.fromkeys("abc", "i32"), "w": "i64", "f": "f32"}.items():
        k.scalar(name, dtype)
    assert ExprPrinter(k.finish(grid=(1,))).expr(parse(text)) == wanted


# -------------------------------------------------------------------------------------------------------------- passes
def test_simplify_drops_what_never_runs() -> None:
    k = KernelBuilder("dead", target="sm_80", threads=32)
    n = k.size("n")
    z = k.tensor("z", "i32", (n,), access="write")
    unread = k.let("unread", n * 2)
    k.let("unread_too", unread + 1)
    with k.when(Const(False)):
        k.store(z[0], 1)
    with k.when(apply("<", 1, 2)):
        k.store(z[0], 2)
    with k.loop("i", 3, 3, last=7) as loop:
        k.store(z[loop.var], 3)
    k.store(z[1], loop.last)
    with k.when(n > 5), k.when(Const(False)):
        k.store(z[2], 4)
    done = simplify(k.finish(grid=(Const(1) + 1,)))
    assert [s.kind for s in done.body] == ["store", "let", "store"]
    assert "z[0] = 2;" in text_of(done) and "const int last = 7;" in text_of(done)


@pytest.mark.parametrize("name", GOLDEN)
def test_simplify_keeps_the_golden_kernels_and_is_idempotent(name: str) -> None:
    once = simplify(GOLDEN[name]())
    assert simplify(once) == once and once.hash == simplify(once).hash
    assert KernelDescriptor.from_json(once.to_json()) == once


def _raw(op, x, y):  # type: ignore[no-untyped-def]
    from amk.dsl.expr import Apply

    return Apply(op, (x, y))


INTS = st.integers(-5, 40)
TERMS = st.recursive(
    st.one_of(INTS.map(Const), st.sampled_from(["a", "b"]).map(parse)),
    lambda inner: st.builds(_raw, st.sampled_from(["+", "-", "*", "min", "max", "&", "|", "^"]), inner, inner),
    max_leaves=12,
)  # fmt: skip


@given(TERMS, st.integers(-100, 100), st.integers(-100, 100))
@settings(max_examples=300)
def test_fold_keeps_the_value_and_is_idempotent(e, a: int, b: int) -> None:  # type: ignore[no-untyped-def]
    from amk.dsl.evaluate import function_of

    done = fold(e)
    assert fold(done) == done
    assert function_of((e,), ("a", "b"))(a, b) == function_of((done,), ("a", "b"))(a, b)


def test_fold_leaves_what_exceeds_64_bits() -> None:
    assert str(fold(parse("9223372036854775807 + 1"))) == "9223372036854775807 + 1"


def test_conditions_that_race_are_printed_all_the_same() -> None:
    assert "__syncthreads" not in text_of(transpose(sync=False)) and "__syncthreads" not in text_of(gemm(syncs=False))
