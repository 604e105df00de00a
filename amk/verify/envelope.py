"""Reads a certificate: untrusted JSON comes in; the kernel, the target and what is claimed of them come out.

Whatever is missing, more than there should be, of another shape, or at odds with the rest, is a finding. Only text that
is no JSON object at all is an error of the input.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.printable import escape
from amk.dsl.source import read_object
from amk.dsl.target import Target
from amk.errors import DescriptorError, InputError
from amk.verify.cases import Case, in_domain, read_case
from amk.verify.domain import launch_facts
from amk.verify.duty import said
from amk.verify.outcome import Outcome
from amk.version import __version__

__all__ = ["FORMAT", "Claimed", "digest_of", "read"]

FORMAT = 1
FIELDS: dict[str, type] = {
    "certificate": int, "amk": str, "kernel": dict, "hash": str, "target": dict, "meaning": str, "facts": list,
    "walked": int, "cases": list, "obligations": list, "digest": str,
}  # fmt: skip
OBLIGATION: dict[str, type] = {"rule": str, "at": str, "claim": str, "by": str, "given": list, "goal": str}
AGAIN = "certify the kernel again: amk certify FILE -o CERT"


@dataclass
class Claimed:
    """What a certificate says of a kernel on a target. `operator`: what its meaning was compared with, if anything."""

    kernel: KernelDescriptor
    target: Target
    operator: str
    obligations: list[dict[str, Any]]
    cases: list[Case]


def digest_of(data: Mapping[str, Any]) -> str:
    """SHA-256 of everything that a certificate says but the digest itself."""
    rest = {n: v for n, v in data.items() if n != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read(text: str | bytes, out: Outcome, *, name: str, target: Target | None) -> Claimed | None:
    """The claims of a certificate; None where `out` says why it is none.

    Raises:  DescriptorError for text that is no JSON object
    """
    data: dict[str, Any] = read_object(text, name=name)
    if not _shaped(data, out) or not _current(data, out):
        return None
    kernel, place = _kernel(data, out), _target(data, out, target)
    if kernel is None or place is None:
        return None
    out.kernel, out.hash, out.target = kernel.name, kernel.hash, place.name
    _facts(data, kernel, out)
    cases = _cases(data["cases"], kernel, out)
    if out.findings:
        return None
    return Claimed(kernel, place, str(data.get("operator", "")), data["obligations"], cases)


def _shaped(data: Mapping[str, Any], out: Outcome) -> bool:
    if "certificate" not in data:
        out.refuse("/certificate", "the field 'certificate' is missing: this is no certificate", AGAIN)
        return False
    fields = FIELDS | ({"operator": str} if data.get("meaning") == "checked" else {})
    for n in sorted(fields.keys() - data.keys()):
        out.refuse(f"/{n}", f"the field {n!r} is missing", AGAIN)
    for n in sorted(data.keys() - fields.keys()):
        out.refuse(f"/{escape(n, 64)}", "a certificate has no such field", AGAIN)
    for n, kind in fields.items():
        if n in data and type(data[n]) is not kind:
            out.refuse(f"/{n}", f"{n!r} is no {kind.__name__}", AGAIN)
    if not out.findings and data["walked"] != len(data["cases"]):
        out.refuse("/walked", f"{data['walked']} cases were walked, and {len(data['cases'])} are listed", AGAIN)
    if not out.findings and data["meaning"] not in ("checked", "not checked"):
        out.refuse("/meaning", f"{escape(data['meaning'], 60)!r} is neither 'checked' nor 'not checked'", AGAIN)
    for i, o in enumerate(data["obligations"] if not out.findings else ()):
        if not _obligation(o):
            out.refuse(f"/obligations/{i}", "this is no obligation: rule, at, claim, by, given, goal", AGAIN)
    return not out.findings


def _obligation(o: Any) -> bool:
    if not isinstance(o, dict) or not {"rule", "at", "claim", "by"} <= o.keys() <= OBLIGATION.keys():
        return False
    if any(type(v) is not OBLIGATION[n] for n, v in o.items()):
        return False
    return all(isinstance(g, str) for g in o.get("given", ()))


def _current(data: Mapping[str, Any], out: Outcome) -> bool:
    """The digest is right, and this program knows what certificates of this format and version have to say."""
    if data["certificate"] != FORMAT:
        out.refuse("/certificate", f"format {data['certificate']}, and this program reads {FORMAT}", AGAIN)
    elif data["digest"] != digest_of(data):
        out.refuse("/digest", "the digest is another one: the certificate was changed after it was made", AGAIN)
    elif data["amk"] != __version__:
        what = f"it was made by amk {escape(data['amk'], 40)}, and this is {__version__}"
        out.refuse("/amk", what, "verify it with that version, or " + AGAIN)
    return not out.findings


def _kernel(data: Mapping[str, Any], out: Outcome) -> KernelDescriptor | None:
    try:
        kernel = KernelDescriptor.from_json(json.dumps(data["kernel"]), name="kernel")
    except (DescriptorError, RecursionError) as fault:
        out.refuse(f"/kernel{getattr(fault, 'pointer', '')}", _first_line(str(fault)), AGAIN)
        return None
    if kernel.to_dict(places=False) != data["kernel"]:
        out.refuse("/kernel", "the descriptor is not written as its hash is taken", AGAIN)
    elif kernel.hash != data["hash"]:
        what = f"the hash is another kernel's: that of this one is {kernel.hash[:16]}…"
        out.refuse("/hash", what, "take the certificate of this kernel, or " + AGAIN)
    else:
        return kernel
    return None


def _target(data: Mapping[str, Any], out: Outcome, wanted: Target | None) -> Target | None:
    """The target, which has to be one that is known here, or the one that the caller means."""
    try:
        target = Target.loads(json.dumps(data["target"]), name="target")
    except InputError as fault:
        out.refuse("/target", _first_line(fault.message), AGAIN)
        return None
    known = wanted
    if known is None:
        try:
            known = Target.find(target.name)
        except InputError:
            what = f"the target {target.name!r} is not known here"
            out.refuse("/target", what, "name the target file that is meant: amk verify CERT --target mine.json")
            return None
    if known.to_dict() != data["target"]:
        what = f"the target is not {known.name} as it is known here"
        if wanted is not None:
            what = f"it is for {target.name}, and {wanted.name} is wanted"
        out.refuse("/target", what, "certify the kernel for the target that is meant")
        return None
    return target


def _facts(data: Mapping[str, Any], kernel: KernelDescriptor, out: Outcome) -> None:
    """The launcher checks what the kernel declares and assumes, no less and nothing else."""
    derived = list(launch_facts(kernel))
    if data["facts"] == derived:
        return None
    for i, (have, want) in enumerate(zip(data["facts"], derived, strict=False)):
        if have != want:
            what = f"the launcher is to check {escape(str(have), 120)!r}; the kernel says {want!r}"
            return out.refuse(f"/facts/{i}", what, AGAIN)
    return out.refuse("/facts", f"{len(data['facts'])} facts for the launcher; the kernel has {len(derived)}", AGAIN)


def _cases(listed: list[Any], kernel: KernelDescriptor, out: Outcome) -> list[Case]:
    found: list[Case] = []
    seen: set[str] = set()
    for i, data in enumerate(listed):
        case = read_case(kernel, data)
        why = "it names other sizes than the kernel" if case is None else in_domain(kernel, case)
        if not why and said(data) in seen:
            why = "it stands there twice"
        if why or case is None:
            out.refuse(f"/cases/{i}", f"this case is none of the kernel's: {escape(why, 160)}", AGAIN)
            break
        seen.add(said(data))
        found.append(case)
    return found


def _first_line(text: str) -> str:
    return escape(text.splitlines()[0] if text else "it does not read", 300)
