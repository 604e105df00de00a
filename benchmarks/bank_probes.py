"""Kernels of a few instructions, each with one access whose cost is known: what `bank_conflicts.py` holds against ncu.

Phases of a kernel are kept apart by barriers, and shared arrays are filled by arithmetic: nothing else is under way
where an access is counted, and the compiler joins or drops none (tests/harness/test_traffic.py reads the machine code).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Expr, apply
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Layout, Padded, Swizzle

__all__ = ["Probe", "probes"]

Index = Callable[[Expr], tuple[Expr, Expr]]


class Probe(NamedTuple):
    """A kernel, the arrays that it reads, and the shape and dtype of `z`, which it writes."""

    name: str
    kernel: KernelDescriptor
    inputs: dict[str, Any]
    output: tuple[int, ...]
    dtype: str = "i32"


def probes() -> list[Probe]:
    """Every kernel, in the order in which they run."""
    made = [*_loads(), *_stores(), *_matrices(), *_globals()]
    return [p(f"p{i:02d}") for i, p in enumerate(made)]


def _loads() -> Iterator[Callable[[str], Probe]]:
    """Loads from shared memory: 2, 4, 8 and 16 bytes a lane; strides, pads, swizzles, equal words, lanes left out."""

    def flat(stride: int) -> Index:
        return lambda t: (t * 0, t * stride)

    def row(f: Callable[[Expr], Expr], g: Callable[[Expr], Expr] | None = None) -> Index:
        return lambda t: (f(t), g(t) if g else t * 0)

    load = shared_load
    for stride in (1, 2, 3, 8, 32):
        yield partial(load, index=flat(stride), shape=(1, 128 * stride), tag=f"ld4_stride{stride}")
    yield partial(load, index=row(lambda t: t % 32, lambda t: t // 32), shape=(32, 32), tag="ld4_column")
    yield partial(load, index=row(lambda t: t % 32, lambda t: t // 32), shape=(32, 32), layout=Padded(pad=1),
                  tag="ld4_column_padded")  # fmt: skip
    yield partial(load, index=row(lambda t: t % 32, lambda t: t // 32), shape=(32, 32),
                  layout=Swizzle(bits=5, base=0, shift=5), tag="ld4_column_swizzled")  # fmt: skip
    yield partial(load, index=flat(0), shape=(1, 128), tag="ld4_broadcast")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 2 * 32), shape=(1, 2048), tag="ld4_pairs_of_column")
    yield partial(load, index=flat(32), shape=(1, 4096), when=lambda t: apply("<", t % 32, 5), tag="ld4_five_lanes")
    yield partial(load, index=flat(2), shape=(1, 96), threads=48, tag="ld4_half_a_warp_more")
    yield partial(load, index=flat(1), shape=(1, 128), dtype="f16", tag="ld2_stride1")
    for stride in (2, 4, 16, 34):
        yield partial(load, index=flat(stride), shape=(1, 128 * stride), width=2, tag=f"ld8_stride{stride}")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 2 * 2), shape=(1, 128), width=2, tag="ld8_pairs")
    yield partial(load, index=row(lambda t: t * 0, lambda t: (t % 2 + t // 4 * 2) * 2), shape=(1, 128), width=2,
                  tag="ld8_pairs_of_two")  # fmt: skip
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 4 * 2), shape=(1, 128), width=2, tag="ld8_fours")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 2 * 2), shape=(1, 128), width=2,
                  when=lambda t: apply("<", t % 2, 1), tag="ld8_even_lanes")  # fmt: skip
    for stride in (4, 8, 32, 36):
        yield partial(load, index=flat(stride), shape=(1, 128 * stride), width=4, tag=f"ld16_stride{stride}")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 2 * 4), shape=(1, 256), width=4, tag="ld16_pairs")
    yield partial(load, index=row(lambda t: t * 0, lambda t: (t % 2 + t // 4 * 2) * 4), shape=(1, 256), width=4,
                  tag="ld16_pairs_of_two")  # fmt: skip
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 8 * 4), shape=(1, 128), width=4, tag="ld16_eights")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t % 16 * 4), shape=(1, 128), width=4, tag="ld16_halves")
    yield partial(load, index=row(lambda t: t * 0, _half_pairs), shape=(1, 128), width=4, tag="ld16_half_pairs")
    lane_rows = row(lambda t: t % 2 + t % 32 // 16 * 2)  # as a GEMM reads a fragment of A: four rows a warp
    yield partial(load, index=lane_rows, shape=(32, 32), width=4, tag="ld16_fragment")
    yield partial(load, index=lane_rows, shape=(32, 32), layout=Padded(pad=4), width=4, tag="ld16_fragment_padded")
    yield partial(load, index=row(lambda t: t % 32), shape=(32, 32), width=4, layout=Swizzle(bits=3, base=2, shift=3),
                  tag="ld16_column_swizzled")  # fmt: skip
    yield partial(load, index=row(lambda t: t % 32), shape=(32, 32), width=4, tag="ld16_column")


def _half_pairs(t: Expr) -> Expr:
    """Neighbours want the same in the first half of a warp alone."""
    return apply("select", apply("<", t % 32, 16), t % 32 // 2 * 4, t % 32 * 4)


def _stores() -> Iterator[Callable[[str], Probe]]:
    """Stores to shared memory, each thread to its own place, and the same places read back."""
    for width, strides in ((1, (1, 2, 32, 33)), (2, (2, 4, 34)), (4, (4, 8, 36))):
        for n in strides:
            yield partial(shared_store, index=lambda t, n=n: t * n, size=128 * n, width=width,
                          tag=f"st{4 * width}_stride{n}")  # fmt: skip
    for n in (2, 4):  # half of the lanes, side by side: whether groups go together when they store
        yield partial(shared_store, index=lambda t, n=n: t // 2 * n, size=64 * n, width=n,
                      when=lambda t: apply("<", t % 2, 1), tag=f"st{4 * n}_even_lanes")  # fmt: skip


def _matrices() -> Iterator[Callable[[str], Probe]]:
    """ldmatrix and stmatrix: rows that lie close, far, padded and swizzled."""
    for pitch in (4, 8, 16, 32):
        yield partial(matrix_load, pitch=pitch, tag=f"ldm4_pitch{4 * pitch}")
    yield partial(matrix_load, pitch=32, layout=Padded(pad=4), tag="ldm4_padded")
    yield partial(matrix_load, pitch=32, layout=Swizzle(bits=3, base=2, shift=3), tag="ldm4_swizzled")
    yield partial(matrix_load, pitch=32, trans=True, tag="ldm4_trans")
    for matrices in (1, 2):
        yield partial(matrix_load, pitch=16, matrices=matrices, tag=f"ldm{matrices}_pitch64")
    yield partial(matrix_store, pitch=32, tag="stm4_pitch128")
    yield partial(matrix_store, pitch=32, layout=Padded(pad=4), tag="stm4_padded")


def _globals() -> Iterator[Callable[[str], Probe]]:
    """Global memory: strides, an offset, equal addresses, lanes left out, columns; 4, 8 and 16 bytes a lane."""
    for stride in (1, 2, 8, 16):
        yield partial(global_load, index=lambda t, s=stride: t * s, size=128 * stride, tag=f"gl4_stride{stride}")
    yield partial(global_load, index=lambda t: t + 3, size=160, tag="gl4_offset3")
    yield partial(global_load, index=lambda t: t // 32, size=32, tag="gl4_broadcast")
    yield partial(global_load, index=lambda t: t % 32 * 40 + t // 32, size=2048, tag="gl4_pitch40")
    yield partial(global_load, index=lambda t: t // 8 * 41 + t % 8, size=1024, tag="gl4_rows_of_8_pitch41")
    yield partial(global_load, index=lambda t: t, size=128, when=lambda t: apply("<", t % 4, 1), tag="gl4_every_fourth")
    yield partial(global_load, index=lambda t: t * 2, size=256, width=2, tag="gl8_stride2")
    yield partial(global_load, index=lambda t: t * 8, size=1024, width=2, tag="gl8_stride8")
    yield partial(global_load, index=lambda t: t * 4, size=512, width=4, tag="gl16_stride4")
    yield partial(global_load, index=lambda t: t * 8, size=1024, width=4, tag="gl16_stride8")
    yield partial(global_load, index=lambda t: t // 8 * 4, size=64, width=4, tag="gl16_eights")
    for columns in (1, 2, 8):
        yield partial(global_store, columns=columns, tag=f"gs4_columns{columns}")


def shared_load(
    name: str, *, index: Index, shape: tuple[int, int], tag: str, layout: Layout | None = None, width: int = 1,
    dtype: str = "i32", threads: int = 128, when: Callable[[Expr], Expr] | None = None,
) -> Probe:  # fmt: skip
    """Fills an array with its own indices, waits, and loads from it once: only the load's addresses matter."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=threads)
    s, r = k.shared("s", dtype, shape, layout=layout), k.registers("r", dtype, (width,))
    z = k.tensor("z", dtype, (threads, width), access="write", align=16)
    inputs = _fill(k, s, shape, threads, dtype)
    other: dict[str, Any] = {"when": when(k.t), "other": 0} if when else {}
    k.load(r[0], s[index(k.t)], width=width, **other)
    k.sync()
    k.store(z[k.t, 0], *(r[i] for i in range(width)))
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), inputs, (threads, width), dtype)


