"""What the harness certifies is verified, for all sizes; what is wrong or unknown never is, whatever is claimed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from forging import forge, module, signed

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import apply, cdiv, ne
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.errors import DescriptorError
from amk.harness import samples
from amk.harness.certify import certify
from amk.harness.rules import RULES
from amk.harness.rules.examples import example
from amk.ops.gemm import Gemm, GemmSchedule, build
from amk.verify.domain import launch_facts
from amk.verify.outcome import Outcome
from amk.verify.verify import verify

H, P, S = module("harness/kernels"), module("harness/interp_kernels"), module("synth/kernels")
Make = Callable[[], KernelDescriptor]
# A suppression is no part of what is certified, so a certificate without it is of the same kernel.
DECIDED = [r for r in RULES if r.code < "AMK5" and not r.code.startswith("AMK09")]

# Of asynchronous work, and of what blocks tell each other: good kernels, and bad ones under forged certificates.
IN_PART = (
    "AMK307", "AMK309", "AMK310", "AMK311", "AMK312", "AMK313", "AMK314", "AMK315", "AMK316", "AMK317", "AMK318",
    "AMK108",
)  # fmt: skip
TRUSTED = ("AMK008", "AMK307", "AMK309", "AMK310", "AMK311", "AMK312", "AMK315", "AMK316", "AMK317", "AMK318")


def gemm(target: str = "sm_80", **schedule: Any) -> KernelDescriptor:
    """A GEMM of the operator in a small tile."""
    small = {"bm": 32, "bn": 32, "bk": 8, "tm": 4, "tn": 4, "vec_width": 4, **schedule}
    return build(Gemm(m=64, n=64, k=64), GemmSchedule(**small), Target.find(target))


def example_of(name: str) -> KernelDescriptor:
    """The kernel of a file of examples/."""
    found: KernelDescriptor = module(f"../examples/{name}").build()
    return found


QUICK: dict[str, Make] = {
    "vector_add": samples.vector_add, "transpose": samples.transpose, "block_sum": samples.block_sum,
    "reversed_copy": samples.reversed_copy, "doubled": samples.doubled, "swizzled": partial(H.transpose, "swizzle"),
    "xor": partial(H.transpose, "xor"), "tree": H.block_reduce, "atomic": partial(H.block_reduce, atomic=True),
    "row_sum": P.reduction, "uniform": S.transpose, "carried_sum": S.block_sum, "gemm": gemm,
    "one_buffer": partial(gemm, stages=1), "ex01": partial(example_of, "ex01_vector_add"),
}  # fmt: skip
LONG: dict[str, Make] = {
    "ex02": partial(example_of, "ex02_transpose"), "ex03": partial(example_of, "ex03_block_reduction"),
    "ex04": partial(example_of, "ex04_simt_gemm"), "async_2": partial(H.gemm_async, 2), "async_3": H.gemm_async,
    "async_4": partial(H.gemm_async, 4), "staged": H.gemm_staged,
    **{f"golden_{n}": make for n, make in S.GOLDEN.items()},
}  # fmt: skip


def checked(kernel: KernelDescriptor) -> Outcome:
    """The outcome for the certificate that the harness gives a kernel."""
    return verify(certify(kernel).to_json())


def expect_verified(kernel: KernelDescriptor) -> Outcome:
    out = checked(kernel)
    assert (out.verdict, out.findings, out.exit_code) == ("verified", [], 0)
    assert {s.sizes for s in out.shown if s.how != "counting"} == {"all sizes"}
    return out


def expect_in_part(kernel: KernelDescriptor) -> None:
    """Nothing is wrong, and what was not shown again is listed."""
    out = checked(kernel)
    assert (out.verdict, out.findings, out.exit_code) == ("verified in part", [], 3)
    assert out.shown and out.trusted


@pytest.mark.parametrize("name", QUICK)
def test_certificates_of_the_harness_are_verified(name: str) -> None:
    expect_verified(QUICK[name]())


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_more_certificates_are_verified(name: str) -> None:
    if any(part in name for part in ("mma", "peers")):
        expect_in_part(LONG[name]())
    else:
        expect_verified(LONG[name]())


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "target", "any_order"), [
    ((1024, 1024, 1024), "h200", False), ((16, 4096, 4096), "h200", False), ((64, 64, 4096), "sm_80", True),
    ((999, 1001, 77), "sm_90a", False),
])  # fmt: skip
def test_gemms_of_the_rule_agent_are_verified(problem: tuple[int, int, int], target: str, any_order: bool) -> None:
    from amk.api import proposed

    m, n, k = problem
    expect_verified(proposed(Gemm(m=m, n=n, k=k), Target.find(target), deterministic=not any_order))


@pytest.mark.parametrize("rule", DECIDED, ids=lambda r: r.code)
def test_the_good_example_of_a_rule_is_verified(rule: Any) -> None:
    if rule.code in IN_PART:
        expect_in_part(rule.good())
    else:
        expect_verified(rule.good())


@pytest.mark.parametrize("rule", DECIDED, ids=lambda r: r.code)
def test_a_forged_certificate_of_the_bad_example_is_not(rule: Any) -> None:
    """Refused for the same reason; what this program cannot tell is verified in part, and said to be on trust."""
    out = verify(json.dumps(forge(rule.bad())))
    if rule.code in TRUSTED:
        assert (out.verdict, out.findings) == ("verified in part", [])
        assert rule.code == "AMK008" or {rule.code, "all"} & {t.rule for t in out.trusted}
    else:
        assert out.exit_code == 1 and out.findings[0].where.startswith(("/kernel", "/obligations"))
        if rule.code > "AMK008" and rule.code not in ("AMK404", "AMK313", "AMK314"):
            assert rule.code in out.findings[0].what


def test_an_outcome_says_what_was_shown_and_what_was_not() -> None:
    out = expect_verified(samples.block_sum())
    shown = {s.rule: s for s in out.shown}
    assert shown["AMK201"].claims == 10 and shown["AMK301"].how == "a walk of one block"
    assert any(n.startswith("meaning: not checked") and "does not re-check" in n for n in out.notes)
    assert any(n.startswith("order: shown for all sizes; 1 of the 1 cases") for n in out.notes)
    assert json.loads(json.dumps(out.to_dict()))["verdict"] == "verified"


# ---------------------------------------------------------------------------------------- what no sample of sizes shows
def looped(*, skip: int | None = None, slots: int = 2) -> KernelDescriptor:
    """Each round stores to a slot and reads a neighbour's cell of it; without the barrier of one round, that races."""
    k = KernelBuilder("looped", target="sm_80", threads=64)
    n, y = k.size("n"), k.tensor("y", "i32", (64,), access="write")
    s, a = k.shared("s", "i32", (slots, 64)), k.registers("a", "i32", (1,))
    k.store(a[0], 0)
    with k.loop("v", 0, n) as v:
        k.store(s[v.var % slots, k.t], a[0])
        if skip is None:
            k.sync()
        else:
            with k.when(ne(v.var, skip)):
                k.sync()
        k.load(a[0], s[v.var % slots, 63 - k.t])
    k.store(y[k.t], a[0])
    return k.finish(grid=(1,))


