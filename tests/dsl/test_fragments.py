"""The meanings of the matrix rows, element by element from the formulas of the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest

from amk.dsl.instructions import ROWS
from amk.dsl.instructions import fragments as f
from amk.dsl.instructions.meanings import add, bf16_bits, maximum, minimum

RNG = np.random.default_rng(5)


def half(value, dtype):
    return int(bf16_bits(np.float32(value))) if dtype == "bf16" else int(np.float16(value).view(np.uint16))


def test_every_row_has_a_meaning():
    assert all(callable(r.numpy()) for r in ROWS.values())


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_and_stmatrix(n, trans):
    rows = RNG.integers(0, 1 << 16, (n, 2, 8, 8), np.uint16)
    name = f"x{n}" + (".trans" if trans else "")
    got = ROWS[f"ldmatrix.{name}"].numpy()(rows)
    assert got.shape == (n, 2, 32)
    for m in range(n):
        for lane in range(32):
            r, c = lane // 4, 2 * (lane % 4)
            low, high = (rows[m, 1, c, r], rows[m, 1, c + 1, r]) if trans else (rows[m, 1, r, c], rows[m, 1, r, c + 1])
            assert got[m, 1, lane] == int(low) | int(high) << 16
    assert np.array_equal(ROWS[f"stmatrix.{name}"].numpy()(got), rows)


def fragment_a(matrix, lane, k, dtype):
    """Registers of one lane for a 16 x k matrix (PTX ISA: a_i of mma.m16n8k4, k8 and k16)."""
    g, t = lane // 4, lane % 4
    if dtype == "tf32":
        places = [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)][: k // 2]
        return [int(np.float32(matrix[p]).view(np.uint32)) for p in places]
    out = []
    for r in range(k // 4):
        row, col = g + 8 * (r % 2), 2 * t + 8 * (r // 2)
        out.append(half(matrix[row, col], dtype) | half(matrix[row, col + 1], dtype) << 16)
    return out


def fragment_b(matrix, lane, k, dtype):
    """Registers of one lane for a k x 8 matrix."""
    g, t = lane // 4, lane % 4
    if dtype == "tf32":
        return [int(np.float32(matrix[t + 4 * r, g]).view(np.uint32)) for r in range(k // 4)]
    pairs = [(2 * t + 8 * r, 2 * t + 8 * r + 1) for r in range(k // 8)]
    return [half(matrix[i, g], dtype) | half(matrix[j, g], dtype) << 16 for i, j in pairs]


@pytest.mark.parametrize("k, dtype", [(8, "f16"), (16, "f16"), (8, "bf16"), (16, "bf16"), (4, "tf32"), (8, "tf32")])
def test_mma(k, dtype):
    a, b, c = (RNG.integers(-8, 8, s).astype(np.float32) for s in ((16, k), (k, 8), (16, 8)))
    registers = [np.array([make(x, lane, k, dtype) for lane in range(32)], np.uint32).T[:, None]
                 for make, x in ((fragment_a, a), (fragment_b, b))]  # fmt: skip
    places = [(lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2) for i in range(4) for lane in range(32)]
    acc = np.array([c[p] for p in places], np.float32).reshape(4, 1, 32)
    got = ROWS[f"mma.m16n8k{k}.{dtype}"].numpy()(acc, *registers)
    want = np.array([(a @ b + c)[p] for p in places]).reshape(4, 1, 32)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("n", [8, 64, 256])
def test_wgmma(n):
    a, b = RNG.integers(-4, 4, (64, 16)).astype(np.float32), RNG.integers(-4, 4, (16, n)).astype(np.float32)
    acc = RNG.integers(-4, 4, (n // 2, 128)).astype(np.float32)
    got, product = f.wgmma(acc, a, b, True), a @ b
    for e in range(n // 2):
        for t in range(0, 128, 5):
            row = 16 * (t // 32) + t % 32 // 4 + 8 * (e // 2 % 2)
            assert got[e, t] == acc[e, t] + product[row, 8 * (e // 4) + 2 * (t % 4) + e % 2]
    assert np.array_equal(f.wgmma(acc, a, b, False), got - acc)


def test_wgmma_operand_in_registers():
    a = RNG.integers(-8, 8, (64, 16)).astype(np.float32)
    lanes = [fragment_a(a[16 * w : 16 * w + 16], lane, 16, "bf16") for w in range(4) for lane in range(32)]
    assert np.array_equal(f.wgmma_a(np.array(lanes, np.uint32).T, "bf16"), a)


def test_tf32_ignores_the_lower_bits():
    a, b = np.zeros((4, 1, 32), np.uint32), np.zeros((2, 1, 32), np.uint32)
    a[...], b[...] = 0x3F801FFF, 0x3F800000  # a little more than 1, and 1
    assert (f.mma_tf32(np.zeros((4, 1, 32), np.float32), a, b) == 8).all()


def test_reductions():
    x, y = (bf16_bits(np.array(v, np.float32)) for v in ([1.0, 256.0], [2.0, 1.0]))
    assert np.array_equal(f.decode(add(x, y, "bf16"), "bf16"), [3.0, 256.0])  # 257 is no bf16, and ties go to even
    i, j = np.array([1, -5], np.int32), np.array([2**31 - 1, 3], np.int32)
    assert add(i, j, "i32").tolist() == [-(2**31), -2]
    assert minimum(i, j, "i32").tolist() == [1, -5] and maximum(i, j, "i32").tolist() == [2**31 - 1, 3]
