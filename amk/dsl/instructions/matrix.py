"""ldmatrix, stmatrix and mma.sync: 8 x 8 matrices of 16-bit elements spread over a warp, and their products.

A matrix has eight rows of 16 bytes. Lane 8 i + r names the address of row r of matrix i; lane l holds elements
2 (l % 4) and 2 (l % 4) + 1 of row l // 4 of each matrix in one 32-bit register, the lower element in the lower half.
`.trans` exchanges rows and columns. Fragments of mma.sync are made of such matrices (PTX ISA, matrix fragments for
mma.m16n8k16 and m16n8k8).
"""

from __future__ import annotations

from amk.dsl.instructions.row import Arg, Operand, Row

__all__ = ["ROWS"]

_ISA = "PTX ISA, Warp Level Matrix Instructions: "
_MEANING = "amk.dsl.instructions.meanings:"
_HALVES = ("f16", "bf16", "u32")  # a row is 16 bytes of 16-bit elements, whatever they are called


def _load(n: int, trans: bool) -> Row:
    return Row(
        name=f"ldmatrix.x{n}" + (".trans" if trans else ""),
        family="ldmatrix",
        isa=_ISA + "ldmatrix",
        since=80,
        issuer="warp",
        operands=(
            Operand("dst", "write", "register", nbytes=4 * n, dtypes=("u32",)),
            Operand("src", "read", "shared", nbytes=16, align=16, lanes=8 * n, dtypes=_HALVES),
        ),
        feature="ldmatrix",
        meaning=_MEANING + ("ldmatrix_trans" if trans else "ldmatrix"),
    )


def _store(n: int, trans: bool) -> Row:
    return Row(
        name=f"stmatrix.x{n}" + (".trans" if trans else ""),
        family="stmatrix",
        isa=_ISA + "stmatrix",
        since=90,
        issuer="warp",
        operands=(Operand("dst", "write", "shared", nbytes=16, align=16, lanes=8 * n, dtypes=_HALVES),),
        args=tuple(Arg(f"v{i}", "u32") for i in range(n)),
        feature="stmatrix",
        meaning=_MEANING + ("stmatrix_trans" if trans else "stmatrix"),
    )


def _mma(k: int, dtype: str) -> Row:
    """d += a b, with a 16 x k, b k x 8 (both packed in 32-bit registers) and d 16 x 8 of f32."""
    per_lane = 16 * k // 32 // (2 if dtype != "tf32" else 1)
    return Row(
        name=f"mma.m16n8k{k}.{dtype}",
        family="mma",
        isa=_ISA + "mma",
        since=80,
        issuer="warp",
        operands=(
            Operand("acc", "update", "register", nbytes=16, dtypes=("f32",)),
            Operand("a", "read", "register", nbytes=4 * per_lane, dtypes=("u32",)),
            Operand("b", "read", "register", nbytes=2 * per_lane, dtypes=("u32",)),
        ),
        feature="mma",
        meaning=_MEANING + f"mma_{dtype}",
    )


ROWS = (
    *(_load(n, trans) for trans in (False, True) for n in (1, 2, 4)),
    *(_store(n, trans) for trans in (False, True) for n in (1, 2, 4)),
    _mma(8, "f16"), _mma(16, "f16"), _mma(8, "bf16"), _mma(16, "bf16"), _mma(4, "tf32"), _mma(8, "tf32"),
)  # fmt: skip
