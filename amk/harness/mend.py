"""Repairs that are made and kept only if they help: what `amk check --fix` does.

In: the text of a descriptor that reads, and the targets it is checked on. Out: the text after every safe repair that
leaves fewer findings and no new one, with what was repaired. Each attempt is judged by a whole new check; rules only
propose. A repair may bring to light what stood behind its finding (an engine stops at the first race): then the
repairs of that are tried too, and all are kept if in the end nothing new is left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.patch import Edit, patched, relocated
from amk.dsl.target import Target
from amk.errors import DescriptorError
from amk.harness.check import check
from amk.harness.context import ProverChoice
from amk.harness.diagnostics import UNUSABLE, Diagnostic, Fix, Report
from amk.harness.proposed import proposed

__all__ = ["Mended", "Repair", "applied", "mend"]

MOST_CHECKS = 60  # of one file, fewer of a long one: a faulty kernel must not keep the command for minutes
MOST_STATEMENTS = 12_000  # in all checks together
MOST_COMPARED = 6  # repairs of which the best is taken
MOST_BEHIND = 6  # repairs in a row that only bring the next fault to light

Key = tuple[str, str, str, str, tuple[str, ...]]  # target, code, severity, statement, other places


class Repair(NamedTuple):
    """A repair that was made: the finding as it was then, and what was done about it."""

    finding: Diagnostic
    fix: Fix


class Mended(NamedTuple):
    """A text after its repairs, and the reports of what is left, and of what was there before, one a target."""

    text: str
    reports: tuple[Report, ...]
    before: tuple[Report, ...]
    repairs: tuple[Repair, ...] = ()


def applied(text: str, fix: Fix) -> str:
    """The text after a repair, the pointers of its suppressions moved along."""
    moved = list(fix.edits)
    for i, s in enumerate(json.loads(text).get("suppress", ()) if '"suppress"' in text else ()):
        place, pointer = relocated(f"/suppress/{i}", fix.edits), s.get("pointer", "")
        new = relocated(pointer, fix.edits)
        if place is not None and new not in (None, pointer):
            moved.append(Edit("replace", f"{place}/pointer", new))
    return patched(text, moved)


def mend(text: str, targets: Sequence[Target | None] = (None,), *, prover: ProverChoice = "auto") -> Mended:
    """Every safe repair that helps. DescriptorError for a text that does not read."""
    work = _Work(targets, prover)
    first = state = work.first(text)
    repairs: list[Repair] = []
    while (step := _together(work, state) or _improved(work, state)) is not None:
        state, made = step
        repairs += made
    return Mended(state.text, work.last(state) if repairs else first.reports, first.reports, tuple(repairs))


# ---------------------------------------------------------------------------------------------------------------- steps
class _State(NamedTuple):
    text: str
    reports: tuple[Report, ...]  # with proposed repairs

    def findings(self) -> Counter[Key]:
        return Counter(_key(r.target, d) for r in self.reports for d in r.diagnostics)

    def open(self) -> Iterator[tuple[Key, Repair]]:
        """Each finding with each safe repair of it, errors first."""
        found = [(r.target, d) for r in self.reports for d in r.diagnostics]
        for target, d in sorted(found, key=lambda x: x[1].severity != "error"):
            yield from ((_key(target, d), Repair(d, f)) for f in d.fixes if f.safe)


def _key(target: str, d: Diagnostic) -> Key:
    return target, d.code, d.severity, d.pointer, tuple(r.pointer for r in d.related)


class _Work:
    """Checks texts on the targets, no more than MOST_CHECKS times in all; `known` are those that it has checked."""

    def __init__(self, targets: Sequence[Target | None], prover: ProverChoice) -> None:
        self.targets, self.prover, self.left = targets, prover, MOST_CHECKS
        self.known: dict[str, _State] = {}

    def first(self, text: str) -> _State:
        """The state before any repair; its length decides how many checks are left."""
        state = self.state(text, replay=True)
        length = sum(1 for _ in walk(KernelDescriptor.from_json(text).body))
        self.left = min(self.left, MOST_STATEMENTS // max(1, length))
        return state

    def last(self, state: _State) -> tuple[Report, ...]:
        """The reports after all repairs, with what is left shown in the interpreter."""
        if not any(r.errors for r in state.reports):
            return state.reports
        del self.known[state.text]
        return self.state(state.text, replay=True).reports

    def state(self, text: str, *, replay: bool = False) -> _State:
        if text not in self.known:
            self.left -= 1
            kernel = KernelDescriptor.from_json(text)
            found = ((check(kernel, t, prover=self.prover, replay=replay), t) for t in self.targets)
            self.known[text] = _State(text, tuple(proposed(kernel, report, t) for report, t in found))
        return self.known[text]

    def after(self, state: _State, fix: Fix) -> _State | None:
        """The state after a repair; None where the checks are used up or the repair does not fit."""
        if self.left <= 0:
            return None
        try:
            return self.state(applied(state.text, fix))
        except (DescriptorError, KeyError, ValueError):
            return None


def _together(work: _Work, state: _State) -> tuple[_State, list[Repair]] | None:
    """The repairs of all findings of one rule in one step, where none of them moves a statement."""
    by_code: dict[str, dict[Key, Repair]] = {}
    for key, repair in state.open():
        if all(e.op == "replace" for e in repair.fix.edits):
            by_code.setdefault(key[1], {}).setdefault(key, repair)
    for found in by_code.values():
        if len(found) < 2:
            continue
        edits = dict.fromkeys((e.path, json.dumps(e.value)) for r in found.values() for e in r.fix.edits)
        if len({path for path, _ in edits}) < len(edits):
            continue  # two of them want different things at one place
        all_of_them = Fix("", tuple(Edit("replace", path, json.loads(value)) for path, value in edits), safe=True)
        new = work.after(state, all_of_them)
        if new is not None and _within(new.findings(), state.findings() - Counter(found.keys()), state):
            return new, list(found.values())
    return None


def _improved(work: _Work, state: _State) -> tuple[_State, list[Repair]] | None:
    """The repair that leaves least, of the first few; where none helps by itself, one that leads to others."""
    tries = list(state.open())
    for depth in (0, MOST_BEHIND):
        found: list[tuple[_State, list[Repair]]] = []
        for n, (key, repair) in enumerate(tries):
            if found and n >= MOST_COMPARED:
                break
            step = _tried(work, state, state.findings(), key, repair, depth)
            found += [step] if step is not None else []
        if found:
            return min(found, key=lambda step: step[0].findings().total())
    return None


def _tried(
    work: _Work, state: _State, allowed: Counter[Key], key: Key, repair: Repair, depth: int
) -> tuple[_State, list[Repair]] | None:
    """What a repair leads to, if its finding goes and, in the end, all that is left was `allowed` before."""
    new = work.after(state, repair.fix)
    if new is None:
        return None
    now, before, allowed = new.findings(), _moved(state.findings(), repair.fix), _moved(allowed, repair.fix)
    gone = _moved(Counter({key: 1}), repair.fix)
    if any(now[here] >= before[here] for here in gone):
        return None
    allowed = allowed - gone
    if _within(now, allowed, state):
        return new, [repair]
    fresh = now - allowed
    for other, behind in new.open() if depth else ():
        if other in fresh and (found := _tried(work, new, allowed, other, behind, depth - 1)) is not None:
            return found[0], [repair, *found[1]]
    return None


def _within(now: Counter[Key], allowed: Counter[Key], before: _State) -> bool:
    """Whether nothing is left that was not allowed; of a kernel that no engine has seen, nothing that keeps it so."""
    if any(k[1] in UNUSABLE for k in before.findings()):
        now = Counter({k: n for k, n in now.items() if k[1] in UNUSABLE})
    return now <= allowed


def _moved(keys: Counter[Key], fix: Fix) -> Counter[Key]:
    """The findings at the places where their statements stand after a repair."""
    out: Counter[Key] = Counter()
    for (target, code, severity, pointer, related), n in keys.items():
        here = relocated(pointer, fix.edits)
        others: Any = tuple(relocated(p, fix.edits) for p in related)
        if here is not None and None not in others:
            out[target, code, severity, here, others] += n
    return out
