"""Forged certificates: what an attacker writes who knows every obligation that is looked for, and claims them all."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.verify.domain import launch_facts
from amk.verify.duty import Duty
from amk.verify.envelope import FORMAT, digest_of
from amk.verify.limits import limits
from amk.verify.logic import Logic
from amk.verify.numeric import numeric
from amk.verify.order import duties
from amk.verify.outputs import Outputs
from amk.version import __version__

__all__ = ["forge", "module", "signed"]

TESTS = Path(__file__).parents[1]


def module(path: str) -> ModuleType:
    """A module of the tests, by its path below tests/ (or beside it), which may import what lies beside it."""
    if (beside := str((TESTS / path).parent)) not in sys.path:
        sys.path.append(beside)
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), TESTS / f"{path}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def signed(data: dict[str, Any]) -> dict[str, Any]:
    """The certificate with a digest that is right again."""
    return {**data, "digest": digest_of(data)}


def forge(kernel: KernelDescriptor, target: str | None = None) -> dict[str, Any]:
    """A certificate of any kernel, right or wrong, that says of it all that has to be said."""
    place = Target.find(target or kernel.target)
    try:
        derived = [d.to_dict() for d in _derived(kernel, place)]
    except Exception:  # the kernel has no meaning of which anything could be said
        derived = []
    return signed({
        "certificate": FORMAT, "amk": __version__, "kernel": kernel.to_dict(places=False), "hash": kernel.hash,
        "target": place.to_dict(), "meaning": "not checked", "facts": list(launch_facts(kernel)), "walked": 0,
        "cases": [], "obligations": derived,
    })  # fmt: skip


def _derived(kernel: KernelDescriptor, target: Target) -> list[Duty]:
    logic = Logic()
    outputs = Outputs(kernel, logic)
    written = []
    for x, mine in outputs.tensors():
        first = next((s.at for s in mine if s.mode != "read"), None)
        by = "count" if outputs.constant(x, mine) and not outputs.shown(x, mine, "tiles") else "tiles"
        if first is not None:
            written.append(Duty("AMK401", first, f"every element of '{x.name}' is written exactly once", by))
    return [
        *numeric(kernel, Logic()).found, *(d for d, _ in limits(kernel, target, logic)), *duties(kernel),
        Duty("AMK009", "", "some sizes satisfy ranges, divisors and assumptions", "proof"),
        Duty("AMK404", "", "every tensor is used as its declaration says", "form"),
        *written,
    ]  # fmt: skip