def _fill(k: KernelBuilder, s: Handle, shape: tuple[int, int], threads: int, dtype: str) -> dict[str, Any]:
    """Stores to each element its number, and waits. f16 has no arithmetic: those come from an array `x`, given back."""
    size, inputs = shape[0] * shape[1], dict[str, Any]()
    if dtype == "f16":
        inputs = {"x": np.arange(size).astype(np.float16)}
        x, r = k.tensor("x", "f16", (size,)), k.registers("v", "f16", (1,))
    for first in range(0, size, threads):
        at = k.t + first
        if dtype == "f16":
            k.load(r[0], x[at])
        value = r[0] if dtype == "f16" else at if dtype == "i32" else apply(dtype, at)
        k.store(s[at // shape[1], at % shape[1]], value)
    k.sync()
    return inputs


def shared_store(
    name: str, *, index: Callable[[Expr], Expr], size: int, width: int, tag: str,
    when: Callable[[Expr], Expr] | None = None,
) -> Probe:  # fmt: skip
    """Each thread stores `width` values at a place of its own, waits, and reads them back."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=128)
    s, r = k.shared("s", "i32", (size,)), k.registers("r", "i32", (width,))
    z = k.tensor("z", "i32", (128, width), access="write", align=16)
    with k.when(when(k.t)) if when else nullcontext():
        k.store(s[index(k.t)], *(k.t * width + i for i in range(width)))
    k.sync()
    other: dict[str, Any] = {"when": when(k.t), "other": 0} if when else {}
    k.load(r[0], s[index(k.t)], width=width, **other)
    k.sync()
    k.store(z[k.t, 0], *(r[i] for i in range(width)))
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {}, (128, width))


def matrix_load(
    name: str, *, pitch: int, tag: str, matrices: int = 4, trans: bool = False, layout: Layout | None = None
) -> Probe:  # fmt: skip
    """ldmatrix from rows of `pitch` words: lane l names row l of an array that every warp reads."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=128)
    s, r = k.shared("s", "u32", (32, pitch), layout=layout, align=128), k.registers("r", "u32", (matrices,))
    z = k.tensor("z", "u32", (128, matrices), access="write", align=16)
    _fill(k, s, (32, pitch), 128, "u32")
    k.call(f"ldmatrix.x{matrices}" + (".trans" if trans else ""), {"dst": r[0], "src": s[k.t % 32, 0]})
    k.sync()
    k.store(z[k.t, 0], *(r[i] for i in range(matrices)))
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {}, (128, matrices), "u32")


def matrix_store(name: str, *, pitch: int, tag: str, layout: Layout | None = None) -> Probe:
    """stmatrix to rows of `pitch` words, a row of its own for each thread, and the same rows read back."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_90", threads=128)
    s, r = k.shared("s", "u32", (128, pitch), layout=layout, align=128), k.registers("r", "u32", (4,))
    z = k.tensor("z", "u32", (128, 4), access="write", align=16)
    k.call("stmatrix.x4", {"dst": s[k.t, 0]}, **{f"v{i}": apply("u32", k.t * 4 + i) for i in range(4)})
    k.sync()
    k.load(r[0], s[k.t, 0], width=4)
    k.sync()
    k.store(z[k.t, 0], *(r[i] for i in range(4)))
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {}, (128, 4), "u32")


def global_load(
    name: str, *, index: Callable[[Expr], Expr], size: int, tag: str, width: int = 1,
    when: Callable[[Expr], Expr] | None = None,
) -> Probe:  # fmt: skip
    """Loads from global memory once."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=128)
    x, r = k.tensor("x", "i32", (size,), align=16), k.registers("r", "i32", (width,))
    z = k.tensor("z", "i32", (128, width), access="write", align=16)
    other: dict[str, Any] = {"when": when(k.t), "other": 0} if when else {}
    k.load(r[0], x[index(k.t)], width=width, **other)
    k.store(z[k.t, 0], *(r[i] for i in range(width)))
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {"x": np.arange(size, dtype=np.int32)}, (128, width))


def global_store(name: str, *, columns: int, tag: str) -> Probe:
    """Stores a row of `columns` elements a thread, one column after the other."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=128)
    z: Handle = k.tensor("z", "i32", (128, columns), access="write")
    for c in range(columns):
        k.store(z[k.t, c], k.t + c)
        k.sync()  # else the compiler joins neighbours to one wide store
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {}, (128, columns))
