"""Pure functions of the instruction table, held against the manual: 16-bit floats, pairs of them, and powers of two.

The same body runs on the CPU executor and on a GPU. What is expected is worked out in rational numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import amk
from amk.dsl.expr import apply, cdiv
from amk.dsl.instructions import PURE

F32 = np.float32
FORMATS = {
    "bf16": (8, -133, 128),
    "f16": (11, -24, 16),
}  # significant bits, lowest bit of a subnormal, 2**top is too large


def nearest(x: float, bits: int, lowest: int, top: int) -> float:
    """The nearest number of a format, ties to even; a NaN stays one."""
    if math.isnan(x) or math.isinf(x) or x == 0:
        return x
    value = abs(Fraction(x))
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > value
    step = Fraction(2) ** max(exponent - bits + 1, lowest)
    found = round(value / step) * step  # Python rounds ties to even
    return math.copysign(math.inf if found >= Fraction(2) ** top else float(found), x)


def numbers(dtype: str) -> Any:
    """Ends, ties and their neighbours in the format, subnormals and noise, as float32; an even count."""
    bits, lowest, top = FORMATS[dtype]
    rng = np.random.default_rng(bits)
    half = 2.0**-bits
    ends = [0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**lowest, 2.0 ** (lowest - 1), 1.5 * 2.0**lowest,
            float(np.finfo(F32).max), 2.0**-149, float((2 - 2 * half) * 2.0 ** (top - 1)), 1.0]  # fmt: skip
    ties = 1 + np.arange(1, 40) * half  # every second one lies in the middle of two
    top_tie = (2 - half) * 2.0 ** (top - 1)  # where rounding becomes infinite
    near = [np.nextafter(F32(v), F32(to)) for v in (*ties, top_tie) for to in (0.0, math.inf)]
    noise = rng.standard_normal(3000) * 2.0 ** rng.integers(-30, 20, 3000)
    found = np.array([*ends, *ties, *-ties, top_tie, -top_tie, *near, *noise], np.float64)
    with np.errstate(over="ignore"):
        out = found.astype(F32)
    return out[: len(out) // 2 * 2]


def mapped(x_type: str, out_type: str, count: int, term: Any) -> Any:
    """out[i] = term(registers), of `count` neighbours of x."""
    k = amk.KernelBuilder("mapped", target="sm_80", threads=64)
    n = k.size("n", max=1 << 20)
    x, out = k.tensor("x", x_type, (n, count)), k.tensor("out", out_type, (n,), access="write")
    r, i = k.registers("r", x_type, (count,)), k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        for j in range(count):
            k.load(r[j], x[i, j])
        k.store(out[i], term(r))
    return k.finish(grid=(cdiv(n, 64),))


def same(got: Any, want: Any) -> bool:
    """Equal bit for bit, apart from which NaN it is."""
    bits = f"u{got.itemsize}"
    return bool(((got.view(bits) == want.view(bits)) | (np.isnan(got) & np.isnan(want))).all())


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_cast_rounds_to_nearest_even(execute: Any, dtype: str) -> None:
    """There and back again: every number of the format is one of f32."""
    x = numbers(dtype)
    run = execute(mapped("f32", "f32", 1, lambda r: f"f32({dtype}(r[0]))"))
    got, want = np.zeros_like(x), np.array([nearest(float(v), *FORMATS[dtype]) for v in x], F32)
    run(x=x[:, None].copy(), out=got)
    assert same(got, want), [(v, g, w) for v, g, w in zip(x, got, want, strict=True) if g != w][:5]


def test_what_is_stored_is_the_number(execute: Any) -> None:
    """f16 in memory, from f32 and from a constant, and read back."""
    x = numbers("f16")
    got = np.zeros(len(x), np.float16)
    execute(mapped("f32", "f16", 1, lambda r: "f16(r[0])"))(x=x[:, None].copy(), out=got)
    want = np.array([nearest(float(v), *FORMATS["f16"]) for v in x])
    assert same(got.astype(np.float64), want)
    wide = np.zeros(len(x), F32)
    execute(mapped("f16", "f32", 1, lambda r: "f32(r[0])"))(x=got[:, None].copy(), out=wide)
    assert same(wide, want.astype(F32))
    execute(mapped("f32", "f16", 1, lambda r: "0.1"))(x=x[:, None].copy(), out=got)
    assert (got == np.float16(0.1)).all()


def test_a_constant_in_bf16(execute: Any) -> None:
    """0.1 is 0x3DCD, the upper half of 0x3DCCCCCD rounded up."""
    k = amk.KernelBuilder("constant", target="sm_80", threads=32)
    z, h = k.tensor("z", "f32", (32,), access="write"), k.registers("h", "bf16", (1,))
    k.store(h[0], 0.1)
    k.store(z[k.t], "f32(h[0])")
    got = np.zeros(32, F32)
    execute(k.finish(grid=(1,)))(z=got)
    assert (got.view(np.uint32) == 0x3DCD0000).all()


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_pair_has_its_first_in_the_lower_half(execute: Any, dtype: str) -> None:
    x = numbers(dtype).reshape(-1, 2)
    got = np.zeros(len(x), np.uint32)
    execute(mapped("f32", "u32", 2, lambda r: apply(f"{dtype}x2", r[0], r[1])))(x=x, out=got)
    halves = got.view(np.uint16).reshape(-1, 2)
    wide = (halves.astype(np.uint32) << 16).view(F32) if dtype == "bf16" else halves.view(np.float16).astype(F32)
    want = np.array([[nearest(float(v), *FORMATS[dtype]) for v in row] for row in x], F32)
    assert same(wide, want)


def test_exp2(execute: Any) -> None:
    """Within 2 ** -22 of the value (ex2.approx.ftz.f32); subnormal numbers count as 0, before and after."""
    x = np.concatenate([
        [0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-149, -(2.0**-130), 1.0, -1.0, 127.0, 128.0, 200.0, -126.0,
         -149.0, -150.0, -1e30], np.linspace(-125.9, 127.9, 4000), np.random.default_rng(2).standard_normal(4000),
    ]).astype(F32)  # fmt: skip
    got = np.zeros_like(x)
    execute(mapped("f32", "f32", 1, lambda r: apply("exp2", r[0])))(x=x[:, None].copy(), out=got)
    with np.errstate(over="ignore"):
        want = np.exp2(x.astype(np.float64))
    huge, tiny = want >= 2.0**128, want < 2.0**-126
    assert np.isnan(got[np.isnan(x)]).all() and np.isposinf(got[huge]).all() and (np.abs(got[tiny]) < 2.0**-126).all()
    rest = ~(huge | tiny | np.isnan(x))
    assert (np.abs(got[rest] - want[rest]) <= 2.0**-22 * want[rest]).all()
    if execute.gpu:
        assert (got[tiny] == 0).all()


@pytest.mark.parametrize("name", ["bf16", "f16", "bf16x2", "f16x2", "exp2"])
def test_other_types_are_refused(name: str) -> None:
    """They take f32: from integers and 16-bit floats a cast says how."""
    for given in ("i32(t)", "h[0]"):
        k = amk.KernelBuilder("wrong", target="sm_80", threads=32)
        z, h = k.tensor("z", "f32", (32,), access="write"), k.registers("h", "f16", (1,))
        k.store(h[0], 1.0)
        k.store(z[k.t], f"f32({name}({', '.join([given] * PURE[name].arity)}))")
        assert {d.code for d in amk.check(k.finish(grid=(1,))).errors} == {"AMK004"}
