"""NumPy meanings of the rows of warps. Lanes are the last axis, 32 to a warp; `members` names those that take part.

What a lane that takes no part would get means nothing: no such lane gets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "match_all", "match_any", "redux_add", "redux_and", "redux_max", "redux_min", "redux_or", "redux_xor",
    "shuffle_bfly", "shuffle_down", "shuffle_idx", "shuffle_up", "sources", "vote_all", "vote_any", "vote_ballot",
]  # fmt: skip

Array = NDArray[Any]
_LANES = np.arange(32)
_BITS = np.uint32(1) << _LANES.astype(np.uint32)


# ------------------------------------------------------------------------------------------------------------- shuffles
def _take(value: Array, source: Array) -> Array:
    """`value[source]` inside each group of 32 lanes; a source outside 0..31 leaves the lane's own value."""
    lanes = value.reshape(*value.shape[:-1], -1, 32)
    picked = np.broadcast_to(np.where((source < 0) | (source > 31), _LANES, source), lanes.shape)
    return np.take_along_axis(lanes, picked, axis=-1).reshape(value.shape)


def sources(row: str, given: Any, lanes: int) -> Array:
    """The lane that each of `lanes` lanes (whole warps, last axis) reads by a shuffle; outside 0..31: its own."""
    lane: Array = np.arange(lanes) % 32
    by: Array = np.asarray(given)
    if row == "shfl.idx":
        return np.broadcast_to(by & 31, np.broadcast_shapes(by.shape, lane.shape))
    if row == "shfl.bfly":
        return np.bitwise_xor(lane, by)
    return np.add(lane, by) if row == "shfl.down" else np.subtract(lane, by)


def shuffle_down(value: Array, delta: int) -> Array:
    """Lane i receives lane i + delta."""
    return _take(value, _LANES + delta)


def shuffle_up(value: Array, delta: int) -> Array:
    """Lane i receives lane i - delta."""
    return _take(value, _LANES - delta)


def shuffle_bfly(value: Array, mask: int) -> Array:
    """Lane i receives lane i ^ mask."""
    return _take(value, _LANES ^ mask)


def shuffle_idx(value: Array, lane: Array) -> Array:
    """Lane i receives lane `lane` (taken modulo 32)."""
    wanted = np.broadcast_to(np.asarray(lane), value.shape).reshape(*value.shape[:-1], -1, 32)
    return _take(value, wanted & 31)


# ------------------------------------------------------------------------------------------------- votes and reductions
def _each(value: Array, members: int, rest: Any, combine: Callable[[Array], Any]) -> Array:
    """What `combine` makes of the members of each warp, with `rest` for the others, given to all its lanes."""
    lanes = value.reshape(*value.shape[:-1], -1, 32)
    held = np.where(members >> _LANES & 1 == 1, lanes, np.asarray(rest, value.dtype))
    out = combine(held)[..., None]
    return np.broadcast_to(out, lanes.shape).reshape(value.shape)


def vote_all(value: Array, members: int) -> Array:
    """1 where the condition holds in all members, else 0."""
    return _each(value, members, True, lambda x: np.all(x, axis=-1)).astype(np.uint32)


def vote_any(value: Array, members: int) -> Array:
    """1 where the condition holds in a member, else 0."""
    return _each(value, members, False, lambda x: x.any(axis=-1)).astype(np.uint32)


def vote_ballot(value: Array, members: int) -> Array:
    """The mask of the members in which the condition holds."""
    return _each(value, members, False, lambda x: (x * _BITS).sum(axis=-1, dtype=np.uint32))


def match_any(value: Array, members: int) -> Array:
    """For each lane the mask of the members that hold the same bits."""
    lanes = value.reshape(*value.shape[:-1], -1, 32)
    same = (lanes[..., :, None] == lanes[..., None, :]) & (members >> _LANES & 1 == 1)
    out: Array = (same * _BITS).sum(axis=-1, dtype=np.uint32).reshape(value.shape)
    return out


def match_all(value: Array, members: int) -> Array:
    """The mask of the members if all hold the same bits, else 0."""
    first = int(members & -members).bit_length() - 1
    lanes = value.reshape(*value.shape[:-1], -1, 32)
    same = (lanes == lanes[..., first : first + 1]) | (members >> _LANES & 1 == 0)
    out = np.where(same.all(axis=-1, keepdims=True), np.uint32(members), np.uint32(0))
    return np.broadcast_to(out, lanes.shape).reshape(value.shape)


def redux_add(value: Array, members: int) -> Array:
    """The sum of the members, which wraps."""
    return _each(value, members, 0, lambda x: x.sum(axis=-1, dtype=x.dtype))


def redux_min(value: Array, members: int) -> Array:
    """The smallest of the members."""
    return _each(value, members, np.iinfo(value.dtype).max, lambda x: x.min(axis=-1))


def redux_max(value: Array, members: int) -> Array:
    """The largest of the members."""
    return _each(value, members, np.iinfo(value.dtype).min, lambda x: x.max(axis=-1))


def redux_and(value: Array, members: int) -> Array:
    """The bits that all members have."""
    return _each(value, members, np.iinfo(value.dtype).max, lambda x: np.bitwise_and.reduce(x, axis=-1))


def redux_or(value: Array, members: int) -> Array:
    """The bits that a member has."""
    return _each(value, members, 0, lambda x: np.bitwise_or.reduce(x, axis=-1))


def redux_xor(value: Array, members: int) -> Array:
    """The bits that an odd number of members have."""
    return _each(value, members, 0, lambda x: np.bitwise_xor.reduce(x, axis=-1))
