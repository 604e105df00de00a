"""Checked builds without a compiler: golden texts, what is printed and what is not, records read back into words."""

from __future__ import annotations

import importlib.util
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.target import Target
from amk.harness.certify import certify
from amk.harness.interpret import Fault, run
from amk.ops.gemm import build
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm
from amk.synth.fault_record import RECORD_BYTES, first_fault, operands
from amk.synth.render import render, text_of

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from broken_hopper import HOPPER, whole_warps  # noqa: E402
from broken_kernels import BROKEN, KEPT, Broken, copy, lazily, shared_past  # noqa: E402
from kernels import GOLDEN, PRODUCT, gemm, plain, vector_add  # noqa: E402

FOLDER = HERE.parent / "golden"
# A vector, shuffles and an atomic, everything else; a bulk copy and a wait for it, instructions of whole warps.
CHECKED = {
    **{name: GOLDEN[name] for name in ("vector_add_4", "block_sum", "mixed")},
    "bulk_copy": lambda: plain(HOPPER["bulk_to_past"].kernel("bulk_copy")), "whole_warps": lambda: plain(whole_warps()),
}  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- text
@pytest.mark.parametrize("name", CHECKED)
def test_golden(name: str, update_golden: bool) -> None:
    path, text = FOLDER / f"checked_{name}.cu", text_of(CHECKED[name](), checked=True)
    if update_golden:
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), "run with --update-golden and review the difference"


@pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None, reason="needs NVRTC"
)
@pytest.mark.parametrize("name", [*CHECKED, *HOPPER])
def test_it_compiles(name: str) -> None:
    from amk.synth.compile import compile_cubin

    kernel = CHECKED[name]() if name in CHECKED else HOPPER[name].kernel(name)
    assert compile_cubin(text_of(kernel, checked=True), kernel.target, name=kernel.name).resources.registers > 0


@pytest.mark.parametrize("name", GOLDEN)
def test_without_its_tests_a_checked_build_is_the_plain_one(name: str) -> None:
    """The same statements in the same order, but for the offsets, which are always of 64 bits."""
    kernel = GOLDEN[name]()
    params = tuple(p.model_copy(update={"offsets": "i64"}) for p in kernel.params)
    plain_text = text_of(kernel.model_copy(update={"params": params}))
    got = [
        x for x in _lines(_without_tests(text_of(kernel, checked=True))) if not x.startswith(("amk_size", "amk_hold"))
    ]
    assert got == [x for x in _lines(plain_text) if "the launcher checks" not in x]


def _lines(text: str) -> list[str]:
    """What the body says, without brackets: those round a value go with its test."""
    body = text.partition('extern "C"')[2].partition("{\n")[2]
    return [x for line in body.splitlines() if (x := re.sub(r"[(){}]", "", line).strip())]


def _without_tests(text: str) -> str:
    """The text with every test taken out again."""
    while found := re.search(r"amk_(in|given|aligned|dense|run|forward)\(", text.partition('extern "C"')[2]):
        start = text.index('extern "C"') + len('extern "C"') + found.start()
        end = start + found.end() - found.start()
        depth = 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[:start] + "@" + text[end:]
    text = re.sub(r"@(?: && @)*", "@", text)
    text = re.sub(r"if \(@\) \{ (.*) \} else \{ .* \}$", r"\1", text, flags=re.M)
    text = re.sub(r"@ \? (.*?) : 0(?:\.0f)?(?=[,;)])", r"\1", text)
    text = re.sub(r"\(threadIdx\.x % 32 >= \d+ \|\| \(?@\)?\)", "@", text)  # lanes whose address nobody reads
    text = re.sub(r"@ \? (.*?) : (?:shared_|\(?shared_ \+ \d+\)?)(?=[,)])", r"\1", text)
    text = re.sub(r"\(@ \? (amk_tile<[^>]*>\([^()]*\)) : amk_tile<[^>]*>\([^()]*\)\)", r"\1", text)
    text = re.sub(r"amk_wait_phase(_cluster)?_or_fault\(faults_, ", r"amk_wait_phase\1(", text)
    return text.replace("__all_sync(0xffffffffu, @)", "@").replace("if (@)", "").replace(" && @", "")


