"""What the rules' bad and good examples are made of: one kernel as data to spoil, and three that several rules vary."""

from __future__ import annotations

from typing import Any

from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor

__all__ = ["example", "filled", "mirrored", "one_copy", "scattered", "small"]

Body = list[dict[str, Any]]


def small(threads: int = 128) -> dict[str, Any]:
    """z[i] = x[i] + x[i], one element a thread, guarded."""
    size = {"kind": "param", "name": "n", "dtype": "i32", "min": 1, "max": 2147418112}
    x = {"kind": "param", "name": "x", "dtype": "f32", "shape": ["n"], "align": 16}
    guarded = [
        {"kind": "load", "dst": "a[0]", "src": "x[i]"},
        {"kind": "store", "dst": "z[i]", "values": ["a[0] + a[0]"]},
    ]
    return {
        "name": "example", "target": "sm_80", "threads": threads, "grid": [f"cdiv(n, {threads})"],
        "params": [size, x, {**x, "name": "z", "access": "write"}],
        "buffers": [{"kind": "buffer", "name": "a", "space": "register", "dtype": "f32", "shape": [4]}],
        "body": [
            {"kind": "let", "name": "i", "value": f"bx*{threads} + t"},
            {"kind": "if", "cond": "i < n", "body": guarded},
        ],
    }  # fmt: skip


def example(
    inner: Body | None = None, body: Body | None = None, *, threads: int = 128, **top: Any
) -> KernelDescriptor:  # fmt: skip
    """The small kernel with another guarded body, another whole body, or other fields; without a write `z` goes."""
    data = small(threads)
    if inner is not None:
        data["body"][1]["body"] = inner
    if body is not None:
        data["body"] = body
    data |= top
    if "z[" not in str(data["body"]):
        data["params"] = [p for p in data["params"] if p["name"] != "z"]
    return KernelDescriptor.model_validate(data)


def mirrored(name: str, *, filled: int = 128, barrier: bool = True) -> KernelDescriptor:
    """The first threads fill a shared array of 128, and after a barrier each thread reads the slot of its mirror."""
    k = KernelBuilder(name, target="sm_80", threads=128)
    s, a = k.shared("s", "i32", (128,)), k.registers("a", "i32", (1,))
    with k.when(k.t < filled):
        k.store(s[k.t], k.t)
    if barrier:
        k.sync()
    k.load(a[0], s[127 - k.t])
    return k.finish(grid=(1,))


def one_copy(name: str) -> tuple[KernelBuilder, Handle, Handle]:
    """A warp that has started one asynchronous copy into a shared array: the builder, the array and a register."""
    k = KernelBuilder(name, target="sm_80", threads=32)
    x = k.tensor("x", "f32", (128,), align=16)
    s, a = k.shared("s", "f32", (128,)), k.registers("a", "f32", (1,))
    k.call("cp.async.16", {"dst": s[k.t * 4], "src": x[k.t * 4]})
    k.commit()
    return k, s, a


def filled(name: str, *, tile: int = 128, whole: bool = True) -> KernelDescriptor:
    """y[i] = 1 by 128 threads a block, blocks `tile` elements apart, with or without the last, partial one."""
    k = KernelBuilder(name, target="sm_80", threads=128)
    n = k.size("n", min=128)
    y = k.tensor("y", "f32", (n,), access="write")
    i = k.let("i", k.bx * tile + k.t)
    with k.when(i < n):
        k.store(y[i], 1.0)
    return k.finish(grid=(cdiv(n, tile) if whole else n // tile,))


def scattered(code: str = "", reason: str = "", *, column: bool = True) -> KernelDescriptor:
    """A warp reads a column (or a row) of a matrix, in a kernel that suppresses a code."""
    k = KernelBuilder("scattered", target="sm_80", threads=32)
    n = k.size("n", min=32)
    x, a = k.tensor("x", "f32", (n, n)), k.registers("a", "f32", (1,))
    k.load(a[0], x[k.t, 0] if column else x[0, k.t])
    if code:
        k.suppress(code, reason)
    return k.finish(grid=(1,))
