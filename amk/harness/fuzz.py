"""Inputs that nobody meant: byte strings and JSON trees, each drawn from a seed, and what reading and checking makes of
them.

Three of eight are bytes (noise, and descriptors cut, flipped and spliced), the others JSON trees (made up of the words
of the format, and descriptors with subtrees replaced, moved and repeated). Anything but a sentence or a report is a
fault of ours: another exception, or more than `LIMIT_S` of processor time.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from amk.dsl.kernel import KernelDescriptor
from amk.errors import AmkError
from amk.harness.check import check
from amk.harness.families import FAMILIES
from amk.harness.time_limit import OutOfTime, limited

__all__ = ["LIMIT_S", "Fuzzed", "fuzzed", "taken"]

LIMIT_S = 10.0
_KINDS = (
    "param", "buffer", "tensormap", "barrier", "let", "load", "store", "atomic", "call", "for", "if", "team", "sync",
    "fence", "commit", "arrive", "wait", "assume", "padded", "swizzle", "strided",
)  # fmt: skip
_KEYS = (
    "kind", "name", "dtype", "value", "view", "dst", "src", "width", "when", "other", "peer", "values", "op", "row",
    "refs", "args", "var", "lo", "hi", "step", "unroll", "carry", "until", "body", "cond", "warps", "roles", "scope",
    "id", "threads", "what", "queue", "barrier", "bytes", "pending", "read", "parity", "fact", "shape", "strides",
    "access", "align", "min", "max", "multiple_of", "space", "layout", "slots", "count", "box", "swizzle", "grid",
    "params", "buffers", "target", "format", "cluster", "at", "origin", "suppress",
)  # fmt: skip
_TEXTS = (
    "", "t", "bx", "n", "a[0]", "x[i]", "t + 1", "t * t", "n // 0", "n % 0", "cdiv(n, t)", "select(t < n, 1, 0)",
    "1 << 99", "-1", "((((", "a[", "x[i", "f32", "i32", "bf16", "u8", "shared", "register", "sm_80", "sm_90a", "0", "m",
    "9223372036854775808", "1e999", "nan", "min(t, n)", "i - i", "exp2(1.0)", "not t", "t and n", "\x00", "\u202e", "5",
    "t // 2", "\ud800", "é", "class", "__global__", "a" * 300, "t" + " + t" * 400, "1" + "0" * 400, "t % 32 == 0",
    "n * n * n",
)  # fmt: skip
_NUMBERS = (
    0, 1, -1, 2, 3, 31, 32, 33, 64, 255, 1024, 65535, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), 10**30,
    0.5, -0.0, 1e308,
)  # fmt: skip


class Fuzzed(NamedTuple):
    """What became of an input: `outcome` is refused (it does not read), checked, failed or hung."""

    seed: int
    outcome: str
    seconds: float
    said: str = ""


def taken(seed: int) -> Fuzzed:
    """Reads the input of a seed and checks the kernel in it, if there is one."""
    data, start = fuzzed(seed), time.process_time()
    try:
        with limited(LIMIT_S):
            outcome, said = _read(data)
    except OutOfTime:
        outcome, said = "hung", f"longer than {LIMIT_S:g} s"
    except Exception as e:  # what a fuzzer looks for
        outcome, said = "failed", f"{type(e).__name__}: {e}"
    return Fuzzed(seed, outcome, time.process_time() - start, said)


def _read(data: bytes) -> tuple[str, str]:
    try:
        kernel = KernelDescriptor.from_json(data)
    except AmkError as e:
        return "refused", type(e).__name__
    try:
        report = check(kernel)
    except AmkError as e:
        return "checked", type(e).__name__
    json.dumps(report.to_dict())
    if mine := [d for d in report.diagnostics if d.code.startswith("AMK9")]:
        return "failed", f"{mine[0].code} {mine[0].message}"
    if KernelDescriptor.from_json(kernel.to_json()).hash != kernel.hash:
        return "failed", "printed and read again it is another kernel"
    return "checked", f"exit code {report.exit_code()}"


def fuzzed(seed: int) -> bytes:
    """The input of a seed."""
    rng = Random(f"fuzz/{seed}")
    return rng.choice((_noise, _cut, _cut, _made_up, _changed, _changed, _changed, _changed))(rng)


@lru_cache(maxsize=1)
def _right() -> tuple[dict[str, Any], ...]:
    """Descriptors to spoil: two of each family."""
    return tuple(FAMILIES[name](Random(f"fuzz/{name}/{i}"))[0].to_dict() for name in FAMILIES for i in range(2))


# --------------------------------------------------------------------------------------------------------------- bytes
def _noise(rng: Random) -> bytes:
    """Bytes of any value, or of those that JSON is made of."""
    size = rng.choice((0, 1, 5, 40, 300))
    if rng.random() < 0.3:
        return rng.randbytes(size)
    marks = b'{}[]",:0123456789.-+eE \\untrfalsl\n\xff\xc3\xa9' + b'"kind"'
    return bytes(rng.choice(marks) for _ in range(size))


def _cut(rng: Random) -> bytes:
    """A descriptor with up to four changes of its bytes."""
    data = bytearray(json.dumps(rng.choice(_right())).encode())
    for _ in range(rng.randint(1, 4)):
        i, n = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 10, 100))
        how = rng.randrange(5)
        if how == 0:
            del data[i : i + n]
        elif how == 1:
            data[i:i] = rng.randbytes(n)
        elif how == 2:
            data[i : i + 1] = bytes((rng.randrange(256),))
        elif how == 3:
            data[i:i] = data[rng.randrange(len(data) + 1) :][:n] * rng.choice((1, 1, 50))
        else:
            data[i:] = b""
    return bytes(data)


# --------------------------------------------------------------------------------------------------------------- trees
def _made_up(rng: Random) -> bytes:
    """A tree of the words of the format, now and then as deep as a text can be."""
    if rng.random() < 0.02:
        depth = rng.choice((50, 5000, 100_000))
        return rng.choice((b"[", b'{"body":[', b'{"a":')) * depth
    tree = {key: _tree(rng, 3) for key in rng.sample(_KEYS, rng.randint(0, 12))}
    return _text(tree if rng.random() < 0.9 else _tree(rng, 4))


def _changed(rng: Random) -> bytes:
    """A descriptor with one to three subtrees replaced, dropped, repeated, or taken from elsewhere."""
    data = copy.deepcopy(rng.choice(_right()))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(data))
        box, key = rng.choice(places)
        how = rng.randrange(6)
        if how <= 1:  # a leaf of the same type is read more often
            like = [x for x in (_leaf(rng) for _ in range(4)) if type(x) is type(box[key])]
            box[key] = like[0] if like else _leaf(rng)
        elif how == 2:
            box[key] = _tree(rng, 2)
        elif how == 3:
            other, name = rng.choice(places)
            box[key] = copy.deepcopy(other[name])
        elif how == 4 and isinstance(box, list):
            box.insert(key, copy.deepcopy(box[key]))
        else:
            del box[key]
    return _text(data)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _tree(rng: Random, depth: int) -> Any:
    how = rng.random()
    if depth == 0 or how < 0.35:
        return _leaf(rng)
    if how < 0.6:
        return [_tree(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    tree = {rng.choice(_KEYS): _tree(rng, depth - 1) for _ in range(rng.randint(0, 5))}
    return {**tree, "kind": rng.choice(_KINDS)} if rng.random() < 0.6 else tree


def _leaf(rng: Random) -> Any:
    made: tuple[Callable[[], Any], ...] = (
        lambda: rng.choice(_TEXTS), lambda: rng.choice(_TEXTS), lambda: rng.choice(_NUMBERS),
        lambda: rng.choice((None, True, False)), lambda: rng.choice(_KINDS), lambda: rng.randint(-99, 9999),
    )  # fmt: skip
    return rng.choice(made)()


def _text(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
