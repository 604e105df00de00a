"""The smallest kernel that has everything, as data to spoil: what the rules' bad and good examples are made of."""

from __future__ import annotations

from typing import Any

from amk.dsl.kernel import KernelDescriptor

__all__ = ["example", "small"]

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
