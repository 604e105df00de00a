"""wgmma: acc (64 x N, f32, in registers) := a (64 x 16) b (16 x N), added to acc where `scale_d` holds, by a warpgroup.

Names say where the operands come from and how they lie: `wgmma.m64n256k16.bf16.k.mn`.
a   k: from shared memory, rows of k;  mn: from shared memory, rows of m;  reg: from registers, as in mma.m16n8k16
b   k: rows of k (a buffer of (n, k));  mn: rows of n
A tile with rows of k is (64 or N, 16) elements in the last two dimensions of its buffer; one with rows of m or n is in
chunks of 64: (chunks, 16, 64). Rows are 128, 64 or 32 bytes long, and swizzled over as much (`Swizzle`); rows of m or n
are 128.
acc lane l of warp w of the group holds rows 16 w + l // 4 (registers 4 j and 4 j + 1) and 8 more (4 j + 2, 4 j + 3),
    columns 8 j + 2 (l % 4) and the next.
Reads and the accumulator's registers are the instruction's until a wait has retired its group; registers written before
it need a fence (`Fence(what="wgmma")`). Source: PTX ISA, Asynchronous Warpgroup Level Matrix Instructions.
"""

from __future__ import annotations

from amk.dsl.instructions.row import Arg, Operand, Row

__all__ = ["DTYPES", "WIDTHS", "find", "names"]

DTYPES = ("f16", "bf16")
WIDTHS = range(8, 257, 8)
_ISA = "PTX ISA, Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async"


def find(name: str) -> Row | None:
    """The row of a name, or None."""
    parts = name.split(".")
    if len(parts) != 5 or parts[0] != "wgmma" or parts[2] not in DTYPES:
        return None
    shape, dtype, a, b = parts[1:]
    n = shape.removeprefix("m64n").removesuffix("k16")
    if not n.isdecimal() or shape != f"m64n{int(n)}k16" or int(n) not in WIDTHS:
        return None
    if a not in ("k", "mn", "reg") or b not in ("k", "mn") or (b == "mn" and int(n) % 64):
        return None
    return _row(name, int(n), dtype, a, b)


def names() -> list[str]:
    """Every name of the family."""
    made = (
        f"wgmma.m64n{n}k16.{t}.{a}.{b}" for n in WIDTHS for t in DTYPES for a in ("k", "mn", "reg") for b in ("k", "mn")
    )
    return [n for n in made if find(n) is not None]


def _row(name: str, n: int, dtype: str, a: str, b: str) -> Row:
    if a == "reg":
        first = Operand("a", "read", "register", nbytes=16, dtypes=("u32",))
    else:
        first = _shared("a", 64, dtype, a)
    return Row(
        name=name,
        family="wgmma",
        isa=_ISA,
        since=90,
        issuer="warpgroup",
        operands=(
            Operand("acc", "update", "register", nbytes=2 * n, dtypes=("f32",)),
            first,
            _shared("b", n, dtype, b),
        ),
        args=(Arg("scale_d", "bool", default="true"),),
        completes="wgmma",
        adds="scale_d",
        feature="wgmma",
        meaning="amk.dsl.instructions.meanings:wgmma",
    )


def _shared(role: str, rows: int, dtype: str, major: str) -> Operand:
    tile, step = ((rows, 16), (8, 16)) if major == "k" else ((rows // 64, 16, 64), (1, 8, 64))
    return Operand(role, "read", "shared", dtypes=(dtype,), proxy="async", tile=tile, step=step)
