"""One mutant judged: the checker's verdict against that of the interpreter, which shares no code with it.

In: a mutant and the kernel that it was made of. Out: a Verdict. A mutant that the checker accepts and the interpreter
faults is a false accept; one that the checker refuses and that shows no fault anywhere is a false reject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import numpy as np

from amk.dsl.flags import communicates
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Param
from amk.dsl.types import nbytes
from amk.errors import AmkError, ArgumentError, Refused
from amk.harness.check import check
from amk.harness.diagnostics import UNUSABLE, Diagnostic, Report
from amk.harness.families import Sizes, Subject
from amk.harness.interp_args import complete, estimate_lane_ops, tensor_bytes
from amk.harness.interpret import MAX_CONFIRM_BYTES, MAX_CONFIRM_OPS, Fault, arguments, run

__all__ = ["OUTCOMES", "Checker", "Outputs", "Verdict", "judge", "outputs_of"]

Checker = Callable[[KernelDescriptor], Report]
Outputs = dict[tuple[tuple[str, int], ...], dict[str, Any]]
LANE_OPS = 2_000_000
DATA = (-40, 80)  # integers that tensors hold: on both sides of what an index may be
SEEDS = (None, 1)  # schedules of the interpreter: its own, and one drawn at random
# Sizes drawn besides the subject's: behind an accept, and before a refusal counts as false.
ACCEPTED_SIZES, REFUSED_SIZES = 2, 6
OUTCOMES = {
    "caught": "refused, and the interpreter shows a fault",
    "accepted": "accepted, and free of faults wherever it ran",
    "false accept": "accepted, and the interpreter shows a fault",
    "false reject": "refused for a fault that no run shows",
    "undecided": "neither proved nor refuted, and no run shows a fault",
    "outside": "outside the checked fragment, and no run shows a fault",
    "unjudged": "refused for what the interpreter cannot show: a limit of the device, an alignment, sizes too large",
    "malformed": "no kernel: it does not read",
    "not run": "ran at none of its sizes",
    "timed out": "took longer than a mutant may",
    "checker failed": "the checker raised an error of its own",
    "interpreter failed": "the interpreter raised an error of its own",
}
# A domain without a size, limits of a device, and what a kernel says that it does with a tensor: nothing to run.
_UNJUDGED = ("AMK009", "AMK1", "AMK404")
# The same by what a message says: promises of a base address, and what a tensor is declared for.
_SAID = (("AMK205", "guarantees"), ("AMK209", "bytes of alignment"), ("AMK401", "and never written"))
_OUTSIDE = ("AMK007", "AMK008")


class Verdict(NamedTuple):
    """What one mutant is. `outcome` is a key of OUTCOMES; `rule` the rule that refused it and `message` what it said;
    `fault` what the interpreter showed, at `sizes`;
    `replayed` says that the checker's own counterexample showed it, `other_results` that an accepted mutant computes
    something else than its kernel (which no rule claims to see)."""

    outcome: str
    rule: str = ""
    message: str = ""
    pointer: str = ""
    fault: str = ""
    sizes: Mapping[str, int] = {}
    replayed: bool = False
    other_results: bool = False

    @property
    def faulty(self) -> bool:
        """Whether the interpreter showed a fault."""
        return bool(self.fault)

    def to_dict(self) -> dict[str, Any]:
        """JSON data; empty fields are left out."""
        return {n: v for n, v in self._asdict().items() if v}


def judge(mutant: KernelDescriptor, subject: Subject, right: Outputs, checker: Checker = check) -> Verdict:
    """The checker's verdict, then the interpreter's. `right` are the results of the subject itself. Never raises."""
    try:
        report = checker(mutant)
    except AmkError as e:
        report = _refusal(mutant, e)
    except Exception as e:  # what a campaign looks for: a checker that fails on a kernel is a finding
        return Verdict("checker failed", message=f"{type(e).__name__}: {e}")
    if mine := [d for d in report.diagnostics if d.code.startswith("AMK9")]:
        return Verdict("checker failed", mine[0].code, mine[0].message)
    if unusable := [d for d in report.errors if d.code in UNUSABLE]:
        return Verdict("malformed", unusable[0].code, unusable[0].message)
    if report.ok:
        return _accepted(mutant, subject, right)
    return _refused(mutant, subject, report)


def _accepted(mutant: KernelDescriptor, subject: Subject, right: Outputs) -> Verdict:
    truth = _truth(mutant, [*subject.sizes, *_more(mutant, subject, ACCEPTED_SIZES)], SEEDS)
    if truth.fault is not None:
        return _shown("false accept", truth)
    if truth.failure:
        return Verdict("interpreter failed", message=truth.failure)
    if not truth.outputs:
        return Verdict("not run")
    return Verdict("accepted", other_results=not _same(right, truth.outputs))


def _refused(mutant: KernelDescriptor, subject: Subject, report: Report) -> Verdict:
    found = [*report.errors, *report.undecided]
    if replayed := [d for d in report.errors if d.confirmed]:
        d = replayed[0]
        return Verdict("caught", d.code, d.message, d.pointer, f"as {d.code} says", d.counterexample, replayed=True)
    first = next((d for d in found if not _beyond(mutant, d)), found[0])
    truth = _truth(mutant, subject.sizes, SEEDS[:1])
    beyond = any(_beyond(mutant, d) for d in found)
    if truth.fault is None and not beyond:
        seen = truth
        truth = _truth(mutant, _more(mutant, subject, REFUSED_SIZES), SEEDS)
        truth.failure = truth.failure or seen.failure
        truth.outputs |= seen.outputs
    if truth.fault is not None:
        return _shown("caught", truth)._replace(rule=first.code, message=first.message, pointer=first.pointer)
    outcome = "unjudged" if beyond else _unshown(found, truth)
    return Verdict(outcome, first.code, truth.failure or first.message, first.pointer)


def _unshown(found: Sequence[Diagnostic], truth: _Truth) -> str:
    """What a refusal is that no run bears out."""
    if any(d.code in _OUTSIDE for d in found):
        return "outside"
    if truth.failure:
        return "interpreter failed"
    if not truth.outputs:
        return "not run"
    return "false reject" if found[0].severity == "error" else "undecided"


def _shown(outcome: str, truth: _Truth) -> Verdict:
    assert truth.fault is not None
    return Verdict(outcome, pointer=truth.fault.pointer, fault=str(truth.fault), sizes=dict(truth.sizes))


def _beyond(kernel: KernelDescriptor, d: Diagnostic) -> bool:
    """Whether the interpreter cannot tell: it has no device, NumPy aligns every base, and memory ends."""
    if d.code.startswith(_UNJUDGED):
        return True
    if d.code == "AMK205" and any(p.align < nbytes(p.dtype) for p in kernel.tensors):
        return True
    if any(d.code == code and part in d.message for code, part in _SAID):
        return True
    if d.code == "AMK401" and any(p.access == "add" and d.message.startswith(f"{p.name}[") for p in kernel.tensors):
        return True  # the interpreter counts writes, not additions
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
    outputs: Outputs = field(default_factory=dict)


def outputs_of(subject: Subject) -> Outputs:
    """The results of the kernel itself. Raises ValueError where it faults, fails or runs nowhere: its mutants would
    show nothing."""
    truth = _truth(subject.kernel, subject.sizes, SEEDS)
    if truth.fault or truth.failure or not truth.outputs:
        raise ValueError(str(truth.fault or truth.failure or "it runs at none of its sizes"))
    return truth.outputs


def _truth(kernel: KernelDescriptor, sizes: Sequence[Sizes], seeds: Sequence[int | None]) -> _Truth:
    """Runs at all sizes by the first schedule; by the others at the first size alone.

    Where blocks tell each other something a few more are tried, in which other numbers of blocks run at once.
    """
    out = _Truth()
    more = (*seeds[1:], *((2, 3, 4) if communicates(kernel) else ()))
    for wanted, seed in [(s, seeds[0]) for s in sizes] + [(sizes[0], s) for s in more]:
        chosen = _inside(kernel, wanted)
        key = tuple(sorted(chosen.items()))
        if seed is None and key in out.outputs:
            continue
        try:
            args = arguments(kernel, chosen, np.random.default_rng(0), low=DATA[0], high=DATA[1])
            run(kernel, args, detect=True, coverage=True, seed=seed, max_lane_ops=LANE_OPS)
        except Fault as e:
            if e.kind != "assume":  # an input that the launcher would refuse
                return _Truth(e, chosen, outputs=out.outputs)
        except (Refused, ArgumentError):
            continue
        except Exception as e:  # an interpreter that fails judges nothing, and the campaign says so
            out.failure = f"{type(e).__name__}: {e} (sizes {chosen})"
        else:
            out.outputs.setdefault(key, {p.name: args[p.name] for p in kernel.tensors if p.access != "read"})
    return out


def _more(mutant: KernelDescriptor, subject: Subject, count: int) -> list[Sizes]:
    """Sizes up to those of the subject and a little beyond, the same for the same mutant."""
    most = {n: max(sizes[n] for sizes in subject.sizes) + 5 for n in subject.sizes[0]}
    rng = Random(mutant.hash)
    return [{n: rng.randint(0, top) for n, top in most.items()} for _ in range(count)]


def _inside(kernel: KernelDescriptor, wanted: Sizes) -> dict[str, int]:
    """The sizes, each moved to the nearest value above that its parameter allows."""
    return {p.name: _allowed(p, wanted[p.name]) for p in kernel.scalars if p.name in wanted}


def _allowed(p: Param, value: int) -> int:
    m = p.multiple_of
    low, high = -(-p.min // m) * m, p.max // m * m
    return max(low, min(high, -(-value // m) * m))


def _same(right: Outputs, got: Outputs) -> bool:
    """Whether the outputs agree wherever both kernels ran at the same sizes."""
    for key in right.keys() & got.keys():
        for name, x in right[key].items():
            y = got[key].get(name)
            if y is None or y.shape != x.shape or not np.allclose(x, y, rtol=1e-4, atol=1e-4, equal_nan=True):
                return False
    return True
