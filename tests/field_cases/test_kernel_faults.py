"""Field cases A: kernel faults reported in public, as the smallest kernel that shows each, with the right outcome."""

from __future__ import annotations

import pytest

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Const, Expr, as_expr, both, cdiv, eq, maximum, minimum
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded
from amk.dsl.occupancy import allocated_registers, max_registers
from amk.dsl.target import Target
from amk.harness.check import check
from amk.harness.diagnostics import Diagnostic


def accepted(kernel: KernelDescriptor, target: str | None = None) -> None:
    """No error, nothing undecided."""
    report = check(kernel, target)
    assert report.ok and report.exit_code() == 0, report.diagnostics


def rejected(kernel: KernelDescriptor, code: str, target: str | None = None) -> Diagnostic:
    """The first error of a code; the report refuses the kernel."""
    report = check(kernel, target)
    assert report.exit_code() == 1, report.diagnostics
    found = [d for d in report.errors if d.code == code]
    assert found, [(d.code, d.message) for d in report.errors]
    return found[0]


# ------------------------------------------------------------------------------------------------------------------- A1
def one_stage(*, last: bool, rows: int | None) -> KernelDescriptor:
    """Sums of tiles of 64 through one shared stage; `last` is the barrier before the back edge."""
    k = KernelBuilder("one_stage", target="sm_80", threads=64)
    n = k.size("n") if rows is None else as_expr(rows)
    x, y = k.tensor("x", "f32", (n,)), k.tensor("y", "f32", (n,), access="write")
    s, a = k.shared("s", "f32", (64,)), k.registers("a", "f32", (1,))
    with k.loop("i", 0, cdiv(n, 64)) as i:
        at = i.var * 64 + k.t
        k.load(a[0], x[at], when=at < n, other=0.0)
        k.store(s[k.t], a[0])
        k.sync()
        k.load(a[0], s[63 - k.t])
        with k.when(at < n):
            k.store(y[at], a[0])
        if last:
            k.sync()
    return k.finish(grid=(1,))


def test_a1_slot_overwritten_while_it_is_read() -> None:
    """A1: no barrier before the back edge is a race between step i and i + 1, and one barrier cures it."""
    d = rejected(one_stage(last=False, rows=None), "AMK301")
    assert "s" in d.message and "i = 0 and i = 1" in d.message
    assert "end of the body of the loop over i" in d.hint
    assert {"t", "t2", "i"} <= set(d.counterexample) and d.counterexample["t"] != d.counterexample["t2"]
    assert rejected(one_stage(last=False, rows=65), "AMK301")
    accepted(one_stage(last=True, rows=None))


def test_a1_a_single_trip_needs_no_second_barrier() -> None:
    """A1, second variant: with one trip, nothing overtakes."""
    accepted(one_stage(last=False, rows=64))
    accepted(one_stage(last=False, rows=50))


# ------------------------------------------------------------------------------------------------------------------- A2
def guarded_barrier(cond: str) -> KernelDescriptor:
    """A barrier of 32 threads under a condition."""
    k = KernelBuilder("guarded_barrier", target="sm_80", threads=32)
    n = k.size("n")
    conds: dict[str, Expr] = {
        "thread": eq(k.t % 2, 0), "block": eq(k.bx % 2, 0), "argument": n > 100, "all": k.t < 32,
    }  # fmt: skip
    with k.when(conds[cond]):
        k.sync()
    return k.finish(grid=(8,))


def test_a2_barrier_under_a_thread_condition() -> None:
    """A2: 16 of 32 threads reach the barrier; the condition is named."""
    d = rejected(guarded_barrier("thread"), "AMK302")
    assert "16 of 32 threads" in d.message and "t % 2 == 0" in d.message


@pytest.mark.parametrize("cond", ["block", "argument", "all"])
def test_a2_barrier_under_a_uniform_condition(cond: str) -> None:
    """A2, second variant: a condition on the block or an argument is the same for all threads."""
    accepted(guarded_barrier(cond))


