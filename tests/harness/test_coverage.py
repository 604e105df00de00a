"""Coverage and global races: every output element once; the mutants that miss, double or race are refused."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import both, cdiv, eq, maximum, minimum, select
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.dsl.text import parse
from amk.harness.check import check
from amk.harness.context import Context
from amk.harness.coverage import CoverageResult


def _kernels():  # type: ignore[no-untyped-def]
    name = "amk_test_kernels"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / "kernels.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


K = _kernels()


def covered(kernel: KernelDescriptor) -> CoverageResult:
    return Context(kernel, Target.find("A100")).coverage


GOOD = {
    "vector_add": ("structure", lambda: K.vector_add()),
    "transpose": ("structure", lambda: K.transpose()),
    "reduce": ("structure", lambda: K.block_reduce()),
    "gemm": ("structure", lambda: K.gemm_async(3)),
    "staged": ("structure", lambda: K.gemm_staged()),
    "grid_stride": ("structure", lambda: K.grid_stride()),
    "grid_stride_vector": ("structure", lambda: _grid_stride(4, "n", 4)),
    "reduce_atomic": ("structure", lambda: K.block_reduce(atomic=True)),
    "backwards": ("structure", lambda: _backwards(1)),
    "backwards_tiled": ("structure", lambda: _backwards(32)),
    "walk": ("structure", lambda: _walk("cdiv(n, 64)", "i*64 + t")),
    "two_halves": ("enumeration", lambda: _two_halves(48)),
    "raster": ("structure", lambda: K.raster_tiles()),
    "raster_3": ("structure", lambda: K.raster_tiles(group=3)),
    "raster_fixed": ("structure", lambda: _raster_fixed(4)),
    "split_sum": ("structure", lambda: _split_sum()),
    "in_place": ("structure", lambda: _in_place(0)),
}
BAD = {
    "guard_short": ("AMK401", lambda: K.vector_add(guard=1)),
    "shifted": ("AMK401", lambda: K.vector_add(shift=1, guard=1)),
    "overlap": ("AMK402", lambda: K.vector_add(tile=128)),
    "gaps": ("AMK401", lambda: K.vector_add(tile=512)),
    "grid_short": ("AMK401", lambda: K.vector_add(short=1)),
    "transpose_grid": ("AMK401", lambda: K.transpose(grid_short=True)),
    "raster_short": ("AMK401", lambda: K.raster_tiles(short=1)),
    "stride_too_small": ("AMK402", lambda: K.grid_stride(step=255)),
    "stride_too_large": ("AMK401", lambda: K.grid_stride(step=257)),
    "reads_neighbour": ("AMK304", lambda: _in_place(1)),
    "reads_beyond_writers": ("AMK304", lambda: _read_by_all()),
    "raster_fixed_wrong": ("AMK402", lambda: _raster_fixed(3)),
    "backwards_shifted": ("AMK401", lambda: _backwards(32, shift=1)),
    "walk_short": ("AMK401", lambda: _walk("n // 64", "i*64 + t")),
    "walk_overlaps": ("AMK402", lambda: _walk("cdiv(n, 32)", "i*32 + t")),
    "walk_in_place": ("AMK402", lambda: _walk("cdiv(n, 64)", "t")),
    "stride_ends_early": ("AMK401", lambda: _grid_stride(1, "n - n // 5000", 1)),
    "never": ("AMK401", lambda: _never()),
    "all_blocks": ("AMK402", lambda: _all_blocks()),
    "mixed": ("AMK306", lambda: _mixed()),
    "data_guard": ("AMK008", lambda: _data_guard()),
}


UNDECIDED = {
    "two_halves_of_any_size": lambda: _two_halves(0),
    # Each goes wrong at some size above those that are tried.
    "turns_back": lambda: _late(lambda i, n: select(i < 5000, i, 0)),
    "stops_at_5000": lambda: _late(lambda i, n: minimum(i, 5000)),
    "skips_one": lambda: _late(lambda i, n: i - i // 5000),
    "late_guard": lambda: _late(lambda i, n: i, guard=5000),
    "late_race": lambda: _late_race(),
    "huge_grid": lambda: _huge_grid(),
}


def _backwards(tile: int, shift: int = 0) -> KernelDescriptor:
    """Rows from the last to the first, `tile` rows a block."""
    k = KernelBuilder("backwards", target="sm_80", threads=32 * tile)
    n = k.size("n")
    y = k.tensor("y", "f32", (n, 32), access="write")
    row = k.let("row", n - 1 - (k.bx * tile + k.t // 32))
    with k.when(row >= shift):
        k.store(y[row, k.t % 32], 0.0)
    return k.finish(grid=(cdiv(n, tile),))


def _walk(trips: str, index: str) -> KernelDescriptor:
    """One block, a loop over tiles of 64."""
    k = KernelBuilder("walk", target="sm_80", threads=64)
    n = k.size("n")
    y = k.tensor("y", "f32", (n,), access="write")
    with k.loop("i", 0, parse(trips)), k.when(parse(index) < n):
        k.store(y[parse(index)], 1.0)
    return k.finish(grid=(1,))


def _grid_stride(width: int, top: str, multiple: int) -> KernelDescriptor:
    """Vectors of zeros, by 8 blocks of 64 threads."""
    k = KernelBuilder("grid_stride", target="sm_80", threads=64)
    n = k.size("n", multiple_of=multiple)
    y = k.tensor("y", "f32", (n,), access="write", align=16)
    with k.loop("i", (k.bx * 64 + k.t) * width, parse(top), 8 * 64 * width) as i:
        k.store(y[i.var], *["0.0"] * width)
    return k.finish(grid=(8,))


def _two_halves(size: int) -> KernelDescriptor:
    """Even elements by one store, odd ones by another."""
    k = KernelBuilder("two_halves", target="sm_80", threads=32)
    n = size or k.size("n")
    y = k.tensor("y", "f32", (n,), access="write")
    i = k.let("i", k.bx * 32 + k.t)
    with k.when(i < n):
        with k.when(eq(i % 2, 0)):
            k.store(y[i], 1.0)
        with k.when(eq(i % 2, 1)):
            k.store(y[i], 2.0)
    return k.finish(grid=(cdiv(n, 32),))


def _late(index, guard: int = 0) -> KernelDescriptor:  # type: ignore[no-untyped-def]
    k = KernelBuilder("late", target="sm_80", threads=128)
    n = k.size("n")
    y = k.tensor("y", "f32", (n,), access="write")
    i = k.let("i", k.bx * 128 + k.t)
    with k.when(i < n):
        if guard:
            with k.when(i < guard):
                k.store(y[index(i, n)], 1.0)
        else:
            k.store(y[index(i, n)], 1.0)
    return k.finish(grid=(cdiv(n, 128),))


def _late_race() -> KernelDescriptor:
    k = KernelBuilder("late_race", target="sm_80", threads=128)
    n = k.size("n")
    y, a = k.tensor("y", "f32", (n,), access="readwrite"), k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 128 + k.t)
    with k.when(i < n):
        k.load(a[0], y[minimum(i + select(n > 7000, 1, 0), n - 1)])
        k.store(y[i], a[0])
    return k.finish(grid=(cdiv(n, 128),))


def _huge_grid() -> KernelDescriptor:
    """More blocks than can be walked, all but the first without work."""
    k = KernelBuilder("huge_grid", target="sm_80", threads=128)
    n = k.size("n", max=128)
    y = k.tensor("y", "f32", (n,), access="write")
    with k.when(both(eq(k.bx, 0), k.t < n)):
        k.store(y[k.t], 1.0)
    return k.finish(grid=(2**31 - 1, 65535, 65535))


def _in_place(shift: int) -> KernelDescriptor:
    k = KernelBuilder("in_place", target="sm_80", threads=128)
    n = k.size("n")
    y, a = k.tensor("y", "f32", (n,), access="readwrite"), k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 128 + k.t)
    with k.when(i < n):
        k.load(a[0], y[i + shift], when=i + shift < n, other=0.0)
        k.store(y[i], a[0])
    return k.finish(grid=(cdiv(n, 128),))


def _read_by_all() -> KernelDescriptor:
    """Sixteen threads write, the other sixteen read what those write."""
    k = KernelBuilder("read_by_all", target="sm_80", threads=32)
    n = k.size("n", multiple_of=16)
    y, a = k.tensor("y", "f32", (n,), access="readwrite"), k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 16 + k.t % 16)
    k.load(a[0], y[i])
    with k.when(k.t < 16):
        k.store(y[i], 1.0)
    return k.finish(grid=(n // 16,))


def _raster_fixed(group: int) -> KernelDescriptor:
    """8 x 6 tiles of 8 x 8, walked in groups of rows."""
    k = KernelBuilder("raster_fixed", target="sm_80", threads=64)
    y = k.tensor("y", "f32", (64, 48), access="write")
    within = k.bx % (6 * group)
    row, col = (k.bx // (6 * group) * group + within % group) * 8, within // 4 * 8
    k.store(y[row + k.t // 8, col + k.t % 8], 1.0)
    return k.finish(grid=(48,))


def _split_sum() -> KernelDescriptor:
    k = KernelBuilder("split_sum", target="sm_80", threads=64)
    n = k.size("n")
    y = k.tensor("y", "f32", (n,), access="add")
    with k.when(k.bx * 64 + k.t < n):
        k.atomic("add", y[k.bx * 64 + k.t], 1.0)
    return k.finish(grid=(cdiv(n, 64), 4))


def _never() -> KernelDescriptor:
    k = KernelBuilder("never", target="sm_80", threads=32)
    n = k.size("n")
    k.tensor("y", "f32", (n,), access="write")
    return k.finish(grid=(1,))


def _all_blocks() -> KernelDescriptor:
    k = KernelBuilder("all_blocks", target="sm_80", threads=32)
    y = k.tensor("y", "f32", (32,), access="write")
    k.store(y[k.t], 1.0)
    return k.finish(grid=(2,))


def _mixed() -> KernelDescriptor:
    k = KernelBuilder("mixed", target="sm_80", threads=32)
    y = k.tensor("y", "i32", (32,), access="add")
    k.store(y[k.t], 1)
    k.atomic("add", y[31 - k.t], 1)
    return k.finish(grid=(1,))


def _data_guard() -> KernelDescriptor:
    k = KernelBuilder("data_guard", target="sm_80", threads=32)
    y, a = k.tensor("y", "f32", (32,), access="write"), k.registers("a", "f32", (1,))
    k.store(a[0], 1.0)
    with k.when(a[0] > 0.0):
        k.store(y[k.t], 1.0)
    return k.finish(grid=(1,))


@pytest.mark.parametrize("name", GOOD)
def test_correct_kernels_are_covered(name: str) -> None:
    by, make = GOOD[name]
    result = covered(make())
    assert [f.message for f in result.faults] == []
    assert [o.by for o in result.obligations] == [by]


@pytest.mark.parametrize("name", BAD)
def test_broken_kernels_are_refused(name: str) -> None:
    code, make = BAD[name]
    result = covered(make())
    assert code in {f.code for f in result.faults}, [f.message for f in result.faults]
    assert not result.obligations


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_holds_at_small_sizes_alone_is_not_proved(name: str) -> None:
    kernel = UNDECIDED[name]()
    result = covered(kernel)
    assert [(f.code, f.severity) for f in result.faults] == [("AMK401", "undecided")], result.faults
    assert not result.obligations
    report = check(kernel)
    assert not report.ok and (report.undecided or report.errors)


def test_unwritten_element_is_named_with_sizes() -> None:
    f = covered(K.vector_add(guard=1)).of("AMK401")[0]
    assert f.counterexample["i0"] == f.counterexample["n"] - 1
    assert "never written" in f.message


def test_double_write_names_both_threads() -> None:
    f = covered(K.vector_add(tile=128)).of("AMK402")[0]
    assert {"bx", "t", "bx2", "t2", "n"} <= f.counterexample.keys()
    assert "two threads" in f.message and f.related


def test_a_tensor_that_is_only_read_needs_nothing() -> None:
    k = KernelBuilder("reads", target="sm_80", threads=32)
    x, a = k.tensor("x", "f32", (32,)), k.registers("a", "f32", (1,))
    k.load(a[0], x[k.t])
    result = covered(k.finish(grid=(1,)))
    assert not result.faults and not result.obligations


def test_fixed_sizes_are_covered_by_structure() -> None:
    k = KernelBuilder("fixed", target="sm_80", threads=32)
    y = k.tensor("y", "f32", (4, 64), access="write", align=8)
    k.store(y[k.bx, k.t * 2], 1.0, 2.0)
    assert [o.by for o in covered(k.finish(grid=(4,))).obligations] == ["structure"]


def test_an_element_is_not_overwritten_while_a_copy_still_reads_it():
    """cp.async reads its source at some time before the wait; a store of the same thread does not wait for that."""

    def in_place():
        k = KernelBuilder("late", target="sm_80", threads=128)
        n = k.size("n")
        y, s = k.tensor("y", "f32", (n,), access="readwrite"), k.shared("s", "f32", (128,))
        i = k.let("i", k.bx * 128 + k.t)
        with k.when(i < n):
            k.call("cp.async.4", {"dst": s[k.t], "src": y[i]})
            k.store(y[i], 0.0)
        k.commit()
        k.wait(pending=0)
        return k.finish(grid=(cdiv(n, 128),))

    assert {d.code for d in check(in_place()).errors} == {"AMK304"}


def _summed(where: str, size: int) -> KernelDescriptor:
    """Atomic sums of every thread into one element, or into the bin that data name."""
    k = KernelBuilder("summed", target="sm_80", threads=64)
    n = k.size("n")
    x = k.tensor("x", "i32", (n,))
    out, a = k.tensor("out", "i32", (size,), access="add"), k.registers("a", "i32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        k.load(a[0], x[i])
        k.atomic("add", out[0 if where == "one" else minimum(maximum(a[0], 0), size - 1)], 1)
    return k.finish(grid=(cdiv(n, 64),))


@pytest.mark.parametrize(("where", "size"), [("one", 1), ("data", 8)])
def test_sums_into_zeroes_may_go_anywhere(where: str, size: int) -> None:
    assert check(_summed(where, size)).ok


def test_an_element_that_never_gets_a_sum_is_told() -> None:
    assert [f.code for f in covered(_summed("one", 8)).faults] == ["AMK401"]


def _rows(step: int = 64, start: int = 0, width: int = 1, multiple: int = 1) -> KernelDescriptor:
    """One block a row, its columns walked by all threads."""
    k = KernelBuilder("rows", target="sm_80", threads=64)
    m, n = k.size("m"), k.size("n", multiple_of=multiple)
    x = k.tensor("x", "f32", (m, n), align=16)
    y, a = k.tensor("y", "f32", (m, n), access="write", align=16), k.registers("a", "f32", (width,))
    with k.loop("j", k.t * width + start, n, step * width) as j:
        k.load(a[0], x[k.bx, j.var], width=width)
        k.store(y[k.bx, j.var], *(a[i] + 1.0 for i in range(width)))
    return k.finish(grid=(m,))


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        (_rows(), ""), (_rows(width=4, multiple=4), ""), (_rows(step=65), "AMK401"), (_rows(step=128), "AMK401"),
        (_rows(step=63), "AMK402"), (_rows(start=1), "AMK401"),
    ],
)  # fmt: skip
def test_rows_whose_columns_all_threads_walk(kernel: KernelDescriptor, code: str) -> None:
    result = covered(kernel)
    assert [f.code for f in result.faults] == ([code] if code else [])
    assert code or [o.by for o in result.obligations] == ["structure"]
