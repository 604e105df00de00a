"""Tensor maps: what is wrong with a declaration, whatever the sizes; and what has to hold for all sizes.

Source: CUDA Driver API, cuTensorMapEncodeTiled: the requirements on its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amk.dsl.expr import Const, apply
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Param, TensorMap
from amk.dsl.types import DTYPES, nbytes

if TYPE_CHECKING:
    from amk.harness.bounds import Prover

__all__ = ["check_maps", "map_faults"]

MOST_BOX = 256  # elements along one dimension
MOST_EXTENT, MOST_STRIDE = 1 << 32, 1 << 40  # elements of the tensor; bytes between neighbours
DTYPES_OF_MAPS = tuple(n for n in DTYPES if n not in ("bool",))


def map_faults(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Pointer and message of what is wrong with each tensor map, for any sizes."""
    for i, m in enumerate(kernel.maps):
        yield from ((f"/maps/{i}", message) for message in _faults(kernel, m))


def _faults(kernel: KernelDescriptor, m: TensorMap) -> Iterator[str]:
    d = kernel.declarations.get(m.tensor)
    if not isinstance(d, Param) or d.shape is None:
        yield f"{m.name}: {m.tensor} is no tensor in global memory"
        return
    if len(d.shape) != len(m.box):
        yield f"{m.name}: a box of {len(m.box)} dimensions, and {d.name} has {len(d.shape)}"
    if any(not 1 <= n <= MOST_BOX for n in m.box):
        yield f"{m.name}: box {list(m.box)}; a box has 1 to {MOST_BOX} elements in each dimension"
    if d.dtype not in DTYPES_OF_MAPS:
        yield f"{m.name}: {d.name} is {d.dtype}, which a tensor map cannot hold; use u8"
    inner = m.box[-1] * nbytes(d.dtype)
    if m.swizzle and inner != m.swizzle:
        fits = m.swizzle // nbytes(d.dtype)
        yield f"{m.name}: rows of {inner} bytes, and a swizzle over {m.swizzle}; make the last extent {fits}"
    elif inner % 16:
        yield f"{m.name}: rows of {inner} bytes; a box has rows of a multiple of 16 bytes"
    if m.fill == "nan" and DTYPES[d.dtype].family != "float":
        yield f"{m.name}: {d.name} is {d.dtype}, which has no NaN to fill with; use fill zero"
    if kernel.strides_of(d)[-1] != Const(1):
        yield f"{m.name}: the last stride of {d.name} is {kernel.strides_of(d)[-1]}; a tensor map needs 1"


def check_maps(p: Prover) -> None:
    """What the driver asks of a map, as claims for all sizes: base, extents and strides (in bytes)."""
    kernel = p.context.kernel
    for i, m in enumerate(kernel.maps):
        d = kernel.declarations[m.tensor]
        assert isinstance(d, Param) and d.shape is not None
        _base(p, f"/maps/{i}", m, d)
        for n, size in enumerate(d.shape):
            what = f"{m.name}: extent {size} of {d.name}"
            at, term = f"/maps/{i}", p.inline(size)
            hint = "a launch with an empty tensor has no tensor map: raise the size's min"
            p.require("AMK209", at, apply("-", term, 1), f"{what} >= 1", f"{what} can be 0 or negative", hint)
            goal = apply("-", MOST_EXTENT, term)
            p.require("AMK209", at, goal, f"{what} <= 2**32", f"{what} can exceed 2**32", "lower the size's max")
            if n < len(d.shape) - 1:
                _stride(p, at, m, d, n)


def _base(p: Prover, at: str, m: TensorMap, d: Param) -> None:
    from amk.harness.bounds import Finding

    if d.align % 16:
        message = f"{m.name}: the base of {d.name} guarantees {d.align} bytes of alignment, and a tensor map needs 16"
        p.findings.append(Finding("AMK209", at, message, hint=f"declare {d.name} with align=16"))
    else:
        p.note("AMK209", at, f"{m.name}: the base of {d.name} is aligned to 16 bytes")


def _stride(p: Prover, at: str, m: TensorMap, d: Param, n: int) -> None:
    stride = p.context.kernel.strides_of(d)[n]
    step = apply("*", p.inline(stride), nbytes(d.dtype))
    what = f"{m.name}: stride {stride} of {d.name} ({nbytes(d.dtype)} bytes an element)"
    claim = f"{what} is a multiple of 16 bytes"
    if p.facts.divisor(step) % 16 == 0:
        p.note("AMK209", at, claim)
    else:
        message = f"{what} is not a multiple of 16 bytes for all sizes"
        hint = "state that the size is a multiple (multiple_of), or copy into a tensor whose rows are padded"
        p.require("AMK209", at, apply("-", 0, apply("%", step, 16)), claim, message, hint)
    low, high = apply("-", step, 16), apply("-", MOST_STRIDE - 1, step)
    p.require("AMK209", at, low, f"{what} >= 16 bytes", f"{what} can be 0 or negative", "raise the size's min")
    p.require("AMK209", at, high, f"{what} < 2**40 bytes", f"{what} can reach 2**40 bytes", "lower the size's max")
