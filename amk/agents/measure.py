"""Which of two is faster, and by how much: two calls come in, a `PairedTiming` with its doubt comes out.

Each round times a, b and a once more (the A/A control) next to each other, so that a slow spell of the machine hits all
three; the order goes through all six permutations, so that a drift within a round favours nobody. What counts is the
median of the ratios of the rounds, with a bootstrap interval; a control away from 1 says that the machine is not quiet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice, permutations
from statistics import median
from typing import Any, Literal

import numpy as np

from amk.agents.clocks import Clock, CudaEventClock, HostClock
from amk.errors import ArgumentError

__all__ = ["Clock", "CudaEventClock", "HostClock", "PairedTiming", "Ratio", "Spread", "measure_pair", "summarise"]

Call = Callable[[], None]

# c is the control, a called again. Each order is followed by its reverse: a drift cancels after two rounds.
_ORDERS = tuple(order for p in islice(permutations("abc"), 3) for order in ("".join(p), "".join(reversed(p))))
_RESAMPLES = 2000
_SEED = 20240229
_MAX_CALLS = 10_000  # in one sample


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 10th and 90th percentile over the rounds, in microseconds for one call."""

    median: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median over the rounds, and the 95 % bootstrap interval of that median."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedTiming:
    """What `measure_pair` found.

    speedup:  time of a over time of b; above 1, b is faster        control: the same of a over a, 1 on a quiet machine
    ratios:   of each round, in order                               orders:  of each round: 'bca' ran b, control, a
    calls:    in one sample, back to back (1 when cold)
    """

    a_us: Spread
    b_us: Spread
    speedup: Ratio
    control: Ratio
    ratios: tuple[float, ...]
    orders: tuple[str, ...]
    rounds: int
    calls: int
    cold: bool

    @property
    def faster(self) -> Literal["a", "b", "undecided"]:
        """The faster one, if the interval leaves out both 1 and all that the control shows to be noise."""
        noise = max(self.control.high, 1 / self.control.low, 1.0)
        if self.speedup.low > noise:
            return "b"
        return "a" if self.speedup.high < 1 / noise else "undecided"


def measure_pair(
    a: Call,
    b: Call,
    *,
    clock: Clock,
    rounds: int = 30,
    warmup_seconds: float = 0.2,
    cold: bool = False,
    sample_us: float = 200.0,
) -> PairedTiming:
    """Times `a` against `b`, paired and interleaved.

    Args:    `rounds` is rounded up to a multiple of 6, so that every order runs equally often; `cold` flushes the
             caches before every call, else a sample is as many calls back to back as fill `sample_us` microseconds
    Raises:  ArgumentError for fewer than 1 round; whatever `a` and `b` raise
    """
    if rounds < 1:
        raise ArgumentError(f"rounds is {rounds}, but at least 1 is needed")
    slowest = _warm_up((a, b), clock, warmup_seconds)
    calls = 1 if cold else min(_MAX_CALLS, max(1, math.ceil(sample_us / max(slowest, 1e-3))))
    orders = tuple(islice(cycle(_ORDERS), -(-rounds // 6) * 6))
    samples = [_round(order, {"a": a, "b": b, "c": a}, clock, calls, cold) for order in orders]
    times = {who: [sample[who] for sample in samples] for who in "abc"}
    ratios = tuple(x / y for x, y in zip(times["a"], times["b"], strict=True))
    control = [x / y for x, y in zip(times["a"], times["c"], strict=True)]
    return PairedTiming(
        a_us=_spread(times["a"]),
        b_us=_spread(times["b"]),
        speedup=_bootstrap(ratios),
        control=_bootstrap(control),
        ratios=ratios,
        orders=orders,
        rounds=len(orders),
        calls=calls,
        cold=cold,
    )


def _warm_up(calls: Sequence[Call], clock: Clock, seconds: float) -> float:
    """Runs both in turn for `seconds`, at least once each; the longer of their last times, in microseconds."""
    start = clock.now()
    while True:
        slowest = max(clock.time(call, 1) for call in calls)
        if clock.now() - start >= seconds:
            return slowest


def _round(order: str, calls: dict[str, Call], clock: Clock, count: int, cold: bool) -> dict[str, float]:
    """One sample of each, in `order`; never 0, so that ratios exist."""
    times = {}
    for who in order:
        if cold:
            clock.flush()
        times[who] = max(clock.time(calls[who], count), 1e-6)
    return times


def _spread(times: Sequence[float]) -> Spread:
    low, high = np.percentile(times, (10, 90))
    return Spread(median(times), float(low), float(high))


def _bootstrap(ratios: Sequence[float]) -> Ratio:
    """The seed is fixed: the same samples always give the same interval."""
    values = np.asarray(ratios)
    chosen = np.random.default_rng(_SEED).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[chosen], axis=1), (2.5, 97.5))
    return Ratio(median(ratios), float(low), float(high))


def summarise(timing: PairedTiming, clock: Clock) -> dict[str, Any]:
    """`timing` and what it was measured on, as plain JSON data."""
    return {**asdict(timing), "faster": timing.faster, **clock.describe()}
