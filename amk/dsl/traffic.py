"""What one memory instruction of a warp costs: sectors of global memory, passes through shared memory.

In: the byte address of each lane (None: it takes no part) and the bytes that each moves. Out: counts.

Global: memory moves sectors of 32 bytes; a request moves every sector that a lane touches, once.
Shared: 32 banks of 4 bytes. What a group of lanes wants of one bank goes word by word, a pass for each; lanes that want
the same word share it. Up to 4 bytes a lane the group is the warp, for 8 bytes a half of it, for 16 a quarter. Two
groups of a load go together where in both of them each lane's neighbour (number ^ 1, or number ^ 2, the same for all)
wants the same words or takes no part, since half as many words then go back to registers (`BankRule`).
Source: CUDA C++ Programming Guide, device memory accesses and shared memory; benchmarks/bank_conflicts.py holds both
        against the counters of ncu, under each variant of the rule of pairs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["BANKS", "RULE", "SECTOR", "BankRule", "Lanes", "Passes", "Sectors", "passes", "sectors"]

SECTOR, BANKS, WORD, WARP = 32, 32, 4, 32
Lanes = Sequence[int | None]


class BankRule(NamedTuple):
    """What of the model is a matter of measurement: whether groups of pairwise equal lanes go together (`pairs`), only
    where all of the warp is so (`whole`), and in stores as well. As they stand, these are what an H200 counts, in 74 of
    74 kernels (benchmarks/results/bank-conflicts.json)."""

    pairs: bool = True
    whole: bool = True
    stores: bool = False


RULE = BankRule()


class Passes(NamedTuple):
    """Passes of one instruction; of the worst group its passes, and their bank.

    `least` is what the lanes that take part need without conflicts, each group for itself: 1 for 4 bytes a lane, 2 for
    8, 4 for 16. Groups that go together may need fewer passes than that.
    """

    passes: int
    least: int
    degree: int
    bank: int


class Sectors(NamedTuple):
    """Sectors that one request moves, and the fewest that its bytes fit into."""

    moved: int
    least: int


def sectors(lanes: Lanes, nbytes: int) -> Sectors:
    """Sectors of one request of a warp; 0 and 0 where no lane takes part."""
    starts = {x for x in lanes if x is not None}
    moved = {b for x in starts for b in range(x // SECTOR, (x + nbytes - 1) // SECTOR + 1)}
    return Sectors(len(moved), -(-len(starts) * nbytes // SECTOR))


def passes(lanes: Lanes, nbytes: int, rule: BankRule = RULE, *, store: bool = False) -> Passes:
    """Passes of one instruction of a warp through shared memory; all 0 where no lane takes part."""
    size = WARP if nbytes <= WORD else WARP * WORD // nbytes
    parts = [list(lanes[i : i + size]) for i in range(0, len(lanes), size)]
    shared = rule.pairs and size < WARP and (rule.stores or not store)
    together = _together(parts, rule.whole) if shared else parts
    found = [_worst(active, nbytes) for g in together if (active := [x for x in g if x is not None])]
    if not found:
        return Passes(0, 0, 0, 0)
    degree, bank = max(found, key=lambda f: f[0])
    least = sum(any(x is not None for x in part) for part in parts)
    return Passes(sum(n for n, _ in found), least, degree, bank)


def _together(parts: list[list[int | None]], whole: bool) -> list[list[int | None]]:
    """The groups, two of them joined where the rule of pairs says so; `whole`: where it says so of all."""
    if whole and not any(all(_paired(part, n) for part in parts) for n in (1, 2)):
        return parts
    out: list[list[int | None]] = []
    for a, b in zip(parts[::2], [*parts[1::2], []], strict=False):
        out += [a + b] if any(_paired(a, n) and _paired(b, n) for n in (1, 2)) else [a, b]
    return out


def _paired(lanes: list[int | None], n: int) -> bool:
    """Whether each lane's neighbour wants the same, or one of the two takes no part."""
    return all(
        x is None or i ^ n >= len(lanes) or lanes[i ^ n] is None or lanes[i ^ n] == x for i, x in enumerate(lanes)
    )


def _worst(starts: list[int], nbytes: int) -> tuple[int, int]:
    """Distinct words of the bank that has most of them, and that bank."""
    words = {w for x in set(starts) for w in range(x // WORD, (x + nbytes - 1) // WORD + 1)}
    found = Counter(w % BANKS for w in words)
    bank = max(found, key=lambda b: (found[b], -b))
    return found[bank], bank
