"""A certificate as data: the kernel, the target, what the launcher checks, and every obligation in a form that a
program which shares nothing with the harness can check again (`amk verify`; docs/soundness.md).

In: a report without any fault. Out: JSON data and its digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.occupancy import max_registers
from amk.dsl.registers import assumed_registers, estimate_registers, with_margin
from amk.dsl.target import Target
from amk.harness.diagnostics import Obligation, Report
from amk.harness.intervals import of_dtype
from amk.version import __version__

__all__ = ["FORMAT", "content", "digest", "printed"]

FORMAT = 1
_BY = {"affine": "proof", "z3": "proof", "enumeration": "walk", "structure": "form"}
_LIMITS = {  # a certificate states these against the target's limits, whatever the report says of them
    "AMK102": re.compile(r"grid ([xyz]) = (.*) is at most \d+"), "AMK103": None, "AMK104": None, "AMK105": None,
}  # fmt: skip
_HALF = re.compile(r"(.*) (<=|>=) (-?\d+)")


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of everything that a certificate says but its digest."""
    said = {n: v for n, v in data.items() if n != "digest"}
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def content(kernel: KernelDescriptor, target: Target, report: Report, meaning: str) -> dict[str, Any]:
    """Everything that the certificate of a kernel says."""
    operator = kernel.origin.operator if kernel.origin is not None else ""
    out: dict[str, Any] = {
        "certificate": FORMAT, "amk": __version__, "kernel": kernel.to_dict(places=False), "hash": kernel.hash,
        "target": target.to_dict(), "meaning": meaning, "facts": list(report.facts), "walked": len(report.cases),
        "cases": [_case(kernel, env) for env in report.cases], "obligations": _obligations(kernel, target, report),
    }  # fmt: skip
    if meaning == "checked":
        out["operator"] = operator or "unnamed"
    return out | {"digest": digest(out)}


