"""Advice: sectors, bank conflicts, widths and padding, each on the patterns that the guides name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Layout, Padded, Swizzle
from amk.dsl.target import Target
from amk.harness.advice import sectors
from amk.harness.advice_device import limiter, waves
from amk.harness.advice_shared import bank_conflicts, unused_padding
from amk.harness.advice_width import widths
from amk.harness.context import Context
from amk.harness.mend import mend
from amk.harness.rule import Rule

T = KernelBuilder.t


def context(kernel: KernelDescriptor, device: str = "") -> Context:
    return Context(kernel, Target.find(device or "sm_80"))


def _read(row: Callable[[Expr], Expr], col: Callable[[Expr], Expr]) -> KernelDescriptor:
    k = KernelBuilder("read", target="sm_80", threads=64)
    n = k.size("n", min=64)
    x, a = k.tensor("x", "f32", (n, n)), k.registers("a", "f32", (1,))
    k.load(a[0], x[row(k.t), col(k.t)])
    return k.finish(grid=(1,))


def test_rows_are_coalesced_and_columns_are_not() -> None:
    assert not list(sectors(context(_read(lambda t: t * 0, lambda t: t))))
    assert not list(sectors(context(_read(lambda t: t // 8, lambda t: t % 8))))  # whole sectors of four rows
    assert not list(sectors(context(_read(lambda t: t * 0, lambda t: t * 0))))  # a broadcast
    (f,) = sectors(context(_read(lambda t: t, lambda t: t * 0)))
    assert f.counterexample == {"sectors": 32, "ideal": 4}
    assert "stride n elements between neighbouring lanes" in f.message


def test_every_second_element_wastes_half() -> None:
    (f,) = sectors(context(_read(lambda t: t * 0, lambda t: t * 2)))
    assert f.counterexample == {"sectors": 8, "ideal": 4} and "stride 2 elements" in f.message


def _shared(
    column: bool, layout: Layout | None = None, width: int = 1, stride: int = 1, dtype: str = "f32"
) -> KernelDescriptor:
    k = KernelBuilder("shared", target="sm_80", threads=32)
    s, zeros = k.shared("s", dtype, (32, 256), layout=layout), [0.0] * width
    k.store(s[k.t, 0] if column else s[0, k.t * stride], *zeros)
    return k.finish(grid=(1,))


@pytest.mark.parametrize(
    ("kernel", "degree"),
    [
        (lambda: _shared(True), 32),
        (lambda: _shared(True, Padded(pad=1)), 1),
        (lambda: _shared(True, Swizzle(bits=5, base=0, shift=8)), 1),
        (lambda: _shared(True, Padded(pad=16)), 16),
        (lambda: _shared(False), 1),
        (lambda: _shared(False, stride=2), 2),
        (lambda: _shared(False, stride=0), 1),
        (lambda: _shared(False, width=2, stride=2), 1),
        (lambda: _shared(False, width=4, stride=4), 1),
        (lambda: _shared(False, width=4, stride=8), 2),
        (lambda: _shared(False, dtype="f16"), 1),
    ],
)
def test_degree_of_bank_conflicts(kernel: Callable[[], KernelDescriptor], degree: int) -> None:
    found = [f.counterexample["degree"] for f in bank_conflicts(context(kernel()))]
    assert found == ([degree] if degree > 1 else [])


def test_broadcast_is_free_and_lanes_under_a_condition_count_alone() -> None:
    k = KernelBuilder("few", target="sm_80", threads=32)
    s = k.shared("s", "f32", (32, 32))
    with k.when(k.t < 1):
        k.store(s[k.t, 0], 0.0)
    assert not list(bank_conflicts(context(k.finish(grid=(1,)))))


def test_padding_that_no_index_reaches() -> None:
    def kernel(columns: int) -> KernelDescriptor:
        k = KernelBuilder("pad", target="sm_80", threads=32)
        s = k.shared("s", "f32", (2, columns))
        k.store(s[0, k.t], 0.0)
        return k.finish(grid=(1,))

    (f,) = unused_padding(context(kernel(33)))
    assert f.counterexample == {"declared": 33, "used": 32}
    assert not list(unused_padding(context(kernel(32))))


def test_vector_width_left_on_the_table_only_where_it_fits() -> None:
    def kernel(align: int, factor: int) -> KernelDescriptor:
        k = KernelBuilder("narrow", target="sm_80", threads=32)
        x, a = k.tensor("x", "f32", (512,), align=align), k.registers("a", "f32", (4,))  # type: ignore[arg-type]
        with k.loop("j", 0, 4, unroll="full") as j:
            k.load(a[j.var], x[k.t * factor + j.var])
        return k.finish(grid=(1,))

    assert [f.counterexample["width"] for f in widths(context(kernel(16, 4)))] == [4]
    assert [f.counterexample["width"] for f in widths(context(kernel(8, 4)))] == [2]
    assert not list(widths(context(kernel(4, 4))))
    assert not list(widths(context(kernel(16, 5))))


def test_a_pitch_can_make_it_worse_and_is_no_fault_of_the_pattern() -> None:
    """Rows of 8 floats are whole sectors where the pitch is a multiple of 8; rows of 2 waste most of one anyhow."""
    assert not list(sectors(context(_read(lambda t: t // 8, lambda t: t % 8))))
    (f,) = sectors(context(_read(lambda t: t // 2, lambda t: t % 2)))
    assert "moves 16 to 18 sectors where 4 would do" in f.message
    assert f.counterexample["sectors"] == 18 and f.counterexample["n"] % 8


def test_a_declared_divisor_of_the_pitch_is_taken_into_account() -> None:
    k = KernelBuilder("whole", target="sm_80", threads=32)
    n = k.size("n", min=64, multiple_of=8)
    x, a = k.tensor("x", "f32", (n, n)), k.registers("a", "f32", (1,))
    k.load(a[0], x[k.t // 2, k.t % 2])
    (f,) = sectors(context(k.finish(grid=(1,))))
    assert "moves 16 sectors where 4 would do" in f.message and "n" not in f.counterexample


def test_each_access_is_told() -> None:
    """A suppression names one statement; what one line of a builder wrote is joined where it is shown."""
    k = KernelBuilder("alike", target="sm_80", threads=32)
    x, a = k.tensor("x", "f32", (32, 64)), k.registers("a", "f32", (16,))
    s = k.shared("s", "f32", (32, 32))
    for i in range(8):
        k.load(a[i], x[k.t, i * 3])
        k.store(s[k.t, i], a[i])
    kernel = context(k.finish(grid=(1,)))
    assert [f.pointer for f in sectors(kernel)] == [f"/body/{2 * i}" for i in range(8)]
    found = list(bank_conflicts(kernel))
    assert [f.pointer for f in found] == [f"/body/{2 * i + 1}" for i in range(8)]
    assert found[0].counterexample["passes"] == 32 and found[0].counterexample["least"] == 1


def test_lanes_that_a_load_leaves_out_do_not_count() -> None:
    k = KernelBuilder("some", target="sm_80", threads=64)
    s, a = k.shared("s", "f32", (64, 32)), k.registers("a", "f32", (1,))
    k.load(a[0], s[k.t, 0], when=k.t % 32 < 2, other=0.0)
    (f,) = bank_conflicts(context(k.finish(grid=(1,))))
    assert f.counterexample["passes"] == 2


def test_the_warp_that_takes_part_is_looked_at() -> None:
    k = KernelBuilder("second", target="sm_80", threads=64)
    s = k.shared("s", "f32", (64, 32))
    with k.when(k.t - 31 > 0):
        k.store(s[k.t, 0], 0.0)
    (f,) = bank_conflicts(context(k.finish(grid=(1,))))
    assert f.counterexample["degree"] == 32


def test_pairs_that_want_the_same_words_pay_no_more_than_a_plain_access() -> None:
    """Four rows a warp in one bank, as a GEMM reads a fragment: two passes a half instead of one of each quarter."""
    k = KernelBuilder("fragment", target="sm_80", threads=32)
    s, a = k.shared("s", "f32", (32, 32)), k.registers("a", "f32", (4,))
    k.load(a[0], s[k.t % 2 + k.t // 16 * 2, 0], width=4)
    assert not list(bank_conflicts(context(k.finish(grid=(1,)))))


def test_asynchronous_copies_are_left_out() -> None:
    k = KernelBuilder("copies", target="sm_80", threads=32)
    x, s = k.tensor("x", "f32", (32 * 128,), align=16), k.shared("s", "f32", (32, 128))
    k.call("cp.async.16", {"dst": s[k.t, 0], "src": x[k.t * 128]})
    assert not list(bank_conflicts(context(k.finish(grid=(1,)))))


@pytest.mark.parametrize(("pitch", "multiple", "width"), [(64, 1, 4), (66, 1, 2), (65, 1, 0), (0, 4, 4), (0, 2, 2)])
def test_a_pitch_decides_which_vector_fits(pitch: int, multiple: int, width: int) -> None:
    k = KernelBuilder("pitched", target="sm_80", threads=32)
    step = pitch or k.size("ld", min=64, multiple_of=multiple)
    x = k.tensor("x", "f32", (32, 64), strides=(step, 1), align=16)
    a = k.registers("a", "f32", (4,))
    with k.loop("j", 0, 4, unroll="full") as j:
        k.load(a[j.var], x[k.t, j.var])
    assert [f.counterexample["width"] for f in widths(context(k.finish(grid=(1,))))] == ([width] if width else [])


def _statements(
    offsets: tuple[int, ...], registers: tuple[int, ...] = (0, 1, 2, 3), *, align: int = 16, shared: bool = False,
    layout: Layout | None = None, store: bool = False, guarded: bool = False, dtype: str = "f32", step: int = 8,
) -> KernelDescriptor:  # fmt: skip
    """Single elements of a row, one statement after the other."""
    k = KernelBuilder("statements", target="sm_80", threads=32)
    if shared:
        x = k.shared("x", dtype, (4, 256), layout=layout, align=align)  # type: ignore[arg-type]
    else:
        x = k.tensor("x", dtype, (4, 256), align=align, access="write" if store else "read")  # type: ignore[arg-type]
    a = k.registers("a", dtype, (8,))
    for n, r in zip(offsets, registers, strict=True):
        if store:
            k.store(x[1, k.t * step + n], a[r])
        else:
            k.load(a[r], x[1, k.t * step + n], **({"when": k.t < n + 1, "other": 0.0} if guarded else {}))
    return k.finish(grid=(1,))


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        (_statements((0, 1, 2, 3)), [(0, 4)]),
        (_statements((0, 1, 2, 3), align=8), [(0, 2), (2, 2)]),
        (_statements((0, 1, 2, 3), align=4), []),
        (_statements((1, 2, 3, 4)), [(1, 2)]),  # 2 and 3 begin at a multiple of two
        (_statements((0, 2, 4, 6)), []),
        (_statements((3, 2, 1, 0)), []),
        (_statements((0, 1, 2, 3), (0, 1, 3, 2)), [(0, 2)]),  # a vector goes to neighbouring registers
        (_statements((0, 1, 2, 3), (0, 2, 4, 6)), []),
        (_statements((0, 1, 2, 3), (3, 1, 6, 0), store=True), [(0, 4)]),  # values may come from anywhere
        (_statements((0, 1, 2, 3), guarded=True), []),
        (_statements((0, 1, 2, 3), dtype="f64"), [(0, 2), (2, 2)]),
        (_statements((0, 1, 2, 3), shared=True), [(0, 4)]),
        (_statements((0, 1, 2, 3), shared=True, align=8), [(0, 4)]),  # the block's memory begins at 1,024 bytes
        (_statements((0, 1, 2, 3), shared=True, layout=Padded(pad=4)), [(0, 4)]),
        (_statements((0, 1, 2, 3), shared=True, layout=Padded(pad=1)), []),
        (_statements((0, 1, 2, 3), shared=True, layout=Swizzle(bits=3, base=2, shift=3)), [(0, 4)]),
        (_statements((0, 1, 2, 3), shared=True, layout=Swizzle(bits=3, base=1, shift=4)), [(0, 2), (2, 2)]),
    ],
)
def test_statements_that_a_vector_would_do(kernel: KernelDescriptor, found: list[tuple[int, int]]) -> None:
    got = [(int(f.pointer.rpartition("/")[2]), f.counterexample["width"]) for f in widths(context(kernel))]
    assert got == found
    whole = [p for p, n in found if n == 4]
    assert not whole or not list(sectors(context(kernel))), "said better by AMK505"


def test_an_index_that_a_load_before_may_have_changed_is_left_alone() -> None:
    k = KernelBuilder("chased", target="sm_80", threads=32)
    x, a = k.tensor("x", "i32", (64,), align=16), k.registers("a", "i32", (4,))
    for i in range(4):
        k.load(a[i], x[a[0] * 4 + i])
    with k.loop("j", 0, 4) as j:
        k.load(a[j.var], x[a[1] * 4 + j.var])
    assert not list(widths(context(k.finish(grid=(1,)))))


@pytest.mark.parametrize("store", [False, True])
def test_statements_in_a_row_are_mended_to_a_vector(store: bool) -> None:
    registers = (2, 0, 5, 1) if store else (0, 1, 2, 3)
    done = mend(_statements((0, 1, 2, 3), registers, store=store, step=4).to_json())
    (made,) = KernelDescriptor.from_json(done.text).body
    assert [r.finding.code for r in done.repairs] == ["AMK505"] and done.reports[0].warnings == ()
    if made.kind == "store":
        assert [str(e) for e in made.values] == [f"a[{i}]" for i in registers]
    else:
        assert made.kind == "load" and made.width == 4 and str(made.dst) == "a[0]"


@pytest.mark.parametrize(("layout", "width"), [(None, 4), (Padded(pad=4), 4), (Padded(pad=2), 2), (Padded(pad=1), 0)])
def test_a_loop_over_shared_memory_that_a_vector_would_do(layout: Layout | None, width: int) -> None:
    k = KernelBuilder("narrow", target="sm_80", threads=32)
    s, a = k.shared("s", "f32", (32, 64), layout=layout), k.registers("a", "f32", (4,))
    with k.loop("j", 0, 4, unroll="full") as j:
        k.load(a[j.var], s[k.t, j.var + 8])
    assert [f.counterexample["width"] for f in widths(context(k.finish(grid=(1,))))] == ([width] if width else [])


# ------------------------------------------------------------------------------------------------- the whole device
def _block(threads: int = 128, shared_bytes: int = 0, grid: object = 1, cluster: int = 1) -> KernelDescriptor:
    k = KernelBuilder("block", target="sm_90a", threads=threads)
    n = k.size("n", min=1, max=4096)
    if shared_bytes:
        k.shared("s", "i8", (shared_bytes,))
    made = k.finish(grid=(n if grid == "n" else grid,))  # type: ignore[arg-type]
    return made.model_copy(update={"cluster": cluster})


H200, A100 = Target.find("h200"), Target.find("a100")


@pytest.mark.parametrize(
    ("kernel", "registers", "words"),
    [
        (_block(64, 120 << 10), 32, "2 of an SM's 4 schedulers have a warp: 122,880 bytes of shared memory"),
        (_block(96, 120 << 10), 32, "3 of an SM's 4"),
        (_block(128, 124 << 10), 32, ""),  # one warp each, and far from a second block
        (_block(128, 115 << 10), 32, "1 blocks fit on an SM, limited by 117,760 bytes of shared memory; with 2,048"),
        (_block(128, 113 << 10), 32, ""),
        (_block(768, 115 << 10), 32, "with 2,048 bytes less 2 would"),
        (_block(32), 32, ""),  # 32 blocks are the limit
        (_block(1024), 32, ""),
        (_block(704), 32, ""),  # 2 blocks are 44 of 64 warps, and 20 are left: less than a third
        (_block(128), 136, ""),  # what the estimate says is not that exact
    ],
)
def test_what_limits_occupancy(kernel: KernelDescriptor, registers: int, words: str) -> None:
    found = limiter(kernel, H200, registers)
    assert (words in found.message and found.hint) if words and found else not found and not words


def test_a_block_size_that_leaves_a_third_of_the_warps() -> None:
    found = limiter(_block(1024), Target.find("rtx-3090"), 32)
    assert found and "blocks of 1024 threads use 32 of the 48 warps" in found.message and "1536" in found.hint


def test_a_step_of_registers_is_told_of_a_measured_count() -> None:
    found = limiter(_block(128), H200, 136, measured=True)
    assert found and "limited by 136 registers a thread; with 128 it would be 4" in found.message
    assert limiter(_block(128), H200, 137, measured=True) is None  # nine less are no small step
    assert limiter(_block(128), H200, 64, measured=True) is None  # half of the warps are enough


@pytest.mark.parametrize(
    ("kernel", "target", "words"),
    [
        (_block(1024, grid=264), H200, ""),
        (_block(1024, grid=270), H200, "270 blocks take 2 waves of 264 (2 an SM), the last with 6: 48 % of the places"),
        (_block(1024, grid=400), H200, ""),  # 24 %
        (_block(1024, grid=60), H200, "60 blocks leave 72 of 132 SMs without one"),
        (_block(1024, grid=67), H200, ""),
        (_block(1024, grid=264, cluster=8), H200, ""),
        (_block(1024, grid=280, cluster=8), H200, "2 waves of 264"),
        (_block(1024, grid="n"), H200, ""),  # some size has a last wave of one block, whatever is done
        (_block(1024, grid=270), Target.find("sm_90a"), ""),  # nobody knows its SMs
    ],
)
def test_waves(kernel: KernelDescriptor, target: Target, words: str) -> None:
    most = 4096 if str(kernel.grid[0]) == "n" else int(str(kernel.grid[0]))
    found = waves(kernel, target, 32, (most, 1, 1))
    assert (words in found.message) if words and found else not found and not words


def test_a_grid_that_is_small_for_every_size() -> None:
    found = waves(_block(128, grid="n"), H200, 32, (60, 1, 1))
    assert found and "60 blocks, the most for any size, leave 72 of 132 SMs without one" in found.message


def _rules() -> list[type[Rule]]:
    from importlib import import_module
    from pathlib import Path

    import amk.harness.rules as package

    wanted = (202, 206, 207, *range(301, 307), 308, 401, 402, *range(501, 507))
    folder = Path(package.__path__[0])
    files = [next(folder.glob(f"amk{n}_*.py")) for n in wanted]
    return [
        getattr(import_module(f"amk.harness.rules.{f.stem}"), f"AMK{n}") for f, n in zip(files, wanted, strict=True)
    ]


@pytest.mark.parametrize("rule", _rules(), ids=lambda r: r.code)
def test_each_rule_finds_its_bad_kernel_and_passes_its_good_one(rule: type[Rule]) -> None:
    found = list(rule().check(context(rule.bad(), rule.device)))
    assert found and {d.code for d in found} == {rule.code}
    assert list(rule().check(context(rule.good(), rule.device))) == []
    for section in ("Why:", "Proof:", "Bad:", "Good:", "Source:"):
        assert section in (rule.__doc__ or "")


@pytest.mark.parametrize("rule", _rules(), ids=lambda r: r.code)
def test_the_bad_kernel_shows_this_fault_alone(rule: type[Rule]) -> None:
    found = {d.code for r in _rules() for d in r().check(context(rule.bad())) if d.severity == "error"}
    assert found == ({rule.code} if rule.severity == "error" else set())
