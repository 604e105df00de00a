"""`verify`: one certificate, re-checked.

In: the text of a certificate; if the caller knows them, the kernel and the target that are meant. Out: an Outcome. The
certificate is only a list of claims: what has to hold is derived here from its descriptor, and each of it shown again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.printable import escape
from amk.dsl.target import Target
from amk.verify.cases import likely
from amk.verify.domain import declare, satisfied
from amk.verify.duty import Duty, said
from amk.verify.envelope import AGAIN, Claimed, read
from amk.verify.form import require_form
from amk.verify.known import ARITHMETIC, WALK, unknown
from amk.verify.limits import limits
from amk.verify.logic import Logic, Verdict
from amk.verify.numeric import numeric
from amk.verify.order import at_cases, decide, duties
from amk.verify.outcome import Malformed, NotCovered, Outcome, Shown
from amk.verify.outputs import Count, Outputs
from amk.verify.values import NoValue

__all__ = ["verify"]

MEND = "mend the kernel and certify it again"
COUNTED = 24  # single cases in which what is written is counted, to find a fault


def verify(
    text: str | bytes, *, name: str = "<input>", kernel: KernelDescriptor | None = None, target: Target | None = None
) -> Outcome:
    """The outcome for one certificate, of `kernel` and for `target` if these are given.

    Raises:  DescriptorError for text that is no JSON object
    """
    start, out = time.perf_counter(), Outcome()
    claimed = read(text, out, name=name, target=target)
    if claimed is not None and kernel is not None and kernel.hash != claimed.kernel.hash:
        what = f"it is of the kernel {claimed.kernel.hash[:16]}…, and {kernel.hash[:16]}… is wanted"
        out.refuse("/kernel", what, AGAIN)
    elif claimed is not None:
        _recheck(claimed, out)
    out.milliseconds = (time.perf_counter() - start) * 1000
    return out


def _recheck(claimed: Claimed, out: Outcome) -> None:
    again, alien = _Recheck(claimed, out), unknown(claimed.kernel, ARITHMETIC)
    try:
        if alien is None:
            require_form(claimed.kernel, claimed.target)
            again.run()
    except NotCovered as fault:
        alien = fault
    except Malformed as fault:
        out.refuse(f"/kernel{fault.where}", escape(fault.what, 200), MEND)
    except RecursionError:
        alien = NotCovered("", "terms that nest more deeply than it can follow")
    if alien is not None and not out.findings:
        again.unread(alien)


class _Recheck:
    """The obligations of one kernel, derived and discharged."""

    def __init__(self, claimed: Claimed, out: Outcome) -> None:
        self.claimed, self.kernel, self.out = claimed, claimed.kernel, out
        self.logic = Logic()
        self.listed = {said(o): i for i, o in reversed(list(enumerate(claimed.obligations)))}
        self.proved: Counter[tuple[str, str]] = Counter()

    def run(self) -> None:
        """Derived and claimed have to be the same; then each is discharged, the costly ones last."""
        self.sums = sums = numeric(self.kernel, Logic())
        walks = duties(self.kernel)
        declare(self.logic, self.kernel)
        self.outputs = Outputs(self.kernel, self.logic)
        outputs = dict(self._outputs())
        limited = dict(limits(self.kernel, self.claimed.target, self.logic))
        some = Duty("AMK009", "", "some sizes satisfy ranges, divisors and assumptions", "proof")
        form = Duty("AMK404", "", "every tensor is used as its declaration says", "form")
        self._compare([*sums.found, *limited, some, form, *walks, *outputs])
        if self.out.findings:
            return
        self._judge(form, Verdict("proved"))  # or it had not come this far
        self._judge(some, Verdict(satisfied(self.logic, self.kernel)))
        for duty, verdict in limited.items():
            self._judge(duty, verdict)
        for duty in sums.found:
            self._judge(duty, sums.discharge(duty))
        if not self.out.findings:
            self._walk(walks)
            for duty, name in outputs.items():
                self._written(duty, name)
            self._tell()

    def unread(self, why: NotCovered) -> None:
        """Of a kernel with something that is not known here no obligation but the target's limits is derived."""
        self.proved.clear()
        self.out.trusted.clear()
        self.logic = Logic()
        declare(self.logic, self.kernel)
        limited = dict(limits(self.kernel, self.claimed.target, self.logic))
        mine = {said(d.to_dict()): v for d, v in limited.items()}
        what = f"this program does not know {escape(why.what, 200)} (/kernel{why.where})"
        for i, o in enumerate(self.claimed.obligations):
            verdict = mine.get(said(o))
            if verdict is not None and verdict.status == "proved":
                self.proved[o["rule"], o["by"]] += 1
            elif verdict is not None and verdict.status == "refuted":
                self.out.refuse(f"/obligations/{i}", f"{o['rule']} does not hold: {escape(o['claim'], 160)}", MEND)
            else:
                self.out.trust(escape(o["rule"], 20), f"/obligations/{i}", escape(o["claim"], 160), what)
        self.out.trust("all", "/obligations", "these obligations are all that there are", what)
        self._tell()

    # -- what is claimed ---------------------------------------------------------------------------------------------
    def _outputs(self) -> Iterator[tuple[Duty, str]]:
        """One duty for each written tensor; by counting, where the certificate says so and all sizes are constants."""
        for x, mine in self.outputs.tensors():
            written = [s for s in mine if s.mode != "read"]
            if not written:
                raise Malformed("", f"{x.name} is declared {x.access} and never written")
            duty = Duty("AMK401", written[0].at, f"every element of '{x.name}' is written exactly once", "tiles")
            claim = f"'{x.name}' is zero before, and nothing but atomic updates touches it"
            zero = Duty("AMK401", written[0].at, claim, "form")
            if x.access == "add" and all(s.mode == "update" for s in mine) and said(zero.to_dict()) in self.listed:
                yield zero, x.name  # each element has a value then, wherever the updates go
                continue
            counted = duty._replace(by="count")
            by_count = said(counted.to_dict()) in self.listed and self.outputs.constant(x, mine)
            yield (counted if by_count else duty), x.name

    def _compare(self, derived: list[Duty]) -> None:
        """What the certificate lacks, says twice, or says too much."""
        wanted = {said(d.to_dict()): d for d in derived}
        lacking = [d for key, d in wanted.items() if key not in self.listed]
        seen: set[str] = set()
        for i, o in enumerate(self.claimed.obligations):
            key = said(o)
            if key in seen:
                self.out.refuse(f"/obligations/{i}", "this obligation stands there twice", AGAIN)
            elif key not in wanted:
                near = next((d for d in lacking if (d.rule, d.at) == (o["rule"], o["at"])), None)
                self.out.refuse(f"/obligations/{i}", _unwanted(o, near), AGAIN)
            seen.add(key)
        for d in lacking[:8]:
            what = f"{d.rule} at {d.at or 'the kernel'} is missing: {escape(d.claim, 160)}"
            self.out.refuse("/obligations", what, AGAIN)

    def _judge(self, duty: Duty, verdict: Verdict) -> None:
        where, claim = self._place(duty), escape(duty.claim, 160)
        if verdict.status == "proved":
            self.proved[duty.rule, duty.by] += 1
        elif verdict.status == "refuted":
            example = {n: int(v) for n, v in verdict.model.items() if "'" not in n and " at " not in n}
            self.out.refuse(where, f"{duty.rule} does not hold: {claim}", MEND, example)
        else:
            self.out.trust(duty.rule, where, claim, "the solver leaves it open")

    def _place(self, duty: Duty) -> str:
        i = self.listed.get(said(duty.to_dict()))
        return "/obligations" if i is None else f"/obligations/{i}"

    def _trust(self, duties: Iterable[Duty], why: str) -> None:
        for d in duties:
            self.out.trust(d.rule, self._place(d), escape(d.claim, 160), why)

    # -- walks and outputs -------------------------------------------------------------------------------------------
    def _walk(self, walks: tuple[Duty, ...]) -> None:
        """One block, for all sizes; then the cases of the certificate, which must say the same."""
        alien = unknown(self.kernel, WALK)
        if alien is not None:
            what = f"{escape(alien.what, 160)} (/kernel{alien.where})"
            left = [d for d in walks if not self._inside(d)]
            return self._trust(left, f"the walk of a block does not follow {what}")
        found = decide(self.kernel, self.logic, self.outputs.facts) if walks else None
        listed, walked = at_cases(self.kernel, self.logic, self.claimed.cases)
        if listed is not None:
            found = listed
        if found is None or found.status == "proved":
            for duty in walks:
                self.proved[duty.rule, duty.by] += 1
            if self.claimed.cases:
                of = f"{walked} of the {len(self.claimed.cases)} cases that the certificate lists"
                self.out.notes.append(f"order: shown for all sizes; {of} were walked besides, one by one")
            return
        where = f"/kernel{found.where}"
        if found.status == "refuted":
            what = f"{found.rule} does not hold: {escape(found.what, 200)}"
            self.out.refuse(where, what, MEND, found.at)
        else:
            what = f"the walk of a block for all sizes leaves open: {escape(found.what, 200)} ({where})"
            self._trust(walks, f"{what}; single sizes show no fault")

    def _inside(self, duty: Duty) -> bool:
        """Whether bounds of a shared array are shown by arithmetic, where no walk sees them."""
        claims = {f"every access to '{b.name}' is inside it": b.name for b in self.kernel.buffers}
        claims |= {f"every use of '{m.name}' is of one of its slots": m.name for m in self.kernel.barriers}
        mine = [claims[duty.claim]] if duty.claim in claims else []
        if not mine or not self.sums.all_inside(mine[0]):
            return False
        self.proved[duty.rule, "proof"] += 1
        return True

    def _written(self, duty: Duty, name: str) -> None:
        """One output: shown as the certificate says, or else counted in single cases to find a fault."""
        x, mine = next((x, mine) for x, mine in self.outputs.tensors() if x.name == name)
        try:
            if duty.by == "form" or self.outputs.shown(x, mine, duty.by):
                self.proved[duty.rule, duty.by] += 1
                return
        except NoValue:
            pass
        for n, case in enumerate(likely(self.kernel)):
            if n >= COUNTED:
                break
            sizes = {p.name: case[p.name] for p in self.kernel.scalars}
            try:
                fault = Count(self.outputs, x, mine, sizes).run()
            except NoValue:  # too much to count, or a term that means nothing there
                continue
            if fault is not None:
                what = f"{fault.rule} does not hold: {escape(str(fault), 200)}"
                self.out.refuse(f"/kernel{fault.where}", what, MEND, fault.at)
                return
        boxes = "; boxes are not counted" if any(not s.index for s in mine) else ""
        self._trust([duty], f"no form is found that shows it for all sizes{boxes}")

    def _tell(self) -> None:
        how = {
            "proof": "Z3, in an encoding of its own", "walk": "a walk of one block", "tiles": "one tile, and Z3",
            "count": "counting", "limits": "arithmetic", "form": "the form of the kernel",
        }  # fmt: skip
        sizes = "the kernel's sizes, which are constants"
        for (rule, by), n in sorted(self.proved.items()):
            self.out.shown.append(Shown(rule, n, how[by], sizes if by == "count" else "all sizes"))
        meant = f"checked against {escape(self.claimed.operator, 64)}" if self.claimed.operator else "not checked"
        self.out.notes.append(
            f"meaning: {meant}, says the certificate; this program does not re-check what is computed"
        )
        self.out.notes.append("registers: the estimate is the harness's own; the compiled binary decides")


def _unwanted(o: dict[str, Any], near: Duty | None) -> str:
    mine = f"{escape(o['rule'], 20)}, {escape(o['claim'], 120)!r}"
    if near is None:
        return f"nothing in the kernel asks for {mine}"
    have = near.to_dict()
    for field in ("claim", "by", "given", "goal"):
        if o.get(field) != have.get(field):
            one, other = (escape(str(x.get(field)), 120) for x in (o, have))
            return f"{field} is {one!r}, and {other!r} has to hold"
    return f"nothing in the kernel asks for {mine}"