def test_what_constants_decide_is_not_tested() -> None:
    """A register at a constant index, and a scalar that is no size."""
    text = text_of(vector_add(4), checked=True)
    body = text.partition('extern "C"')[2]
    assert body.count("amk_in(") == 3 and body.count("amk_given(") == 3 and body.count("amk_size(") == 1


def test_an_index_that_is_wrong_for_all_is_tested() -> None:
    k = KernelBuilder("wrong", target="sm_80", threads=32)
    r = k.registers("r", "f32", (4,))
    k.store(r[4], 1.0)
    assert "if (amk_in(faults_, 0, 0, 0, 4, 4, 1)) {" in text_of(k.finish(grid=(1,)), checked=True)


def test_offsets_of_32_bits_are_computed_in_64() -> None:
    kernel = GOLDEN["mixed"]()
    assert "&low[t * 2]" in text_of(kernel) and "&low[(long long)t * 2LL]" in text_of(kernel, checked=True)


def test_facts_are_decided_in_64_bits() -> None:
    """A product of two sizes leaves 32 bits."""
    k = KernelBuilder("facts", target="sm_80", threads=32)
    m, n = k.size("m"), k.size("n")
    x = k.tensor("x", "f32", (m * n,), access="write")
    k.assume(m * n < 2**31)
    k.store(x[k.t], 1.0)
    text = text_of(k.finish(grid=(1,)), checked=True)
    assert "amk_holds(faults_, 3, (long long)m * (long long)n < 2147483648LL);" in text
    assert "amk_in(faults_, 4, 0, 0, t, (long long)m * (long long)n, 1)" in text


def test_render_takes_a_certificate_in_both_forms() -> None:
    certificate = certify(plain(vector_add(4)))
    assert "amk_in(" in render(certificate, checked=True).text and "amk_" not in _body(render(certificate).text)[:600]


def _body(text: str) -> str:
    return text.partition('extern "C"')[2].replace("amk_load", "").replace("amk_store", "")


@pytest.mark.parametrize("make", [
    lambda: wgmma_gemm(WgmmaSchedule()), lambda: gemm(), lambda: build(*PRODUCT["gemm_split"], Target.find("sm_80")),
], ids=["wgmma", "ring", "split"])  # fmt: skip
def test_places_are_numbered_in_program_order(make: Callable[[], KernelDescriptor]) -> None:
    """Parameters first. Each test has the number of the statement whose author's place ends its line, or the next."""
    kernel = make()
    statements = [s for _, s in walk(kernel.body)]
    seen, waiting = set(), list[int]()
    for line in text_of(kernel, checked=True).partition('extern "C"')[2].splitlines():
        code, _, place = line.partition("  // ")
        waiting += [int(n) - len(kernel.params) for n in re.findall(r"amk_(?!size)\w+\(faults_, (\d+)", code)]
        if place:
            assert all(statements[n].at == place for n in waiting), line
            seen |= set(waiting)
            waiting.clear()
    assert not waiting and len(seen) > 5


@pytest.mark.parametrize("cluster", [1, 2])
def test_a_warp_specialised_kernel_is_checked_too(cluster: int) -> None:
    """Waits give up, copies stand behind tests, tiles and matrices have a start to fall back to, stores vote."""
    text = text_of(wgmma_gemm(WgmmaSchedule(cluster=cluster)), checked=True)
    body = text.partition('extern "C"')[2]
    assert "amk_wait_phase(" not in body and "amk_wait_phase_or_fault(faults_, shared_ + " in body
    lines = body.splitlines()
    before = [lines[i - 1] for i, line in enumerate(lines) if line.strip().startswith("amk_tma_load")]
    assert before and all("amk_run(" in x and re.search(r"amk_aligned\([^)]*&.*, 128\)", x) for x in before)
    assert body.count("? amk_tile<") == 2 * body.count("amk_wgmma_") and "__all_sync(0xffffffffu, amk_in(" in body
    assert ("amk_in(faults_, 51, -1, -1, lane, 2, 1)" in body) == (cluster == 2)
    arrivals = [lines[i - 1] for i, line in enumerate(lines) if line.strip().startswith("amk_arrive")]
    assert arrivals and all("amk_in(" in x for x in arrivals) and body.count("amk_size(") == 4