def test_a_loop_of_any_length_is_shown_by_its_states() -> None:
    expect_verified(looped())
    expect_verified(looped(slots=5))


@pytest.mark.parametrize("round_", [0, 3, 777, 1_000_000])
def test_a_race_in_one_far_round_is_not_missed(round_: int) -> None:
    """No walk at small sizes meets it; the walk for all sizes leaves it open, so nothing is verified."""
    assert verify(json.dumps(forge(looped(skip=round_)))).exit_code in (1, 3)


def test_one_slot_is_too_few_and_the_sizes_that_show_it_are_named() -> None:
    out = verify(json.dumps(forge(looped(slots=1))))
    assert out.exit_code == 1 and "AMK301" in out.findings[0].what and out.findings[0].example["n"] >= 2


def test_a_size_far_away_at_which_an_output_is_missed() -> None:
    """Every size but one is right."""
    k = KernelBuilder("far", target="sm_80", threads=128)
    n, z = k.size("n"), None
    z = k.tensor("z", "f32", (n,), access="write")
    i = k.let("i", k.bx * 128 + k.t)
    with k.when(i < n), k.when(ne(n, 123_456)):
        k.store(z[i], 1.0)
    assert verify(json.dumps(forge(k.finish(grid=(cdiv(n, 128),))))).exit_code in (1, 3)


