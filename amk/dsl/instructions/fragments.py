"""NumPy meanings of the matrix rows: 8 x 8 matrices spread over a warp, products of fragments, and wgmma.

Registers come as [registers, warps, 32 lanes] and 16-bit elements as their bits. Lane l holds, of an 8 x 8 matrix,
elements 2 (l % 4) and the next of row l // 4 in one 32-bit register, the first in the lower half.
Source: PTX ISA, Warp Level Matrix Instructions (fragments of mma.m16n8k16, m16n8k8, m16n8k4) and wgmma.mma_async.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "decode", "ldmatrix", "ldmatrix_trans", "mma_bf16", "mma_f16", "mma_tf32", "stmatrix", "stmatrix_trans", "wgmma",
    "wgmma_a",
]  # fmt: skip

Array = NDArray[Any]


def decode(bits: Array, dtype: str) -> Array:
    """float32 of 16-bit elements (f16 as such or as bits)."""
    if np.asarray(bits).dtype == np.float16:
        return np.asarray(bits).astype(np.float32)
    if dtype == "bf16":
        return (np.asarray(bits, np.uint32) << np.uint32(16)).view(np.float32)
    return np.ascontiguousarray(bits, np.uint16).view(np.float16).astype(np.float32)


def ldmatrix(rows: Array) -> Array:
    """Registers [n, warps, 32] of matrices [n, warps, 8, 8] (16-bit elements)."""
    wide = np.asarray(rows).astype(np.uint32)
    pairs = wide[..., 0::2] | wide[..., 1::2] << np.uint32(16)  # [n, warps, row, pair]
    return pairs.reshape(*pairs.shape[:-2], 32)


def ldmatrix_trans(rows: Array) -> Array:
    """As `ldmatrix`, rows and columns exchanged."""
    return ldmatrix(np.swapaxes(rows, -1, -2))


def stmatrix(values: Array) -> Array:
    """Matrices [n, warps, 8, 8] (16-bit elements) of registers [n, warps, 32]."""
    pairs = np.asarray(values).astype(np.uint32).reshape(*np.shape(values)[:-1], 8, 4)
    out = np.empty((*pairs.shape[:-1], 8), np.uint16)
    out[..., 0::2], out[..., 1::2] = pairs & np.uint32(0xFFFF), pairs >> np.uint32(16)
    return out


def stmatrix_trans(values: Array) -> Array:
    """As `stmatrix`, rows and columns exchanged."""
    return np.swapaxes(stmatrix(values), -1, -2)


def _halves(registers: Array, dtype: str) -> Array:
    """[registers, warps, 32, elements] as float32: two 16-bit elements a register, or one tf32."""
    bits = np.asarray(registers).astype(np.uint32)
    if dtype == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)[..., None]  # its lower 13 bits are not looked at
    return decode(np.stack([bits & np.uint32(0xFFFF), bits >> np.uint32(16)], -1), dtype)


def _a_matrix(a: Array, dtype: str) -> Array:
    """[warps, 16, k] of the first operand's registers: register r holds rows + 8 (r % 2) of block r // 2 of k."""
    x = _halves(a, dtype)
    n, warps, _, per = x.shape
    x = x.reshape(n // 2, 2, warps, 8, 4, per)  # [k block, row half, warp, row, lane of the row, element]
    return x.transpose(2, 1, 3, 0, 4, 5).reshape(warps, 16, n // 2 * 4 * per)


def _b_matrix(b: Array, dtype: str) -> Array:
    """[warps, k, 8] of the second operand's registers: lane l holds column l // 4."""
    x = _halves(b, dtype)
    n, warps, _, per = x.shape
    return x.reshape(n, warps, 8, 4, per).transpose(1, 0, 3, 4, 2).reshape(warps, n * 4 * per, 8)


def _mma(acc: Array, a: Array, b: Array, dtype: str) -> Array:
    product = np.matmul(_a_matrix(a, dtype), _b_matrix(b, dtype))  # [warps, 16, 8]
    warps = product.shape[0]
    spread = product.reshape(warps, 2, 8, 4, 2).transpose(1, 4, 0, 2, 3).reshape(4, warps, 32)
    out: Array = np.asarray(acc, np.float32) + spread
    return out


def mma_f16(acc: Array, a: Array, b: Array) -> Array:
    """acc [4, warps, 32] + a b, of f16 fragments."""
    return _mma(acc, a, b, "f16")


def mma_bf16(acc: Array, a: Array, b: Array) -> Array:
    """acc [4, warps, 32] + a b, of bf16 fragments."""
    return _mma(acc, a, b, "bf16")


def mma_tf32(acc: Array, a: Array, b: Array) -> Array:
    """acc [4, warps, 32] + a b, of tf32 fragments."""
    return _mma(acc, a, b, "tf32")


@lru_cache(maxsize=64)
def _accumulator(n: int) -> Array:
    """Element row * n + column of a 64 x n tile that register e of thread t holds, [n / 2, 128]."""
    e, t = np.arange(n // 2)[:, None], np.arange(128)
    row = t // 32 * 16 + t % 32 // 4 + 8 * (e // 2 % 2)
    return row * n + 8 * (e // 4) + 2 * (t % 4) + e % 2


def wgmma(acc: Array, a: Array, b: Array, scale_d: bool) -> Array:
    """acc [n / 2, 128] := a [64, 16] b [16, n], added to acc with `scale_d`; f32 sums of exact products."""
    product: Array = np.matmul(a, b).reshape(-1)[_accumulator(b.shape[1])]
    return np.asarray(acc, np.float32) + product if scale_d else product


def wgmma_a(registers: Array, dtype: str) -> Array:
    """The 64 x 16 first operand that the registers [4, 128] of a warpgroup hold."""
    return _a_matrix(np.asarray(registers).reshape(4, 4, 32), dtype).reshape(64, 16)
