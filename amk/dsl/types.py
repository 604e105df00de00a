"""The vocabulary: element types, memory spaces and scopes, each as plain data."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["DTYPES", "ZEROED", "Access", "DType", "DTypeName", "Dispatch", "Queue", "Scope", "Space", "nbytes"]

Space = Literal["global", "shared", "register"]
# add: atomically accumulated, zeroed by the launcher before. workspace: what blocks tell each other; the launcher
# brings it and zeroes it before each launch
Access = Literal["read", "write", "readwrite", "add", "workspace"]
ZEROED: tuple[Access, ...] = ("add", "workspace")  # by the launcher
Dispatch = Literal["any", "in_order", "resident"]
Scope = Literal["warp", "named", "block", "cluster"]
Queue = Literal["cp_async", "bulk", "wgmma"]
DTypeName = Literal["bool", "i32", "u32", "i64", "u64", "f32", "f64", "f16", "bf16", "i8", "u8"]


class DType(NamedTuple):
    """One element type: its size, its family and how C and NumPy spell it (16-bit floats move as integers)."""

    name: str
    nbytes: int
    family: Literal["bool", "int", "float"]
    c: str
    numpy: str


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("bool", 1, "bool", "bool", "bool"),
        DType("i8", 1, "int", "signed char", "int8"),
        DType("u8", 1, "int", "unsigned char", "uint8"),
        DType("i32", 4, "int", "int", "int32"),
        DType("u32", 4, "int", "unsigned", "uint32"),
        DType("i64", 8, "int", "long long", "int64"),
        DType("u64", 8, "int", "unsigned long long", "uint64"),
        DType("f16", 2, "float", "unsigned short", "float16"),
        DType("bf16", 2, "float", "unsigned short", "uint16"),
        DType("f32", 4, "float", "float", "float32"),
        DType("f64", 8, "float", "double", "float64"),
    )
}


def nbytes(dtype: str) -> int:
    """Bytes of one element of `dtype`."""
    return DTYPES[dtype].nbytes
