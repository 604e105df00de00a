"""Instructions of the lanes of a warp: shuffles, votes, matches and integer reductions.

`members` names the lanes that take part, one bit each: exactly these reach the instruction together (of each warp that
comes to it at all), and none beside them. Without it all 32 do. The lanes hand over registers and no memory.

shfl    every lane gives `value` and receives that of another lane. A lane whose source would lie outside the warp keeps
        its own (PTX: the predicate is false and `d = a`); a source inside the warp must be one of the members.
vote    whether a condition holds in all or in any of the lanes (1 or 0), or the mask of the lanes where it does.
match   the mask of the lanes that hold the same 32 bits; of all the members if all do, else 0.
redux   one sum, minimum, maximum or bitwise combination of a 32-bit integer, given to every lane; sums wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amk.dsl.instructions.row import Arg, Operand, Row

if TYPE_CHECKING:
    from amk.dsl.nodes import Call

__all__ = ["ALL_LANES", "COLLECTIVES", "ROWS", "members_of"]

ALL_LANES = 0xFFFFFFFF
COLLECTIVES = ("vote", "match", "redux")  # first words of the rows that give all lanes what is made of all values
_MOVE = "PTX ISA, Data Movement and Conversion Instructions: shfl.sync"
_SYNC = "PTX ISA, Parallel Synchronization and Communication Instructions: "
_MEANING = "amk.dsl.instructions.lanes:"
_MEMBERS = Arg("members", "u32", default=str(ALL_LANES), constant=True, low=1, high=ALL_LANES)


def members_of(s: Call) -> int:
    """The lanes of a warp that a call needs, as bits."""
    return int(getattr(s.args.get("members"), "value", ALL_LANES))  # a constant, as the form rules have shown


def _row(name: str, isa: str, dtypes: tuple[str, ...], *args: Arg) -> Row:
    return Row(
        name=name,
        isa=isa,
        since=80,
        issuer="warp",
        operands=(Operand("dst", "write", "register", dtypes=dtypes),),
        args=(*args, _MEMBERS),
        meaning=_MEANING + name.replace("shfl.", "shuffle_").replace(".", "_"),
    )


def _shuffle(mode: str, operand: str) -> Row:
    lane = Arg(operand, "i32", constant=mode != "idx", low=0, high=31)
    return _row(f"shfl.{mode}", _MOVE, ("f32", "i32", "u32"), Arg("value", "same"), lane)


def _redux(op: str, *dtypes: str) -> Row:
    return _row(f"redux.{op}", _SYNC + "redux.sync", dtypes, Arg("value", "same"))


ROWS = (
    _shuffle("down", "delta"), _shuffle("up", "delta"), _shuffle("bfly", "mask"), _shuffle("idx", "lane"),
    *(_row(f"vote.{mode}", _SYNC + "vote.sync", ("u32",), Arg("value", "bool")) for mode in ("all", "any", "ballot")),
    *(_row(f"match.{mode}", _SYNC + "match.sync", ("u32",), Arg("value", "u32")) for mode in ("any", "all")),
    *(_redux(op, "i32", "u32") for op in ("add", "min", "max")),
    *(_redux(op, "u32") for op in ("and", "or", "xor")),
)  # fmt: skip