# ---------------------------------------------------------------------------------------------- what it does not know
def test_shared_addresses_that_depend_on_data_are_shown_to_be_inside_and_no_more() -> None:
    """Their bounds are arithmetic; who meets whom in one element is taken on trust."""
    k = KernelBuilder("histogram", target="sm_80", threads=32)
    x, s, a = k.tensor("x", "i32", (32,)), k.shared("s", "i32", (32,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], 0)
    k.sync()
    k.load(a[0], x[k.t])
    k.atomic("add", s[apply("max", 0, apply("min", a[0], 31))], 1)
    out = checked(k.finish(grid=(1,)))
    assert (out.verdict, out.findings) == ("verified in part", [])
    assert {s.rule: s.claims for s in out.shown}["AMK202"] >= 2
    assert all("depends on data" in t.why for t in out.trusted)


def test_a_uniform_value_has_to_be_one() -> None:
    """It is taken from one lane of each warp, so a proof about every lane's own would be about another kernel."""

    def kernel(value: Any) -> KernelDescriptor:
        k = KernelBuilder("uniform", target="sm_80", threads=64)
        z = k.tensor("z", "f32", (64,), access="write")
        k.let("u", value(k.t), uniform=True)
        k.store(z[k.t], 1.0)
        return k.finish(grid=(1,))

    assert verify(json.dumps(forge(kernel(lambda t: t // 32)))).exit_code == 0
    out = verify(json.dumps(forge(kernel(lambda t: t // 16))))
    assert out.exit_code == 1 and "uniform" in out.findings[0].what


# ---------------------------------------------------------------------------------------------- what the caller means
def test_another_kernel_or_target_than_the_caller_means_is_refused() -> None:
    text = certify(samples.vector_add()).to_json()
    assert verify(text, kernel=samples.vector_add(), target=Target.find("sm_80")).exit_code == 0
    other = verify(text, kernel=samples.vector_add(threads=128))
    assert other.exit_code == 1 and other.findings[0].where == "/kernel" and "is wanted" in other.findings[0].what
    elsewhere = verify(text, target=Target.find("h200"))
    assert elsewhere.exit_code == 1 and elsewhere.findings[0].where == "/target"


def test_a_target_that_is_not_known_needs_a_word_of_the_caller() -> None:
    from amk.dsl.record import replace

    mine = replace(Target.find("h200"), name="mine", sms=100)
    text = certify(samples.vector_add(), mine).to_json()
    assert verify(text).exit_code == 1 and "--target" in verify(text).findings[0].do
    assert verify(text, target=mine).exit_code == 0


@pytest.mark.parametrize("text", ["", "nothing", "[1]", "3", '{"certificate": 1', b"\xff\xfe{"])
def test_what_is_no_json_object_is_unusable(text: str | bytes) -> None:
    with pytest.raises(DescriptorError):
        verify(text)


@pytest.mark.parametrize("data", [{}, {"kernel": {}}, {"certificate": 1}, samples.vector_add().to_dict()])
def test_an_object_that_is_no_certificate_is_refused(data: dict[str, Any]) -> None:
    out = verify(json.dumps(data))
    assert out.exit_code == 1 and all(f.do for f in out.findings)


def test_values_that_explode_when_names_are_replaced_are_taken_on_trust() -> None:
    body: list[dict[str, Any]] = [{"kind": "let", "name": "v0", "value": "t"}]
    body += [{"kind": "let", "name": f"v{i + 1}", "value": f"v{i} + v{i}"} for i in range(60)]
    kernel = example(body=body)
    facts = {"facts": list(launch_facts(kernel))}
    data = {**forge(example()), "kernel": kernel.to_dict(places=False), "hash": kernel.hash, **facts}
    out = verify(json.dumps(signed(data)))
    assert out.exit_code == 3 and "terms" in out.trusted[0].why and not out.findings


def test_an_element_that_a_copy_still_reads_is_not_overwritten() -> None:
    k = KernelBuilder("late", target="sm_80", threads=128)
    n = k.size("n")
    y, s = k.tensor("y", "f32", (n,), access="readwrite"), k.shared("s", "f32", (128,))
    i = k.let("i", k.bx * 128 + k.t)
    with k.when(i < n):
        k.call("cp.async.4", {"dst": s[k.t], "src": y[i]})
        k.store(y[i], 0.0)
    k.commit()
    k.wait(pending=0)
    out = verify(json.dumps(forge(k.finish(grid=(cdiv(n, 128),)))))
    assert out.exit_code == 1 and "AMK304" in out.findings[0].what
