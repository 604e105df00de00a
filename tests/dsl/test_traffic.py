"""Sectors and passes of one instruction of a warp, each worked by hand."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from amk.dsl.traffic import BankRule, passes, sectors

APART = BankRule(pairs=False)


def lanes(f: Callable[[int], int | None], threads: int = 32) -> list[int | None]:
    return [f(t) for t in range(threads)]


@pytest.mark.parametrize(
    ("f", "nbytes", "moved", "least"),
    [
        (lambda t: 4 * t, 4, 4, 4),
        (lambda t: 4 * t + 4, 4, 5, 4),  # begins in the middle of a sector
        (lambda t: 8 * t, 4, 8, 4),
        (lambda t: 128 * t, 4, 32, 4),
        (lambda t: 0, 4, 1, 1),
        (lambda t: 16 * t, 16, 16, 16),
        (lambda t: 32 * t, 16, 32, 16),
        (lambda t: 16 * (t // 8), 16, 2, 2),
        (lambda t: 2 * t, 2, 2, 2),
        (lambda t: 4 * t if t < 5 else None, 4, 1, 1),
        (lambda t: 4 * t if t % 8 == 0 else None, 4, 4, 1),
        (lambda t: 28 if t == 0 else None, 16, 2, 1),  # one access over the edge of a sector
        (lambda t: None, 4, 0, 0),
    ],
)
def test_sectors(f: Callable[[int], int | None], nbytes: int, moved: int, least: int) -> None:
    assert sectors(lanes(f), nbytes) == (moved, least)


@pytest.mark.parametrize(
    ("f", "nbytes", "together", "apart", "least"),
    [
        (lambda t: 4 * t, 4, 1, 1, 1),
        (lambda t: 8 * t, 4, 2, 2, 1),
        (lambda t: 12 * t, 4, 1, 1, 1),
        (lambda t: 128 * t, 4, 32, 32, 1),
        (lambda t: 132 * t, 4, 1, 1, 1),
        (lambda t: 0, 4, 1, 1, 1),
        (lambda t: 2 * t, 2, 1, 1, 1),  # two lanes a word
        (lambda t: 128 * t if t < 5 else None, 4, 5, 5, 1),
        (lambda t: 8 * t, 8, 2, 2, 2),
        (lambda t: 16 * t, 8, 4, 4, 2),
        (lambda t: t // 2 * 8, 8, 1, 2, 2),  # each lane and its neighbour want the same: both halves go at once
        (lambda t: (t % 2 + t // 4 * 2) * 8, 8, 1, 2, 2),  # the lane two further
        (lambda t: t // 2 * 8 if t % 2 == 0 else None, 8, 1, 2, 2),  # the neighbour takes no part
        (lambda t: t // 2 * 8 if t < 16 else None, 8, 1, 1, 1),  # nobody in the second half
        (lambda t: 16 * t, 16, 4, 4, 4),
        (lambda t: 32 * t, 16, 8, 8, 4),
        (lambda t: 128 * t, 16, 32, 32, 4),
        (lambda t: 144 * t, 16, 4, 4, 4),
        (lambda t: t // 2 * 16, 16, 2, 4, 4),
        (lambda t: (t % 2 + t // 16 * 2) * 128, 16, 4, 8, 4),  # four rows a warp, as a GEMM reads a fragment
        (lambda t: 0, 16, 2, 4, 4),
        (lambda t: None, 16, 0, 0, 0),
    ],
)
def test_passes(f: Callable[[int], int | None], nbytes: int, together: int, apart: int, least: int) -> None:
    both, alone = passes(lanes(f), nbytes), passes(lanes(f), nbytes, APART)
    assert (both.passes, alone.passes, both.least, alone.least) == (together, apart, least, least)


def test_the_worst_group_and_its_bank() -> None:
    found = passes(lanes(lambda t: 128 * t + 12 if t < 3 else 4 * t), 4)
    assert (found.passes, found.degree, found.bank) == (3, 3, 3)  # words 3, 35 and 67; lane 3 shares word 3


def test_a_partial_warp_has_the_lanes_that_it_has() -> None:
    assert passes(lanes(lambda t: 8 * t, 16), 4).passes == 1
    assert passes(lanes(lambda t: 16 * t, 4), 16) == (1, 1, 1, 0)
    assert sectors(lanes(lambda t: 4 * t, 8), 4) == (1, 1)


def test_against_a_plain_count() -> None:
    """Random addresses: sectors byte by byte, passes word by word within each group."""
    draw = random.Random(5)
    for _ in range(300):
        nbytes = draw.choice((1, 2, 4, 8, 16))
        span = draw.choice((16, 64, 512))
        got = [draw.randrange(span) * nbytes if draw.random() < 0.8 else None for _ in range(draw.randint(1, 32))]
        bytes_ = {b for x in got if x is not None for b in range(x, x + nbytes)}
        assert sectors(got, nbytes).moved == len({b // 32 for b in bytes_})
        size = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[nbytes]
        want = 0
        for i in range(0, len(got), size):
            words = {b // 4 for x in got[i : i + size] if x is not None for b in range(x, x + nbytes)}
            want += max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0)
        found = passes(got, nbytes, APART)
        assert found.passes == want and passes(got, nbytes).passes <= want
        assert found.least <= found.passes or not found.passes


@pytest.mark.parametrize(
    ("f", "nbytes", "groups", "warp", "stored"),
    [
        (lambda t: t // 2 * 16, 16, 2, 2, 2),
        (lambda t: (t // 2 if t < 16 else t) * 16, 16, 3, 4, 3),  # pairs in the first half alone
        (lambda t: (t // 2 if t < 16 else t % 2 + t // 4 * 2) * 16, 16, 2, 4, 2),  # in the second half ^ 2, not ^ 1
        (lambda t: 4 * t, 4, 1, 1, 1),
    ],
)
def test_variants_of_the_rule_of_pairs(
    f: Callable[[int], int | None], nbytes: int, groups: int, warp: int, stored: int
) -> None:
    at = lanes(f)
    assert passes(at, nbytes, BankRule(whole=False)).passes == groups and passes(at, nbytes).passes == warp
    assert passes(at, nbytes, BankRule(whole=False, stores=True), store=True).passes == stored
    assert passes(at, nbytes, store=True) == passes(at, nbytes, APART)
