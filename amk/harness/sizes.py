"""One choice of sizes and blocks for every class of them, the least of each (the argument is in `cutoff.py`).

In: axes (sizes in units of their divisors, blocks), gaps with the windows in which they count, periods. Out: points, at
least one of each class: alike are points with the same remainders and, of each gap, the same value inside the windows
or the same side outside. Axes of few values are tried whole. The others must be joined as a tree by gaps of two of
them; along it, the least points are where a window begins, or what a neighbour forces.
Source: elimination of variables as by Fourier and Motzkin, exact over the integers once remainders are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import gcd, lcm, prod
from typing import NamedTuple

from amk.harness.events import Unsupported
from amk.harness.turns import MOST, Vector, normal

__all__ = ["Axis", "points"]

_FEW, _WHOLE, _POINTS = 64, 1024, 60_000  # values of an axis tried whole, of all such together, and points looked at
Windows = Mapping[tuple[int, int], str]
Gaps = Mapping[Vector, Windows]
Point = dict[str, int]


class Axis(NamedTuple):
    """The range of a size or a block."""

    lo: int
    hi: int


class _Edge(NamedTuple):
    """a x - b y with a, b > 0 for two axes, and the values from which on it is in another case."""

    x: str
    a: int
    y: str
    b: int
    turns: list[int]
    said: str

    def least(self, name: str, other: int) -> list[int]:
        """What the other axis can force `name` to be at least."""
        if name == self.x:  # a x >= b y + c
            return [-(-(self.b * other + c) // self.a) for c in self.turns]
        return [-(-(self.a * other - c + 1) // self.b) for c in self.turns]  # a x - b y <= c - 1

    def factors(self, name: str) -> tuple[int, int]:
        """Of the axis and of its neighbour."""
        return (self.a, self.b) if name == self.x else (self.b, self.a)


def points(axes: Mapping[str, Axis], gaps: Gaps, periods: Mapping[str, int]) -> Iterator[Point]:
    """At least one point of every class. Raises Unsupported where the gaps join the axes in another way."""
    whole: list[str] = []
    for n in sorted(axes, key=lambda n: axes[n].hi - axes[n].lo):
        count = axes[n].hi - axes[n].lo + 1
        if count <= 0:
            return
        if count <= _FEW and count * prod(axes[m].hi - axes[m].lo + 1 for m in whole) <= _WHOLE:
            whole.append(n)
    rest = {n: a for n, a in axes.items() if n not in whole}
    left = _POINTS
    for at in product(*(range(axes[n].lo, axes[n].hi + 1) for n in whole)):
        fixed = dict(zip(whole, at, strict=True))
        for point in _Tree(rest, _fixed(gaps, fixed), periods).points():
            left -= 1
            if left < 0:
                said = next(iter(next(iter(gaps.values())).values()), "") if gaps else ""
                raise Unsupported(f"more than {_POINTS} cases of {', '.join(sorted(axes))}, which {said} joins")
            yield fixed | point


def _fixed(gaps: Gaps, fixed: Point) -> dict[Vector, dict[tuple[int, int], str]]:
    """The gaps with some axes put in."""
    out: dict[Vector, dict[tuple[int, int], str]] = {}
    for vector, windows in gaps.items():
        by = {n: c for n, c in vector if n not in fixed}
        at = sum(fixed[n] * c for n, c in vector if n in fixed)
        for (lo, hi), said in windows.items() if by else ():
            v, window = normal(by, lo - at, hi - at)
            out.setdefault(v, {})[window] = said
    return out


def _turns(windows: Windows, flip: bool) -> list[int]:
    """The values from which on a gap (or its opposite) is in another case, lowest first."""
    if sum(hi - lo + 2 for lo, hi in windows) > 4 * MOST:
        raise Unsupported(
            f"{next(iter(windows.values()))}: more than {4 * MOST} sizes or blocks at which it can change"
        )
    ends = ((-hi, -lo) if flip else (lo, hi) for lo, hi in windows)
    return sorted({c for lo, hi in ends for c in range(lo, hi + 2)})


class _Tree:
    """Axes without few values, some of them turned round so that every gap grows in one axis and falls in the other."""

    def __init__(self, axes: Mapping[str, Axis], gaps: Gaps, periods: Mapping[str, int]) -> None:
        self.axes, self.periods = axes, periods
        pairs: dict[frozenset[str], tuple[Vector, Windows]] = {}
        for vector, windows in gaps.items():
            pair, said = frozenset(n for n, _ in vector), next(iter(windows.values()))
            if len(pair) > 2:
                raise Unsupported(
                    f"{said} joins {', '.join(sorted(pair))}: compare at most two sizes or blocks at a time"
                )
            if len(pair) == 2 and pair in pairs:
                other = next(iter(pairs[pair][1].values()))
                x, y = sorted(pair)
                raise Unsupported(
                    f"{said} and {other} join {x} and {y} by different factors: use one tile size for both"
                )
            if len(pair) == 2:
                pairs[pair] = vector, windows
        self.near: dict[str, list[str]] = {n: [] for n in axes}
        for pair in pairs:
            x, y = sorted(pair)
            self.near[x].append(y)
            self.near[y].append(x)
        self.sign: dict[str, int] = {}
        self.parts = [self._part(n, pairs) for n in axes if n not in self.sign]
        self.edges = {pair: self._edge(vector, windows) for pair, (vector, windows) in pairs.items()}
        self.begins = {n: self._begins(n, gaps.get(((n, 1),), {})) for n in axes}

    def _part(self, start: str, pairs: Mapping[frozenset[str], tuple[Vector, Windows]]) -> list[str]:
        """The axes joined with one, and the signs that make every gap between them a difference."""
        part, self.sign[start] = [start], 1
        for x in part:
            for y in self.near[x]:
                if y not in self.sign:
                    factors = dict(pairs[frozenset((x, y))][0])
                    self.sign[y] = self.sign[x] if factors[x] * factors[y] < 0 else -self.sign[x]
                    part.append(y)
        joined = [pair for pair in pairs if pair <= set(part)]
        if len(joined) >= len(part):
            said = " and ".join(dict.fromkeys(next(iter(pairs[pair][1].values())) for pair in joined))
            raise Unsupported(f"{said} join {', '.join(sorted(part))} in a circle: leave one of the comparisons out")
        return part

    def _edge(self, vector: Vector, windows: Windows) -> _Edge:
        (x, a), (y, b) = ((n, c * self.sign[n]) for n, c in vector)
        if a > 0:
            return _Edge(x, a, y, -b, _turns(windows, False), next(iter(windows.values())))
        return _Edge(y, b, x, -a, _turns(windows, False), next(iter(windows.values())))

    def _begins(self, n: str, windows: Windows) -> list[int]:
        """Where an axis begins, and where it comes to a new case of its own."""
        axis = self._range(n)
        inside = (c for c in _turns(windows, self.sign[n] < 0) if axis.lo < c <= axis.hi)
        return sorted({axis.lo, *inside})

    def _range(self, n: str) -> Axis:
        a = self.axes[n]
        return a if self.sign[n] > 0 else Axis(-a.hi, -a.lo)

    # -- points -----------------------------------------------------------------------------------------------------
    def points(self) -> Iterator[Point]:
        """At least one point of every class."""
        for parts in product(*(list(self._points(part)) for part in self.parts)):
            yield {n: v * self.sign[n] for part in parts for n, v in part.items()}

    def _points(self, part: list[str]) -> Iterator[Point]:
        order = min((self._order(root) for root in part), key=self._cost)
        begins, periods = self._eliminated(order)
        return self._extended({}, order, begins, periods)

    def _order(self, root: str) -> list[tuple[str, str]]:
        """Every axis after the neighbour that stands nearer to the root."""
        out = [(root, "")]
        for x, above in out:
            out += [(y, x) for y in self.near[x] if y != above]
        return out

    def _cost(self, order: list[tuple[str, str]]) -> int:
        return sum(self._periods(order).values())

    def _periods(self, order: list[tuple[str, str]]) -> Point:
        """The modulus of the remainders that count: an axis's own, and those that decide whether axes below fit."""
        out = {n: self.periods.get(n, 1) for n, _ in order}
        for x, above in reversed(order[1:]):
            a, b = self.edges[frozenset((x, above))].factors(x)
            out[above] = lcm(out[above], a * out[x] // gcd(a * out[x], b))
        return out

    def _eliminated(self, order: list[tuple[str, str]]) -> tuple[dict[str, list[int]], Point]:
        """Where the values of each axis begin for which the axes below it have values."""
        periods = self._periods(order)
        begins = {n: set(self.begins[n]) for n, _ in order}
        for x, above in reversed(order[1:]):
            edge, axis = self.edges[frozenset((x, above))], self._range(above)
            if len(begins[x]) * periods[x] * len(edge.turns) > 16 * _POINTS:
                raise Unsupported(f"{edge.said}: too many cases of {x} and {above} to try")
            for v in self._followed(begins[x], periods[x]):
                begins[above].update(c for c in edge.least(above, v) if axis.lo < c <= axis.hi)
        return {n: sorted(v) for n, v in begins.items()}, periods

    def _followed(self, begins: Iterable[int], period: int) -> set[int]:
        """With the next values of every remainder."""
        begins = list(begins)
        if len(begins) * period > 16 * _POINTS:
            raise Unsupported(f"remainders modulo {period} count, which are too many to try")
        return {v + j for v in begins for j in range(period)}

    def _extended(
        self, point: Point, order: list[tuple[str, str]], begins: dict[str, list[int]], periods: Point
    ) -> Iterator[Point]:
        """The points that agree with one on the first axes."""
        if len(point) == len(order):
            yield point
            return
        x, above = order[len(point)]
        axis, first = self._range(x), set(begins[x])
        if above:
            first.update(self.edges[frozenset((x, above))].least(x, point[above]))
        for v in sorted(self._followed(first, periods[x])):
            if axis.lo <= v <= axis.hi:
                yield from self._extended({**point, x: v}, order, begins, periods)
