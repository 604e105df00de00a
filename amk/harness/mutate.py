"""The mutation campaign: does the checker refuse what goes wrong, and accept what does not?

In: kernels with sizes to run them at, a seed. Out: for every mutant the checker's verdict against the interpreter's,
which shares no code with it. A mutant that the checker accepts and the interpreter faults is a false accept.
"""

from __future__ import annotations

import re
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
DRAWS = 24  # of a mutant that was not there before; the second half of them change the kernel twice
MORE_SIZES = 8  # at which a mutant runs before its refusal counts as false
# Limits of a device, forms that the engines do not read, and what a kernel says that it does with a tensor: the
# interpreter has no opinion about these.
UNJUDGED = ("AMK0", "AMK1", "AMK404")


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
    rejects: list[dict[str, Any]] = field(default_factory=list)
    crashes: list[dict[str, Any]] = field(default_factory=list)
    oracle_failures: list[dict[str, Any]] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """4 for a fault of ours, 1 for a false accept, else 0."""
        return 4 if self.crashes else 1 if self.false_accepts else 0

    def rejects_by_reason(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """The false rejects, those of one reason together, the most frequent reason first."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for reject in self.rejects:
            groups.setdefault(reject["reason"], []).append(reject)
        return sorted(groups.items(), key=lambda group: -len(group[1]))

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        t = vars(self.total)
        plain = {n: t[n] for n in ("mutants", "faulty", "refused", "malformed", "unjudged", "not_run", "wrong_result")}
        return {
            "seed": self.seed, **plain, "false_accepts": self.false_accepts,
            "false_rejects": {
                "count": self.total.false_rejects, "by_rule": dict(Counter(r["rule"] for r in self.rejects)),
                "by_reason": [
                    {"reason": reason, "count": len(found), "mutants": found}
                    for reason, found in self.rejects_by_reason()
                ],
            },
            "crashes": self.crashes, "oracle_failures": self.oracle_failures, "faults": dict(self.faults),
            "by_kernel": {n: dict(vars(x)) for n, x in self.by_kernel.items()}, "slowest_check": self.slowest,
            "seconds": round(self.seconds, 1),
        }  # fmt: skip


def campaign(
    subjects: Sequence[Subject], *, seed: int, mutants: int, checker: Checker = check, seconds: float | None = None
) -> Campaign:
    """Judges that many different mutants, by turns of every kernel; they depend on the seed and the kernels alone.

    A kernel that has no more of them to give leaves its turn to the next. `seconds` ends the campaign early. Raises
    InputError for a kernel that is itself refused or faulty.
    """
    start, out = time.perf_counter(), Campaign(seed)
    judges = [_Judge(s, checker, out) for s in subjects]
    for judge in judges:
        judge.expect_right()
    seen: set[str] = set()
    for number in range(mutants if judges else 0):
        if seconds is not None and time.perf_counter() - start > seconds:
            break
        turns = (judges[(number + i) % len(judges)] for i in range(len(judges)))
        made = ((judge, _new(judge.subject.kernel, Random(f"{seed}/{number}"), seen)) for judge in turns)
        judge, new = next(((judge, new) for judge, new in made if new), (judges[0], None))
        if new:
            judge.judge(*new)
    out.seconds = time.perf_counter() - start
    return out


def _new(kernel: KernelDescriptor, rng: Random, seen: set[str]) -> tuple[KernelDescriptor, str] | None:
    """A mutant that was not there before: of one change, or of two where draws of one give none; None: of neither."""
    seen.add(kernel.hash)  # a second change may undo the first
    for draw in range(DRAWS):
        mutant, said = mutate(kernel, rng)
        if draw >= DRAWS // 2:
            mutant, more = mutate(mutant, rng)
            said += f"; then {more}"
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
        """The interpreter's verdict: at the checker's own counterexample, or at the sizes of this kernel."""
        if replayed := [d for d in report.errors if d.confirmed]:
            self.count("faulty")
            self.out.faults[f"at the counterexample ({replayed[0].code[:4]}xx)"] += 1
            return
        truth = _truth(mutant, self.subject.sizes)
        if truth.fault is not None:
            self.count("faulty")
            self.out.faults[truth.fault.kind] += 1
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
        elif truth.fault is None:
            self._reject(mutant, report, truth, about)

    def _reject(self, mutant: KernelDescriptor, report: Report, truth: _Truth, about: dict[str, Any]) -> None:
        """A mutant that was refused and shows no fault: by which rule, why, and what the runs showed instead."""
        found = [*report.errors, *report.undecided]
        judged = [d for d in found if not _beyond(mutant, d)]
        if len(judged) < len(found):
            self.count("unjudged")
            return
        closer = _truth(mutant, self._more_sizes(mutant))
        if closer.fault is not None:
            self.count("faulty")
            self.out.faults[closer.fault.kind] += 1
            return
        self.count("false_rejects")
        truth.outputs |= closer.outputs
        d = judged[0]
        rule = d.code if d.severity == "error" else f"{d.code} undecided"
        saw = "the results of the kernel itself" if _same(self.right, truth.outputs) else "other results"
        sizes = [dict(key) for key in truth.outputs]
        self.out.rejects.append({
            **about, "reason": f"{rule} {_SPECIAL.sub('..', d.message)}", "rule": rule, "message": d.message,
            "pointer": d.pointer, "counterexample": dict(d.counterexample), "saw": f"no fault, and {saw}",
            "sizes": sizes,
        })  # fmt: skip

    def _more_sizes(self, mutant: KernelDescriptor) -> list[Sizes]:
        """Sizes up to those of the subject and a little beyond, the same for the same mutant."""
        most = {n: max(sizes[n] for sizes in self.subject.sizes) + 5 for n in self.subject.sizes[0]}
        rng = Random(mutant.hash)
        return [{n: rng.randint(0, top) for n, top in most.items()} for _ in range(MORE_SIZES)]


# What a message says of one mutant alone: names, numbers and terms in quotation marks.
_SPECIAL = re.compile(r"'[^']*'|`[^`]*`|\w+\[.*?\](?=[ ,.:;]|$)|\b\w* ?= ?-?\d+|-?\b\d[\d,]*\b")


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
