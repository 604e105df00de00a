"""What the tests of Hopper's constructs share: wgmma_gemm as data to spoil, and rules that run by themselves."""

from __future__ import annotations

import copy
from functools import lru_cache

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.context import Context
from amk.harness.rules import RULES
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm

FORM = tuple(f"AMK00{n}" for n in range(2, 8))
BOUNDS = ("AMK009", "AMK102", "AMK201", "AMK203", "AMK204", "AMK205", "AMK208", "AMK209")

SCHEDULES = [
    WgmmaSchedule(),
    WgmmaSchedule(cluster=1),
    WgmmaSchedule(cluster=4, group=4),
    WgmmaSchedule(warpgroups=1, columns=128, slots=6, group=1),
    WgmmaSchedule(warpgroups=3, columns=192, slots=3, cluster=1, group=3),
    WgmmaSchedule(warpgroups=1, columns=64, slots=2, cluster=1, group=16, producer_registers=None, math_registers=None),
]


@lru_cache
def gemm(schedule=None, dtype="bf16"):
    return wgmma_gemm(schedule or WgmmaSchedule(), dtype=dtype)


def found(kernel, codes, target="sm_90a"):
    """Every finding of the rules with these codes, each rule run by itself."""
    k = Context(kernel, Target.find(target))
    return [d for r in RULES if r.code in codes for d in r().check(k)]


def spoiled(edit, schedule=None):
    """wgmma_gemm with its JSON changed in place by `edit`."""
    data = copy.deepcopy(gemm(schedule).to_dict())
    edit(data)
    return KernelDescriptor.model_validate(data)


def statements(data, kind, **fields):
    """The statements of a kind, in program order, whose fields are (or contain, for text) these."""
    out = []

    def walk(body):
        for s in body:
            if s["kind"] == kind and all(_matches(s.get(n), v) for n, v in fields.items()):
                out.append(s)
            for inner in (s.get("body", []), *(r["body"] for r in s.get("roles", []))):
                walk(inner)

    walk(data["body"])
    return out


def _matches(has, wanted):
    return wanted in has if isinstance(has, str) and isinstance(wanted, str) else has == wanted
