"""Every example goes through every stage: built, accepted, certified, printed, compiled, run, and shown as JSON.

New examples are found by themselves: a file `examples/ex*.py` with `build`, `SIZES` and `reference`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from amk.dsl.kernel import KernelDescriptor
from amk.harness.certify import certify
from amk.harness.check import check
from amk.harness.interpret import arguments, run
from amk.runtime.meaning import meaning_of
from amk.synth.compile import compile_cubin
from amk.synth.render import render

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(p.stem for p in FOLDER.glob("ex*.py"))


def example(name: str) -> ModuleType:
    """The module of a file of examples/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_four() -> None:
    assert [name[:4] for name in EXAMPLES] == ["ex01", "ex02", "ex03", "ex04"]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_from_build_to_cubin(name: str, target: str) -> None:
    """The same rules for all: accepted, certified, printed, compiled."""
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = example(name).build(target)
    assert check(kernel, target).ok
    source = render(certify(kernel, target, reference=meaning_of(kernel)))
    made = compile_cubin(source.text, target, name=source.name)
    assert (made.spill_stores, made.spill_loads) == (0, 0) and source.kernel_hash == kernel.hash


@pytest.mark.parametrize("name", EXAMPLES)
def test_runs_as_its_reference_says(name: str) -> None:
    module = example(name)
    for sizes in module.SIZES:
        args = arguments(module.build(), sizes, np.random.default_rng(0))
        wanted = module.reference({n: np.array(v) for n, v in args.items()})
        run(module.build(), args, detect=True, coverage=True)
        for output, want in wanted.items():
            np.testing.assert_allclose(args[output], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", EXAMPLES)
def test_prints_its_descriptor(name: str) -> None:
    said = subprocess.run([sys.executable, FOLDER / f"{name}.py"], capture_output=True, text=True, check=True).stdout
    assert KernelDescriptor.from_json(said) == example(name).build()


def test_the_selftest_mutates_what_the_examples_print() -> None:
    """In smaller blocks: the first three stand among the samples that its families are made of."""
    from amk.harness import samples

    made = {samples.vector_add().hash, samples.transpose().hash, samples.block_sum().hash}
    assert {example(name).build().hash for name in EXAMPLES[:3]} == made
