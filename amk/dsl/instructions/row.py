"""What the table may say about one instruction. A row is the whole truth that checks, interpreter and printer share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, NamedTuple

__all__ = ["Arg", "Operand", "Pure", "Row"]

Issuer = Literal["thread", "warp", "warpgroup", "one"]
Completion = Literal["now", "cp_async", "bulk", "wgmma", "barrier"]


def _resolve(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


class Pure(NamedTuple):
    """A function of values that may stand inside an expression.

    `params` and `result` are families or dtypes ("f32"); `c` is the C spelling; `meaning` names its NumPy meaning,
    imported only when something is executed.
    """

    name: str
    isa: str
    params: tuple[str, ...]
    result: str
    c: str
    meaning: str

    @property
    def arity(self) -> int:
        return len(self.params)

    def numpy(self) -> Callable[..., Any]:
        """The meaning on arrays."""
        return _resolve(self.meaning)


class Operand(NamedTuple):
    """What one operand touches: `nbytes` from its element on (0: one element), read or written, by which proxy."""

    role: str
    mode: Literal["read", "write"]
    space: Literal["global", "shared", "register"]
    nbytes: int = 0
    align: int = 0
    dtypes: tuple[str, ...] = ()
    proxy: Literal["generic", "async"] = "generic"


class Arg(NamedTuple):
    """A value argument: its type ("same": that of the register operand), what it may be, and its default text."""

    name: str
    dtype: str
    default: str | None = None
    constant: bool = False
    low: int | None = None
    high: int | None = None


class Row(NamedTuple):
    """One instruction: who issues it, what it touches, when it completes, what it means, and since which GPU it exists.

    `issuer` "warp" means that all 32 threads of a warp must reach it together. `guard` names the argument that
    switches reads off (the destination is then zero-filled).
    """

    name: str
    isa: str
    since: int
    issuer: Issuer
    operands: tuple[Operand, ...]
    args: tuple[Arg, ...] = ()
    completes: Completion = "now"
    guard: str | None = None
    meaning: str = ""

    @property
    def macro(self) -> str:
        """The name of its template macro."""
        return self.name.replace(".", "_")

    def operand(self, role: str) -> Operand:
        return next(o for o in self.operands if o.role == role)

    def numpy(self) -> Callable[..., Any]:
        """The meaning on arrays."""
        return _resolve(self.meaning)
