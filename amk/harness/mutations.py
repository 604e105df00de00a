"""Mutations: a small change of a kernel, drawn from a seed. What they make may be right, faulty or nonsense.

In: a kernel and a random source. Out: a kernel that differs in its hash, and a line that says what was done.
"""

from __future__ import annotations

import copy
from random import Random

from pydantic import ValidationError

from amk.dsl.expr import ExprError
from amk.dsl.kernel import KernelDescriptor
from amk.harness.mutation_data import Draw
from amk.harness.mutations_async import ASYNCHRONOUS
from amk.harness.mutations_declared import DECLARATIONS
from amk.harness.mutations_statements import STATEMENTS
from amk.harness.mutations_terms import TERMS

__all__ = ["MUTATIONS", "mutate"]

MUTATIONS: dict[str, Draw] = {**STATEMENTS, **TERMS, **DECLARATIONS, **ASYNCHRONOUS}
_WEIGHTS = {
    "drop": 3, "constant": 4, "swap": 2, "shift": 2, "divisor": 2, "comparison": 2, "move": 2, "shape": 2, "wrap": 2,
    "index": 4, "variable": 2, "bound": 2, "carry": 2, "only": 2, "repeat": 2,
    "parity": 2, "expected": 2, "mbarrier": 2, "other barrier": 2, "named": 2, "roles": 2, "handover": 2,
}  # fmt: skip
_NAMES = [n for n in MUTATIONS for _ in range(_WEIGHTS.get(n, 1))]
_TRIES = 64


def mutate(kernel: KernelDescriptor, rng: Random) -> tuple[KernelDescriptor, str]:
    """A kernel that differs from this one in one place, and what was done. Raises ValueError where nothing can."""
    for _ in range(_TRIES):
        data = copy.deepcopy(kernel.to_dict(places=False))
        name = rng.choice(_NAMES)
        try:
            said = MUTATIONS[name](rng, data)
            mutant = KernelDescriptor.model_validate(data) if said else kernel
        except (ValidationError, ExprError):
            continue
        if mutant.hash != kernel.hash:
            return mutant, f"{name}: {said}"
    raise ValueError(f"no mutation applies to {kernel.name}")