# ------------------------------------------------------------------------------------------------------------------- A4
def row_sums(k_size: int | None, *, guard: bool, rows: int = 130) -> KernelDescriptor:
    """Row sums of A[rows, K], K in tiles of 16, one element a thread; `guard` tests the K index."""
    k = KernelBuilder("k_tail", target="sm_80", threads=256)
    n = k.size("K", min=0) if k_size is None else as_expr(k_size)
    a = k.tensor("A", "f32", (rows, n))
    out = k.tensor("out", "f32", (rows, 16), access="write")
    r, acc = k.registers("r", "f32", (1,)), k.registers("acc", "f32", (1,))
    row, lane = k.let("row", k.bx * 16 + k.t // 16), k.let("lane", k.t % 16)
    k.store(acc[0], 0.0)
    with k.loop("k0", 0, n, 16) as k0:
        inside = row < rows
        k.load(r[0], a[row, k0.var + lane], when=both(inside, k0.var + lane < n) if guard else inside, other=0.0)
        k.store(acc[0], acc[0] + r[0])
    with k.when(row < rows):
        k.store(out[row, lane], acc[0])
    return k.finish(grid=(cdiv(as_expr(rows), 16),))


def test_a4_k_tail_without_a_guard() -> None:
    """A4: K = 56 in tiles of 16 without a test of k: step 48, lane 8 reads k = 56."""
    d = rejected(row_sums(56, guard=False), "AMK201")
    assert "56" in d.message and d.confirmed
    assert d.counterexample["k0"] == 48 and d.counterexample["t"] % 16 >= 8
    assert rejected(row_sums(None, guard=False), "AMK201").counterexample["K"] % 16


def test_a4_k_tail_with_a_guard_or_a_fixed_size() -> None:
    """A4: with the test and zero fill it passes, and without where K is fixed at 64 in the descriptor."""
    accepted(row_sums(56, guard=True))
    accepted(row_sums(None, guard=True))
    accepted(row_sums(64, guard=False))


# ------------------------------------------------------------------------------------------------------------------- A5
def matrix(m: int, n: int, offsets: str) -> KernelDescriptor:
    """y[row, col] = x[row, col] for an m x n matrix, offsets computed in 32 or 64 bits."""
    k = KernelBuilder("large", target="sm_80", threads=256)
    x = k.tensor("x", "f32", (m, n), offsets=offsets)  # type: ignore[arg-type]
    y, a = k.tensor("y", "f32", (m, n), access="write"), k.registers("a", "f32", (1,))
    col = k.let("col", k.bx * 256 + k.t)
    with k.when(col < n):
        k.load(a[0], x[k.by, col])
        k.store(y[k.by, col], a[0])
    return k.finish(grid=(cdiv(as_expr(n), 256), m))


def test_a5_offset_wraps_in_32_bits() -> None:
    """A5: 50,000 rows of 50,000: the largest offset is 2,499,999,999."""
    d = rejected(matrix(50_000, 50_000, "i32"), "AMK204")
    assert "2499999999" in d.message.replace(",", "") and "x" in d.message
    # Row 42,949, column 33,648 = 131 * 256 + 112 is element 2**31: the first that 32 bits do not reach.
    assert d.counterexample == {"by": 42_949, "bx": 131, "t": 112} and d.confirmed
    assert d.related[0].pointer == "/body/1/body/0"
    accepted(matrix(50_000, 50_000, "i64"))
    accepted(matrix(40_000, 50_000, "i32"))
    accepted(matrix(500, 500, "i32"))


def test_a5_batch_stride_reaches_exactly_two_to_the_31() -> None:
    """A5, second variant: batch 16,384 x stride 131,072 is 2**31; one batch fewer still fits."""
    d = rejected(matrix(16_385, 131_072, "i32"), "AMK204")
    assert d.counterexample == {"by": 16_384, "bx": 0, "t": 0} and d.confirmed
    accepted(matrix(16_384, 131_072, "i32"))


def test_a5_an_index_written_in_32_bits_wraps_too() -> None:
    """A5: the same product written as an index of a flat tensor is refused, although each element exists."""
    k = KernelBuilder("flat", target="sm_80", threads=256)
    x, a = k.tensor("x", "f32", (50_000 * 50_000,)), k.registers("a", "f32", (1,))
    with k.when(k.t < 1):
        k.load(a[0], x[k.bx * 50_000 + k.by])
    d = rejected(k.finish(grid=(50_000, 50_000)), "AMK204")
    assert "bx * 50000" in d.message


# ------------------------------------------------------------------------------------------------------------------- A6
def wide_loads(cols: int, pitch: int, align: int) -> KernelDescriptor:
    """fp16 rows read 16 bytes at a time, whole vectors only."""
    k = KernelBuilder("wide", target="sm_80", threads=64)
    m = k.size("m", max=4096)
    a = k.tensor("A", "f16", (m, cols), strides=(pitch, 1), align=align)  # type: ignore[arg-type]
    r = k.registers("r", "f16", (8,))
    with k.when(both(k.bx < m, k.t * 8 + 7 < cols)):
        k.load(r[0], a[k.bx, k.t * 8], width=8)
    return k.finish(grid=(m,))


@pytest.mark.parametrize(
    ("cols", "pitch", "align", "actual"),
    [
        (11, 11, 16, "every stride of A allow 2"), (64, 128, 2, "the base of A guarantees 2"),
        (64, 100, 16, "every stride of A allow 8"), (64, 128, 8, "the base of A guarantees 8"),
    ],
    ids=["odd K", "base at element 1", "pitch of 200 bytes", "base of 8 bytes"],
)  # fmt: skip
def test_a6_wide_load_on_a_narrow_address(cols: int, pitch: int, align: int, actual: str) -> None:
    """A6: the needed alignment and what falls short of it are named; the base counts, not only the index."""
    d = rejected(wide_loads(cols, pitch, align), "AMK205")
    assert "needs 16 bytes" in d.message and actual in d.message, d.message


def test_a6_aligned_rows_are_accepted() -> None:
    """A6: a pitch of 104 halves (13 x 16 bytes) and an aligned base."""
    accepted(wide_loads(64, 104, 16))
    accepted(wide_loads(64, 128, 16))


def test_a6_rows_of_three_halves() -> None:
    """A6 (i) as reported: K = 3 takes no 16-byte load at all."""
    k = KernelBuilder("three", target="sm_80", threads=64)
    m = k.size("m", min=64)
    a, r = k.tensor("A", "f16", (m, 3), align=16), k.registers("r", "f16", (8,))
    k.load(r[0], a[k.t, 0], width=8)
    rejected(k.finish(grid=(1,)), "AMK205")


# ------------------------------------------------------------------------------------------------------------------- A7
def tiles(stages: int) -> KernelDescriptor:
    """The shared memory of an fp16 GEMM with tiles of 128 x 256 x 64."""
    k = KernelBuilder("tiles", target="sm_80", threads=256)
    for name, rows in (("sa", 128), ("sb", 256)):
        s = k.shared(name, "f16", (stages, rows, 64))
        k.store(s[0, k.t % 128, 0], 0.0)
    return k.finish(grid=(1,))


@pytest.mark.parametrize(
    ("target", "limit", "four", "three"),
    [
        ("sm_80", 166912, False, True), ("sm_86", 101376, False, False), ("sm_89", 101376, False, False),
        ("sm_90", 232448, True, True),
    ],
)  # fmt: skip
def test_a7_shared_memory_of_this_target(target: str, limit: int, four: bool, three: bool) -> None:
    """A7: 196,608 bytes with 4 stages, 147,456 with 3; the message names required, limit and target."""
    name = Target.find(target).name
    for stages, need, fits in ((4, 196608, four), (3, 147456, three)):
        found = [d for d in check(tiles(stages), target).errors if d.code == "AMK103"]
        assert bool(found) is not fits
        for d in found:
            said = d.message.replace(",", "")
            assert str(need) in said and str(limit) in said and name in said, d.message


def test_a7_forty_eight_kib_and_a_little_more() -> None:
    """A7, third: 49,152 bytes and another array are one segment of 49,664 bytes, which every target gives."""
    k = KernelBuilder("more", target="sm_80", threads=128)
    s, extra = k.shared("s", "f32", (12288,)), k.shared("extra", "f32", (128,))
    k.store(s[k.t], 0.0)
    k.store(extra[k.t], 0.0)
    kernel = k.finish(grid=(1,))
    assert kernel.shared_bytes == 49152 + 512
    for target in Target.all():
        assert not [d for d in check(kernel, target).errors if d.code == "AMK103"]


# ------------------------------------------------------------------------------------------------------------------- A8
def accumulators(n: int, threads: int) -> KernelDescriptor:
    """n registers that all stay live."""
    k = KernelBuilder("accumulators", target="sm_80", threads=threads)
    x, y = k.tensor("x", "f32", (n * threads,)), k.tensor("y", "f32", (n * threads,), access="write")
    a = k.registers("a", "f32", (n,))
    for body in ("load", "store"):
        with k.loop(body, 0, n, unroll="full") as i:
            if body == "load":
                k.load(a[i.var], x[i.var * threads + k.t])
            else:
                k.store(y[i.var * threads + k.t], a[i.var])
    return k.finish(grid=(1,))


def test_a8_registers_times_threads() -> None:
    """A8: 162 registers x 512 threads is over the file of 65,536; the same tile with 256 threads fits."""
    d = rejected(accumulators(135, 512), "AMK104")
    assert "65536" in d.message.replace(",", "") and "512" in d.message and "128" in d.message
    accepted(accumulators(135, 256))
    accepted(accumulators(64, 512))


def test_a8_registers_are_given_out_in_lumps() -> None:
    """A8: 162 registers cost 168 a thread, and a division of the file by the threads is too lenient."""
    a100 = Target.find("a100")
    assert 162 * 512 == 82944 > 65536 and allocated_registers(a100, 512, 162) == 168 * 512
    assert max_registers(a100, 512) == 128
    assert max_registers(a100, 608) < 65536 // 608


# ------------------------------------------------------------------------------------------------------------------- A9
def layer_norm(rows: int, axis: str) -> KernelDescriptor:
    """One block a row, on grid x or y, for up to `rows` rows."""
    k = KernelBuilder("rows", target="sm_80", threads=32)
    n = k.size("rows", max=rows)
    y = k.tensor("y", "f32", (n, 32), access="write")
    k.store(y[k.by if axis == "y" else k.bx, k.t], 0.0)
    return k.finish(grid=(1, n) if axis == "y" else (n,))


def test_a9_rows_on_grid_y() -> None:
    """A9: 65,536 rows on y are refused with the largest size that fits; 65,535 pass."""
    d = rejected(layer_norm(65536, "y"), "AMK102")
    assert "65536" in d.message and "65535" in d.message and "rows = 65535" in d.message
    fine = check(layer_norm(65535, "y"))
    assert fine.ok and any(o.rule == "AMK102" and "65535" in o.claim for o in fine.obligations)


def test_a9_rows_on_grid_x() -> None:
    """A9: x takes 2**31 - 1 blocks."""
    accepted(layer_norm(65536, "x"))
    accepted(layer_norm(2**31 - 1, "x"))


# ------------------------------------------------------------------------------------------------------------------ A12
def pipeline(body: str, *, tail_commit: bool = True) -> KernelDescriptor:
    """Three slots of 64 elements filled by cp.async; `body` orders the steps of the loop by their first letters.

    i: issue the copy two steps ahead, m: commit, c: compute, w: wait for all but one group, b: barrier.
    """
    k = KernelBuilder("pipeline", target="sm_80", threads=64)
    n = k.size("n", min=0)
    x, y = k.tensor("x", "f32", (n,)), k.tensor("y", "f32", (n,), access="write")
    s, a = k.shared("s", "f32", (3, 64)), k.registers("a", "f32", (1,))
    steps = k.let("steps", cdiv(n, 64))

    def issue(step: Expr) -> None:
        at = step * 64 + k.t
        k.call("cp.async.4", {"dst": s[step % 3, k.t], "src": x[at]}, when=at < n)

    for p in (0, 1):
        issue(as_expr(p))
        k.commit()
    k.wait(pending=1)
    k.sync()
    with k.loop("i", 0, steps) as i:
        for step in body:
            if step == "i":
                with k.when(i.var + 2 < steps):
                    issue(i.var + 2)
                    if not tail_commit:
                        k.commit()
            elif step == "m" and tail_commit:
                k.commit()
            elif step == "c":
                k.load(a[0], s[i.var % 3, 63 - k.t])
                with k.when(i.var * 64 + k.t < n):
                    k.store(y[i.var * 64 + k.t], a[0])
            elif step == "w":
                k.wait(pending=1)
            elif step == "b":
                k.sync()
    k.wait(pending=0)
    return k.finish(grid=(1,))


def test_a12_commit_after_the_wait() -> None:
    """A12: issue / compute / wait / commit leaves the wait one group short."""
    d = rejected(pipeline("icwbm"), "AMK303")
    assert d.counterexample["i"] == 1 and "'s'" in d.message and "leaves 1 pending" in d.message
    assert "commit before the wait" in d.hint


def test_a12_commit_before_the_compute() -> None:
    """A12: issue / commit / compute / wait / barrier is right."""
    accepted(pipeline("imcwb"))


def test_a12_the_last_steps_have_fewer_groups_in_flight() -> None:
    """A12: with no empty commit at the end, the same wait count no longer covers the last tile."""
    rejected(pipeline("imcwb", tail_commit=False), "AMK303")


def test_a12_no_barrier_after_the_wait() -> None:
    """A12: the wait covers a thread's own copies; what the others copied needs the barrier."""
    report = check(pipeline("imcw"))
    assert report.exit_code() == 1 and {d.code for d in report.errors} <= {"AMK301", "AMK303"}


# ------------------------------------------------------------------------------------------------------------------ A15
def by_column(columns: int, pad: int) -> KernelDescriptor:
    """A 32 x 32 transpose of one tile, rows of `columns` declared and `pad` elements between rows."""
    k = KernelBuilder("by_column", target="sm_80", threads=1024)
    x = k.tensor("x", "f32", (32, 32), align=16)
    y = k.tensor("y", "f32", (32, 32), access="write")
    s, a = k.shared("s", "f32", (32, columns), layout=Padded(pad=pad)), k.registers("a", "f32", (1,))
    row, col = k.let("row", k.t // 32), k.let("col", k.t % 32)
    k.load(a[0], x[row, col])
    k.store(s[row, col], a[0])
    k.sync()
    k.load(a[0], s[col, row])
    k.store(y[row, col], a[0])
    return k.finish(grid=(1,))


@pytest.mark.parametrize(
    ("columns", "pad", "degree"), [(32, 0, 32), (32, 32, 32), (32, 16, 16), (32, 1, 1), (33, 0, 1)]
)
def test_a15_reads_by_column(columns: int, pad: int, degree: int) -> None:
    """A15: 32-way with a pitch of 32 or 64, 16-way with 48, none with 33; a warning, never a refusal."""
    report = check(by_column(columns, pad))
    assert report.ok and report.exit_code() == 0
    found = [d.counterexample["degree"] for d in report.warnings if d.code == "AMK502"]
    assert found == ([degree] if degree > 1 else [])


def test_a15_the_layout_decides_the_pitch() -> None:
    """A15: indices are tuples, so a declared 33 cannot be walked with 32; columns that no index reaches are told."""
    kernel = by_column(33, 0)
    assert kernel.shared_byte(Handle("s")[1, 0]) == kernel.shared_byte(Handle("s")[0, 33]) == Const(33 * 4)
    assert kernel.shared_bytes == 32 * 33 * 4
    (d,) = [d for d in check(kernel).warnings if d.code == "AMK506"]
    assert d.counterexample == {"declared": 33, "used": 32}
    assert not [d for d in check(by_column(32, 1)).diagnostics if d.code == "AMK506"]


def test_a15_rows_on_the_fast_index_are_uncoalesced() -> None:
    """A15, related: rows mapped to the fast thread index; a stride of N elements between neighbouring lanes."""
    k = KernelBuilder("naive", target="sm_80", threads=256)
    m, n = k.size("M", max=4096), k.size("N", max=4096)
    y = k.tensor("y", "f32", (m, n), access="write")
    row, col = k.let("row", k.bx * 16 + k.t % 16), k.let("col", k.by * 16 + k.t // 16)
    with k.when(both(row < m, col < n)):
        k.store(y[row, col], 0.0)
    report = check(k.finish(grid=(cdiv(m, 16), cdiv(n, 16))))
    assert report.exit_code() == 0
    assert any(d.code == "AMK501" and "stride N elements" in d.message for d in report.warnings), report.diagnostics


# ------------------------------------------------------------------------------------------------------------------ A17
def by_count(*, extra: int = 0, clamp: bool = False) -> KernelDescriptor:
    """Thread t takes ceil((n - t) / 128) steps (and `extra`) and reads x[t + 128 i]; n - t can be negative."""
    k = KernelBuilder("by_count", target="sm_80", threads=128)
    n = k.size("n")
    x, a = k.tensor("x", "f32", (n,)), k.registers("a", "f32", (1,))
    left = maximum(n - k.t, 0) if clamp else n - k.t
    with k.loop("i", 0, cdiv(left, 128) + extra) as i:
        k.load(a[0], x[k.t + i.var * 128])
    return k.finish(grid=(1,))


def test_a17_in_bounds_by_loop_count() -> None:
    """A17: the loop's count alone keeps the index in range; one step more does not."""
    for clamp in (False, True):
        accepted(by_count(clamp=clamp))
        d = rejected(by_count(extra=1, clamp=clamp), "AMK201")
        assert d.confirmed and "x" in d.message


def test_a17_rows_from_the_end() -> None:
    """A17: row n - 1 - b for 0 <= b < n is in range, row n - b is not."""

    def kernel(last: int) -> KernelDescriptor:
        k = KernelBuilder("reverse", target="sm_80", threads=32)
        n = k.size("n")
        y = k.tensor("y", "f32", (n, 32), access="write")
        k.store(y[n - last - k.bx, k.t], 0.0)
        return k.finish(grid=(n,))

    accepted(kernel(1))
    assert rejected(kernel(0), "AMK201").counterexample["bx"] == 0


def test_a17_clamped_indices() -> None:
    """A17: a product of two sizes, each index clamped below its own: in range without a guard."""
    k = KernelBuilder("clamped", target="sm_80", threads=32)
    n, m = k.size("n", max=46340), k.size("m", max=46340)
    x, a = k.tensor("x", "f32", (n * m,)), k.registers("a", "f32", (1,))
    k.load(a[0], x[minimum(k.bx, n - 1) * m + minimum(k.by, m - 1)])
    accepted(k.finish(grid=(n, m)))


def test_a17_not_proved_is_not_out_of_bounds() -> None:
    """A17: what no prover settles is told as undecided, with an exit code of its own and no counterexample."""
    k = KernelBuilder("ring", target="sm_80", threads=32)
    n = k.size("n")
    a = k.registers("a", "f32", (4,))
    with k.loop("i", 0, n, unroll=1, s=0) as loop:
        k.store(a[loop.s], 0.0)
        loop.next(s=(loop.s + 1) % 5)
    report = check(k.finish(grid=(1,)))
    assert report.exit_code() == 3 and not report.errors, report.diagnostics
    assert all(not d.counterexample and not d.confirmed for d in report.undecided)
