"""The way to a binary through the cache: what flips the key of real inputs, and what a hit does without."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from amk.dsl.kernel import KernelDescriptor, Origin
from amk.dsl.record import replace as renewed
from amk.dsl.target import Target
from amk.harness import samples
from amk.runtime import build
from amk.synth import compile as compiler
from amk.synth import fingerprint
from amk.synth.cache import Cache, CacheKey, Entry

A100 = Target.find("A100")
KERNEL = samples.vector_add().model_copy(update={"origin": Origin(agent="rules 1")})
Patch = Callable[[pytest.MonkeyPatch, Path], None]
Inputs = tuple[KernelDescriptor, Target]


def by_agent(name: str) -> KernelDescriptor:
    return KERNEL.model_copy(update={"origin": Origin(agent=name)})


def other_file(name: str) -> Patch:
    """A copy of the package in which one byte is added to a file."""

    def patch(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        copy = folder / "amk"
        shutil.copytree(fingerprint._AMK, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / name).write_bytes((copy / name).read_bytes() + b" ")
        monkeypatch.setattr(fingerprint, "_AMK", copy)

    return patch


def other_toolkit(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(compiler, "toolkit_version", lambda: "99.1.2")


def other_flags(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(compiler, "FLAGS", (*compiler.FLAGS, "--use_fast_math"))


# What changes, and the field of the key that it changes: given inputs, or something in the process.
INPUTS: dict[str, tuple[str, Inputs]] = {
    "a constant of the descriptor": ("descriptor", (samples.vector_add(threads=128), A100)),
    "the agent's version": ("agent", (by_agent("rules 2"), A100)),
    "the agent": ("agent", (by_agent("people 1"), A100)),
    "the architecture": ("target", (KERNEL, renewed(A100, architecture=Target.find("sm_86").architecture))),
    "the device": ("device_name", (KERNEL, Target.find("sm_80"))),
    "the driver": ("driver", (KERNEL, renewed(A100, driver="580.159.04"))),
}
PROCESS: dict[str, tuple[str, Patch]] = {
    "the toolkit": ("toolkit", other_toolkit),
    "the flags": ("flags", other_flags),
    "a template": ("templates", other_file("synth/templates/stmt.cu.j2")),
    "a template of instructions": ("templates", other_file("synth/templates/instr/warp.cu.j2")),
    "the prelude": ("templates", other_file("synth/prelude/cp_async.cuh")),
    "the printer": ("templates", other_file("synth/print_expr.py")),
    "the printer of rows": ("templates", other_file("synth/print_rows.py")),
    "the printer of checked builds": ("templates", other_file("synth/print_checked.py")),
    "a rule": ("harness", other_file("harness/rules/amk301_shared_race.py")),
    "an instruction row": ("harness", other_file("dsl/instructions/row.py")),
    "an operator": ("harness", other_file("ops/gemm.py")),
    "the check of meaning": ("harness", other_file("runtime/meaning.py")),
}


@pytest.fixture(autouse=True)
def _fresh_digest() -> None:
    """The digest is made once a process; here it is made anew for each test."""
    fingerprint.template_hash.cache_clear()
    fingerprint.harness_hash.cache_clear()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[KernelDescriptor]:
    """Every kernel that is made rather than found; making one costs nothing here."""
    kernels: list[KernelDescriptor] = []

    def make(kernel: KernelDescriptor, target: Target, *, checked: bool = False) -> Entry:
        kernels.append(kernel)
        return Entry(b"cubin", "text", "log", "{}", {"registers": 1, "spill_bytes": 0})

    monkeypatch.setattr(build, "_make", make)
    return kernels


def changed(before: CacheKey, after: CacheKey) -> set[str]:
    return {f.name for f in fields(CacheKey) if getattr(before, f.name) != getattr(after, f.name)}


def test_every_field_has_an_input() -> None:
    """But for the layout of an entry, which is a constant of the cache and has a folder of its own, and the form."""
    found = {name for name, _ in (*INPUTS.values(), *PROCESS.values())}
    assert found | {"schema", "form"} == {f.name for f in fields(CacheKey)}


def test_a_checked_build_shares_nothing_with_the_plain_one(made: list[KernelDescriptor], tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert changed(build.key_of(KERNEL, A100), build.key_of(KERNEL, A100, checked=True)) == {"form"}
    plain, checked = (build.binary_of(KERNEL, A100, cache, checked=c) for c in (False, True))
    assert not plain.hit and not checked.hit and (plain.checked, checked.checked) == (False, True) and len(made) == 2
    assert build.binary_of(KERNEL, A100, cache, checked=True).hit


@pytest.mark.parametrize("what", INPUTS)
def test_other_inputs_miss(what: str, made: list[KernelDescriptor], tmp_path: Path) -> None:
    name, (kernel, target) = INPUTS[what]
    cache, before = Cache(tmp_path), build.key_of(KERNEL, A100)
    again = replace(before, agent="") if name == "descriptor" else before  # a sample has no agent
    assert changed(again, build.key_of(kernel, target)) == {name}
    assert not build.binary_of(KERNEL, A100, cache).hit and build.binary_of(KERNEL, A100, cache).hit
    assert not build.binary_of(kernel, target, cache).hit and len(made) == 2


@pytest.mark.parametrize("what", PROCESS)
def test_another_process_misses(
    what: str, made: list[KernelDescriptor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, patch = PROCESS[what]
    cache, before = Cache(tmp_path / "cache"), build.key_of(KERNEL, A100)
    assert not build.binary_of(KERNEL, A100, cache).hit and build.binary_of(KERNEL, A100, cache).hit
    patch(monkeypatch, tmp_path)
    fingerprint.template_hash.cache_clear()
    fingerprint.harness_hash.cache_clear()
    assert changed(before, build.key_of(KERNEL, A100)) == {name}
    assert not build.binary_of(KERNEL, A100, cache).hit and len(made) == 2


def test_places_and_reasons_flip_nothing(made: list[KernelDescriptor], tmp_path: Path) -> None:
    """The same kernel written on other lines, for other reasons, is the same binary."""
    plain = KernelDescriptor.model_validate(KERNEL.to_dict(places=False))
    same = plain.model_copy(update={"origin": Origin(agent="rules 1", reasons={"threads": "because"})})
    build.binary_of(KERNEL, A100, cache := Cache(tmp_path))
    assert build.binary_of(same, A100, cache).hit


HEAVY = ("jinja2", "cuda", "z3", "numpy", "networkx")
HIT = f"""
import json, sys
from amk.dsl.kernel import load
from amk.dsl.target import Target
from amk.runtime.build import binary_of
made = binary_of(load("k.json"), Target.find("sm_80"))
heavy = sorted({{n.split(".")[0] for n in sys.modules}} & {set(HEAVY)!r})
print(json.dumps([made.hit, made.registers, len(made.cubin), heavy]))
"""
COMMAND = f"""
import sys
from amk.cli.main import main
code = main(["compile", "k.json", "--json"])
print(sorted({{n.split(".")[0] for n in sys.modules}} & {set(HEAVY)!r}), file=sys.stderr)
sys.exit(code)
"""


def test_a_hit_imports_no_compiler_prover_or_template(tmp_path: Path) -> None:
    """The real way, in a process of its own: by the library and by the command."""
    pytest.importorskip("cuda.bindings.nvrtc")
    if not compiler._wheel_versions():
        pytest.skip("without NVRTC's wheel only the library itself tells its version")
    (tmp_path / "k.json").write_text(KERNEL.to_json())

    def said(code: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "AMK_CACHE_DIR": str(tmp_path / "cache"), "AMK_ALWAYS_COMPILE": ""}
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )

    first, second = (json.loads(said(HIT).stdout) for _ in range(2))
    assert first[0] is False and set(first[3]) >= {"jinja2", "cuda", "z3"}
    assert second == [True, first[1], first[2], []]
    command = said(COMMAND)
    assert json.loads(command.stdout)[0]["cached"] and command.stderr.strip() == "[]"
