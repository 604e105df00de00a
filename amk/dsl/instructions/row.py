"""What the table may say about one instruction. A row is the whole truth that checks, interpreter and printer share."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, NamedTuple

__all__ = ["Arg", "Completion", "Issuer", "Operand", "Pure", "Row"]

Issuer = Literal["thread", "warp", "warpgroup"]
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
    """What one operand touches, by whom, and through which proxy.

    Of memory, exactly one of these says how much, from the operand's element on:
    nbytes   so many bytes, by each issuing thread (0: one element); of the first `lanes` lanes of a warp alone
    tile     a tile of so many elements in the last dimensions, one an instruction; `step` divides its first indices
    box      the box of the tensor map that stands at this role, as one dense run of bytes
    counted  as many bytes as this argument says
    Of registers, `nbytes` counts a thread's, which are neighbours along the last dimension; `rank` is that of a map.
    """

    role: str
    mode: Literal["read", "write", "update"]
    space: Literal["global", "shared", "register", "map", "barrier"]
    nbytes: int = 0
    align: int = 0
    dtypes: tuple[str, ...] = ()
    proxy: Literal["generic", "async"] = "generic"
    lanes: int = 32
    tile: tuple[int, ...] = ()
    step: tuple[int, ...] = ()
    box: str = ""
    counted: str = ""
    rank: int = 0


class Arg(NamedTuple):
    """A value argument: its type ("same": that of the register operand), what it may be, and its default text."""

    name: str
    dtype: str
    default: str | None = None
    constant: bool = False
    low: int | None = None
    high: int | None = None
    multiple_of: int = 1


class Row(NamedTuple):
    """One instruction: who issues it, what it touches, when it completes, what it means, and on which GPUs it exists.

    `issuer`    "warp" or "warpgroup": all 32 or 128 threads reach it together; "thread": each that does issues one
    `completes` "now", or later: with a group of a queue, or on the mbarrier of the operand "bar", which gets its bytes
    `guard`     names the argument that switches reads off (the destination is then zero-filled)
    `adds`      names the argument without which an updated register operand is only written
    `feature`   what a target must have; `since` the compute capability (times ten) from which on it is there
    `multicast` the argument whose bits name the blocks of the cluster that are written, each at the same place, and
                each told on its own mbarrier
    `family`    the rows whose template macro it shares
    Registers of an instruction that completes later are its own until it has.
    """

    name: str
    isa: str
    since: int
    issuer: Issuer
    operands: tuple[Operand, ...] = ()
    args: tuple[Arg, ...] = ()
    completes: Completion = "now"
    guard: str | None = None
    meaning: str = ""
    feature: str = ""
    multicast: str = ""
    adds: str = ""
    family: str = ""

    @property
    def macro(self) -> str:
        """The name of its template macro, which the rows of a family share."""
        return (self.family or self.name).replace(".", "_")

    def operand(self, role: str) -> Operand:
        return next(o for o in self.operands if o.role == role)

    def numpy(self) -> Callable[..., Any]:
        """The meaning on arrays."""
        return _resolve(self.meaning)