def printed(data: Mapping[str, Any]) -> str:
    """The text of a certificate: an obligation, a case or a fact a line."""
    rows = []
    for name, value in data.items():
        if isinstance(value, list) and value:
            inner = ",\n".join(f"    {json.dumps(x)}" for x in value)
            rows.append(f"  {json.dumps(name)}: [\n{inner}\n  ]")
        else:
            rows.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _case(kernel: KernelDescriptor, env: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes and a block at which the order was walked; a value that JSON has no number for stands as text."""
    wanted = [p.name for p in kernel.scalars] + ["bx", "by", "bz"]
    return {n: repr(env[n]) if isinstance(env[n], float) else env[n] for n in wanted}


def _obligations(kernel: KernelDescriptor, target: Target, report: Report) -> list[dict[str, Any]]:
    """Each obligation once, in the order of rules, places and claims."""
    found = [x for o in report.obligations for x in _stated(o)] + list(_limits(kernel, target)) + list(_quiet(kernel))
    unique = {json.dumps(x, sort_keys=True): x for x in found}
    return sorted(unique.values(), key=lambda x: (x["rule"], x["at"], x["claim"], x.get("given", [])))


def _stated(o: Obligation) -> Iterator[dict[str, Any]]:
    """One obligation of the report; of a pair of bounds on a sum, the second stands for both."""
    if o.rule in _LIMITS:
        return
    by = _BY[o.by]
    if o.rule == "AMK108":
        by = "limits"
    if o.rule == "AMK401":
        by = "count" if o.by == "enumeration" else "form" if " is zero before" in o.claim else "tiles"
    claim, goal = o.claim, ""
    if o.rule in ("AMK201", "AMK202", "AMK203"):
        goal = claim.partition(", dimension ")[2].partition(": ")[2]
    elif o.rule == "AMK208":
        goal = claim
    elif o.rule == "AMK204" and ", coordinate " not in claim and (half := _HALF.fullmatch(claim)):
        if half[2] == "<=":
            return
        claim = f"{half[1]} fits {_type_of(int(half[3]))}"
    if o.rule == "AMK204" and (fits := re.fullmatch(r"(.*) fits ([iu]\d+)", claim)) and o.pointer:
        low, high = of_dtype(fits[2])
        goal = f"{low} <= {fits[1]} and {fits[1]} <= {high}"
    yield _plain(o.rule, o.pointer, claim, by, tuple(map(str, o.given)), goal)


def _type_of(low: int) -> str:
    return next(t for t in ("i32", "i64", "i8") if of_dtype(t)[0] == low)


def _plain(rule: str, at: str, claim: str, by: str, given: tuple[str, ...] = (), goal: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {"rule": rule, "at": at, "claim": claim, "by": by}
    return out | ({"given": list(given)} if given else {}) | ({"goal": goal} if goal else {})


def _limits(kernel: KernelDescriptor, target: Target) -> Iterator[dict[str, Any]]:
    """What the target allows, and that the kernel keeps to it."""
    machine = target.architecture
    most = machine.max_threads_per_block
    yield _plain("AMK101", "", f"{kernel.threads} threads a block are at most {most}", "limits")
    for axis, e, limit in zip("xyz", kernel.grid3, machine.max_grid, strict=True):
        yield _plain("AMK102", "", f"grid {axis} = {e} is at most {limit}", "proof", (), f"{e} <= {limit}")
    if kernel.cluster > 1:
        claim = f"grid x = {kernel.grid3[0]} is a multiple of the cluster of {kernel.cluster}"
        yield _plain("AMK102", "", claim, "proof", (), f"{kernel.grid3[0]} % {kernel.cluster} == 0")
    claim = f"{kernel.shared_bytes} bytes of shared memory are at most {machine.shared_optin}"
    yield _plain("AMK103", "", claim, "limits")
    fit = _most_registers(kernel, target)
    need = with_margin(estimate_registers(kernel, data_only=True))
    most = assumed_registers(kernel, target)
    claim = f"{need} registers of live data, estimated, of at most {fit}; a thread is taken to need at most {most}"
    yield _plain("AMK104", "", claim, "limits")
    yield _plain("AMK105", "", f"{kernel.min_blocks} blocks fit on a multiprocessor", "limits")


def _most_registers(kernel: KernelDescriptor, target: Target) -> int:
    """Registers that a thread may hold: as many blocks as are promised fit, or a role's own budget."""
    fit = max_registers(target, kernel.threads, kernel.min_blocks)
    roles = (r for _, s in walk(kernel.body) if s.kind == "team" for r in s.roles)
    return max([fit, *(r.registers for r in roles if r.registers is not None)]) if fit else 0


def _quiet(kernel: KernelDescriptor) -> Iterator[dict[str, Any]]:
    """What rules decide without a word in the report, where the kernel gives them something to decide."""
    yield _plain("AMK009", "", "some sizes satisfy ranges, divisors and assumptions", "proof")
    yield _plain("AMK404", "", "every tensor is used as its declaration says", "form")
    for rule, claim in _unsaid(kernel):
        yield _plain(rule, "", claim, "walk")


def _unsaid(kernel: KernelDescriptor) -> Iterator[tuple[str, str]]:
    """Rule and claim of what the walk of a block shows besides."""
    kinds = {s.kind for _, s in walk(kernel.body)}
    rows = [ROWS[s.row] for _, s in walk(kernel.body) if s.kind == "call"]
    for m in kernel.barriers:
        yield "AMK202", f"every use of '{m.name}' is of one of its slots"
    if any(r.issuer != "thread" for r in rows):
        yield "AMK305", "every instruction of whole warps is reached by whole warps"
    if "atomic" in kinds:
        yield "AMK306", "no plain access races with an atomic one"
    if any(r.completes != "now" for r in rows):
        yield "AMK308", "no asynchronous copy is in flight when the block ends"
    if any(o.proxy == "async" for r in rows for o in r.operands):
        yield "AMK309", "ordinary accesses are fenced from the asynchronous proxy"
    if any(r.completes == "wgmma" for r in rows):
        yield "AMK311", "no register is touched that a wgmma under way owns"
        yield "AMK317", "the tiles and the scale of each wgmma are the same in all threads of its warpgroup"
    if any("members" in s.args for _, s in walk(kernel.body) if s.kind == "call"):
        yield "AMK318", "no lane reads one that takes no part"
    if kernel.cluster > 1:
        yield "AMK312", "no block leaves its cluster while a peer may still reach it"
