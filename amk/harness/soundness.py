"""The soundness campaign: seed by seed a mutant of a kernel of a family, judged by the checker and the interpreter.

In: families and a range of seeds. Out: a record of each mutant, and their summary. A seed says everything: which
family, which of its kernels, which one or two mutations. So ranges can be run apart, and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from amk.dsl.kernel import KernelDescriptor
from amk.errors import InputError
from amk.harness.check import check
from amk.harness.families import FAMILIES, Maker, Subject
from amk.harness.judge import Checker, Outputs, Verdict, judge, outputs_of
from amk.harness.mutations import mutate
from amk.harness.time_limit import OutOfTime, limited

__all__ = ["Case", "Record", "Soundness"]

VARIANTS = 24  # kernels that a family is asked for
DRAWS = 8  # of a mutant that reads; one of them is taken as it is
TWICE = 0.4  # share of mutants of two changes
LIMIT_S = 20.0
Record = dict[str, Any]
# What somebody has to look at, with its descriptor.
_KEPT = ("false accept", "false reject", "checker failed", "interpreter failed", "timed out")


class Case(NamedTuple):
    """What a seed draws."""

    seed: int
    family: str
    variant: int
    mutant: KernelDescriptor
    said: str


class Soundness:
    """Judges the mutants of families; `limit` is the seconds of processor time that one may take (None: no limit)."""

    def __init__(
        self, families: Mapping[str, Maker] = FAMILIES, checker: Checker = check, limit: float | None = LIMIT_S
    ) -> None:
        self.families, self.checker, self.limit = dict(families), checker, limit
        self.names = sorted(self.families)
        self.subject = lru_cache(maxsize=None)(self._subject)

    def family_of(self, seed: int) -> str:
        """The family whose turn it is."""
        return self.names[seed % len(self.names)]

    def _subject(self, family: str, variant: int) -> tuple[Subject, Outputs]:
        kernel, sizes = self.families[family](Random(f"{family}/{variant}"))
        subject = Subject(family, kernel, tuple(sizes))
        report = self.checker(kernel) if self.checker is check else None
        try:
            if report is not None and not report.ok:
                raise ValueError((*report.errors, *report.undecided)[0].message)
            return subject, outputs_of(subject)
        except ValueError as e:
            raise InputError(f"{family} is no family to mutate: {e}", hint="its kernels have to be right") from None

    def cases(self, seed: int) -> Iterator[Case]:
        """The draws of a seed: the first that reads counts."""
        family, rng = self.family_of(seed), Random(f"soundness/{seed}")
        variant = rng.randrange(VARIANTS)
        subject, _ = self.subject(family, variant)
        for _ in range(DRAWS):
            mutant, said = mutate(subject.kernel, rng)
            if rng.random() < TWICE and mutant.body:  # a kernel of one statement may have lost it
                mutant, more = mutate(mutant, rng)
                said += f"; then {more}"
            if mutant.hash != subject.kernel.hash:  # a second change may undo the first
                yield Case(seed, family, variant, mutant, said)

    def record(self, seed: int) -> Record:
        """What became of the mutant of a seed."""
        start = time.process_time()
        case, verdict = self._judged(seed)
        out: Record = {
            "seed": seed, "family": case.family, "variant": case.variant, "mutation": case.said,
            "hash": case.mutant.hash, **verdict.to_dict(), "seconds": round(time.process_time() - start, 4),
        }  # fmt: skip
        if verdict.outcome in _KEPT:
            out["descriptor"] = case.mutant.to_dict(places=False)
        return out

    def _judged(self, seed: int) -> tuple[Case, Verdict]:
        drawn: tuple[Case, Verdict] | None = None
        for case in self.cases(seed):
            subject, right = self.subject(case.family, case.variant)
            try:
                with limited(self.limit):
                    verdict = judge(case.mutant, subject, right, self.checker)
            except OutOfTime:
                verdict = Verdict("timed out", message=f"longer than {self.limit:g} s")
            drawn = case, verdict
            if verdict.outcome != "malformed":
                break
        if drawn is None:
            raise InputError(f"seed {seed} draws no mutant", hint="take another seed")
        return drawn

    def run(
        self, first: int, end: int, *, done: Collection[int] = (), only: Collection[str] = (),
        seconds: float | None = None, keep: Callable[[Record], None] = lambda record: None,
    ) -> Iterator[Record]:  # fmt: skip
        """The records of the seeds `first` to `end - 1` that are not done, each kept before it is given.

        `only` names the families that are meant; `seconds` ends the run early.
        """
        start = time.perf_counter()
        for seed in range(first, end):
            if seconds is not None and time.perf_counter() - start > seconds:
                return
            if seed in done or (only and self.family_of(seed) not in only):
                continue
            record = self.record(seed)
            keep(record)
            yield record