# ------------------------------------------------------------------------------------------------------------- records
def record(count: int = 1, index: int = 0, limit: int = 0, *rest: int) -> bytes:
    """kind, place, operand, dimension, thread, block x, y, z after the first three."""
    return struct.pack("<Q2q8i", count, index, limit, *rest)


def test_nothing_failed() -> None:
    assert first_fault(copy(), bytes(RECORD_BYTES)) is None


def test_records_become_words() -> None:
    kernel = shared_past()
    fault, count = first_fault(kernel, record(3, 32, 32, 0, 6, 0, 0, 31, 4, 5, 6)) or pytest.fail("nothing failed")
    said = "bounds at /body/3 in block (4, 5, 6), thread 31: s[t + 1]: index 0 is 32, outside 0..31"
    assert (str(fault), count, fault.values["limit"]) == (said, 3, 32)
    fault, _ = first_fault(kernel, record(1, 5, 0, 4, 0, -1, -1, 0, 0, 0, 0)) or pytest.fail("nothing failed")
    assert fault.pointer == "/params/0" and "n = 5 is outside what was proved" in fault.message
    fault, _ = first_fault(kernel, record(1, -8, -4, 1, 5, 1, -1, 0, 0, 0, 0)) or pytest.fail("nothing failed")
    assert fault.message == "x[t]: byte -8 of x, whose memory begins at byte -4"
    fault, _ = first_fault(kernel, record(1, 9, 2, 0, 5, -1, -1, 0, 0, 0, 0)) or pytest.fail("nothing failed")
    assert fault.message == "blocks of the cluster: 9, outside 0..1"


@pytest.mark.parametrize("name", GOLDEN)
def test_every_operand_has_its_number(name: str) -> None:
    """What is printed stands for an operand of that statement: numbers are read back from the text."""
    kernel = GOLDEN[name]()
    statements = [s for _, s in walk(kernel.body)]
    found = re.findall(r"amk_(?:in|given|aligned|dense)\(faults_, (\d+), (\d+), ", text_of(kernel, checked=True))
    assert found
    for place, operand in found:
        s = statements[int(place) - len(kernel.params)]
        assert int(operand) < len(operands(kernel, s)), s


# --------------------------------------------------------------------------------------------------- the interpreter
def arrays(b: Broken, kernel: KernelDescriptor) -> dict[str, np.ndarray]:
    """x holds its indices, z `KEPT`."""
    n = b.sizes["n"]
    x, step = np.arange(b.lengths.get("x", n), dtype=np.float32), b.sizes.get("step", 1)
    return {"x": x[::step], "z": np.full(n, KEPT, np.float32)}


@pytest.mark.parametrize("name", [n for n, b in BROKEN.items() if b.in_interpreter])
def test_the_interpreter_finds_the_same_in_the_same_words(name: str) -> None:
    b = BROKEN[name]
    kernel = b.kernel(name)
    with pytest.raises(Fault) as caught:
        run(kernel, {**arrays(b, kernel), **b.sizes}, detect=True, watch=frozenset((b.kind,)))
    fault = caught.value
    assert (fault.kind, fault.message, fault.threads, fault.block) == (b.kind, b.said, (b.thread,), (b.block, 0, 0))


def test_a_value_that_is_not_chosen_is_not_looked_at() -> None:
    kernel, z = lazily(), np.full(32, KEPT, np.float32)
    run(kernel, {"n": 32, "x": z.copy(), "z": z}, detect=True)
    assert z[:5].tolist() == [1, 2, 3, 4, 0.5]
    assert "(t < 4) ? (amk_in(" in text_of(kernel, checked=True)
