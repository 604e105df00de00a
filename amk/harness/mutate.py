"""The mutation campaign: does the checker refuse what goes wrong, and accept what does not?

In: kernels with sizes to run them at, a seed. Out: for every mutant the checker's verdict against the interpreter's,
which shares no code with it. A mutant that the checker accepts and the interpreter faults is a false accept.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Param
from amk.dsl.types import nbytes
from amk.errors import AmkError, ArgumentError, InputError, Refused
from amk.harness.check import check
from amk.harness.diagnostics import UNUSABLE, Diagnostic, Report
from amk.harness.interp_args import complete, estimate_lane_ops, tensor_bytes
from amk.harness.interpret import MAX_CONFIRM_BYTES, MAX_CONFIRM_OPS, Fault, arguments, run
from amk.harness.mutations import mutate

__all__ = ["Campaign", "Checker", "Subject", "campaign"]

Checker = Callable[[KernelDescriptor], Report]
Sizes = Mapping[str, int]
LANE_OPS = 4_000_000
MOST_SHOWN = 5
# Limits of a device, and forms that the engines do not read: the interpreter has no opinion about these.
UNJUDGED = ("AMK0", "AMK1")


@dataclass(frozen=True)
class Subject:
    """A kernel that is right, and the sizes at which its mutants run (moved into each mutant's own domain)."""

    name: str
    kernel: KernelDescriptor
    sizes: tuple[Sizes, ...]


@dataclass
class Tally:
    """Of one kernel or of all: how many mutants were what."""

    mutants: int = 0
    faulty: int = 0
    refused: int = 0
    malformed: int = 0
    false_accepts: int = 0
    false_rejects: int = 0
    unjudged: int = 0
    not_run: int = 0
    wrong_result: int = 0


@dataclass
class Campaign:
    """What a campaign found. `crashes` are faults of the checker itself, `oracle_failures` of the interpreter."""

    seed: int
    total: Tally = field(default_factory=Tally)
    by_kernel: dict[str, Tally] = field(default_factory=dict)
    false_accepts: list[dict[str, Any]] = field(default_factory=list)
    rejects: Counter[str] = field(default_factory=Counter)
    reject_examples: list[dict[str, Any]] = field(default_factory=list)
    crashes: list[dict[str, Any]] = field(default_factory=list)
    oracle_failures: list[dict[str, Any]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """4 for a fault of ours, 1 for a false accept, else 0."""
        return 4 if self.crashes else 1 if self.false_accepts else 0

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        t = vars(self.total)
        plain = {n: t[n] for n in ("mutants", "faulty", "refused", "malformed", "unjudged", "not_run", "wrong_result")}
        return {
            "seed": self.seed, **plain, "false_accepts": self.false_accepts,
            "false_rejects": {
                "count": self.total.false_rejects, "by_rule": dict(self.rejects), "examples": self.reject_examples,
            },
            "crashes": self.crashes, "oracle_failures": self.oracle_failures, "faults": dict(self.faults),
            "by_kernel": {n: dict(vars(x)) for n, x in self.by_kernel.items()}, "slowest_check": self.slowest,
            "seconds": round(self.seconds, 1),
        }  # fmt: skip


def campaign(
    subjects: Sequence[Subject], *, seed: int, mutants: int, checker: Checker = check, seconds: float | None = None
) -> Campaign:
    """Judges that many different mutants, by turns of every kernel; a mutant depends on the seed and its number alone.

    `seconds` ends the campaign early. Raises InputError for a kernel that is itself refused or faulty.
    """
    start, out = time.perf_counter(), Campaign(seed)
    judges = [_Judge(s, checker, out) for s in subjects]
    for judge in judges:
        judge.expect_right()
    seen: set[str] = set()
    for number in range(mutants if judges else 0):
        if seconds is not None and time.perf_counter() - start > seconds:
            break
        judge = judges[number % len(judges)]
        made = _new(judge.subject.kernel, Random(f"{seed}/{number}"), seen)
        if made is not None:
            judge.judge(*made)
    out.seconds = time.perf_counter() - start
    return out


def _new(kernel: KernelDescriptor, rng: Random, seen: set[str]) -> tuple[KernelDescriptor, str] | None:
    """A mutant that was not there before, or None where twenty draws give none."""
    for _ in range(20):
        mutant, said = mutate(kernel, rng)
        if mutant.hash not in seen:
            seen.add(mutant.hash)
            return mutant, said
    return None


class _Judge:
    """Judges the mutants of one kernel, and counts."""

    def __init__(self, subject: Subject, checker: Checker, out: Campaign) -> None:
        self.subject, self.checker, self.out = subject, checker, out
        self.tally = out.by_kernel.setdefault(subject.name, Tally())
        self.right: dict[tuple[tuple[str, int], ...], dict[str, Any]] = {}

    def expect_right(self) -> None:
        """Raises InputError if the kernel itself is faulty: its mutants would show nothing."""
        truth = _truth(self.subject.kernel, self.subject.sizes)
        if truth.fault or truth.failure or not truth.outputs:
            why = truth.fault or truth.failure or "it runs at none of its sizes"
            raise InputError(f"{self.subject.name} is no kernel to mutate: {why}", hint="give a kernel that is right")
        self.right = truth.outputs

    def count(self, name: str) -> None:
        for tally in (self.out.total, self.tally):
            setattr(tally, name, getattr(tally, name) + 1)

    def judge(self, mutant: KernelDescriptor, said: str) -> None:
        """One mutant: the checker's verdict, then the interpreter's."""
        self.count("mutants")
        about = {"kernel": self.subject.name, "mutation": said}
        start = time.perf_counter()
        try:
            report = self.checker(mutant)
        except AmkError as e:
            report = _refusal(mutant, e)
        except Exception as e:  # what a campaign looks for: a checker that fails on a kernel is a finding
            self.out.crashes.append({**about, "error": f"{type(e).__name__}: {e}"})
            return
        spent = round(time.perf_counter() - start, 3)
        if spent > self.out.slowest.get("seconds", 0.0):
            self.out.slowest = {**about, "seconds": spent, "rules": sorted({d.code for d in report.diagnostics})}
        if mine := [d for d in report.diagnostics if d.code.startswith("AMK9")]:
            self.out.crashes.append({**about, "error": f"{mine[0].code} {mine[0].message}"})
            return
        if not report.ok:
            self.count("refused")
        if any(d.code in UNUSABLE for d in report.errors):
            self.count("malformed")
            return
        self._compare(mutant, report, about)

    def _compare(self, mutant: KernelDescriptor, report: Report, about: dict[str, Any]) -> None:
        truth = _truth(mutant, self.subject.sizes)
        replayed = [d for d in report.errors if d.confirmed]
        if truth.fault is not None or replayed:
            self.count("faulty")
            self.out.faults[
                truth.fault.kind if truth.fault else f"at the counterexample ({replayed[0].code[:4]}xx)"
            ] += 1
        if report.ok and truth.fault is not None:
            self.count("false_accepts")
            sizes = {**about, "fault": str(truth.fault), "sizes": dict(truth.sizes), "pointer": truth.fault.pointer}
            self.out.false_accepts.append({**sizes, "descriptor": mutant.to_dict(places=False)})
        elif truth.failure and truth.fault is None:
            self.out.oracle_failures.append({**about, "accepted": report.ok, "error": truth.failure})
        elif not truth.outputs and truth.fault is None:
            self.count("not_run")
        elif report.ok:
            if not _same(self.right, truth.outputs):
                self.count("wrong_result")
        elif truth.fault is None and not replayed:
            self._reject(mutant, report, about)

    def _reject(self, mutant: KernelDescriptor, report: Report, about: dict[str, Any]) -> None:
        found = [*report.errors, *report.undecided]
        judged = [d for d in found if not _beyond(mutant, d)]
        if len(judged) < len(found):
            self.count("unjudged")
            return
        self.count("false_rejects")
        d = judged[0]
        rule = d.code if d.severity == "error" else f"{d.code} undecided"
        self.out.rejects[rule] += 1
        if sum(e["rule"] == rule for e in self.out.reject_examples) < MOST_SHOWN:
            example = {**about, "rule": rule, "message": d.message, "pointer": d.pointer}
            self.out.reject_examples.append({**example, "counterexample": dict(d.counterexample)})


def _beyond(kernel: KernelDescriptor, d: Diagnostic) -> bool:
    """Whether the interpreter cannot tell: it has no device, NumPy aligns every base, and memory ends."""
    if d.code.startswith(UNJUDGED):
        return True
    if d.code == "AMK205" and any(p.align < nbytes(p.dtype) for p in kernel.tensors):
        return True
    if not d.counterexample:
        return False
    try:
        sizes = complete(kernel, d.counterexample)
        large = tensor_bytes(kernel, sizes) > MAX_CONFIRM_BYTES
        return large or estimate_lane_ops(kernel, sizes) > MAX_CONFIRM_OPS
    except (ValueError, ZeroDivisionError, AmkError):
        return False


def _refusal(kernel: KernelDescriptor, e: AmkError) -> Report:
    found = Diagnostic("AMK008", "refused", "error", e.message)
    return Report(kernel.name, kernel.hash, kernel.target, (found,))


# --------------------------------------------------------------------------------------------------------------- truth
@dataclass
class _Truth:
    """The first fault and its sizes, what the interpreter failed at, and the outputs of the clean runs."""

    fault: Fault | None = None
    sizes: Sizes = field(default_factory=dict)
    failure: str = ""
    outputs: dict[tuple[tuple[str, int], ...], dict[str, Any]] = field(default_factory=dict)


def _truth(kernel: KernelDescriptor, sizes: Sequence[Sizes]) -> _Truth:
    out = _Truth()
    for wanted in sizes:
        chosen = _inside(kernel, wanted)
        key = tuple(sorted(chosen.items()))
        try:
            args = arguments(kernel, chosen, np.random.default_rng(0))
            run(kernel, args, detect=True, coverage=True, max_lane_ops=LANE_OPS)
        except Fault as e:
            if e.kind != "assume":  # an input that the launcher would refuse
                return _Truth(e, chosen, outputs=out.outputs)
        except (Refused, ArgumentError):
            continue
        except Exception as e:  # an interpreter that fails judges nothing, and the campaign says so
            out.failure = f"{type(e).__name__}: {e} (sizes {chosen})"
        else:
            out.outputs[key] = {p.name: args[p.name] for p in kernel.tensors if p.access != "read"}
    return out


def _inside(kernel: KernelDescriptor, wanted: Sizes) -> dict[str, int]:
    """The sizes, each moved to the nearest value above that its parameter allows."""
    return {p.name: _allowed(p, wanted[p.name]) for p in kernel.scalars if p.name in wanted}


def _allowed(p: Param, value: int) -> int:
    m = p.multiple_of
    low, high = -(-p.min // m) * m, p.max // m * m
    return max(low, min(high, -(-value // m) * m))


def _same(right: Mapping[Any, dict[str, Any]], got: Mapping[Any, dict[str, Any]]) -> bool:
    """Whether the outputs agree wherever both kernels ran at the same sizes."""
    for key in right.keys() & got.keys():
        for name, x in right[key].items():
            y = got[key].get(name)
            if y is None or y.shape != x.shape or not np.allclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True):
                return False
    return True
