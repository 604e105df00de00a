"""`amk describe`, `explain`, `rules`, `schema`, and the pages of the rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amk.cli.main import main
from amk.dsl.builder import KernelBuilder
from amk.dsl.describe import summary
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Padded
from amk.dsl.schema import schema, schema_text
from amk.dsl.target import Target
from amk.harness import docs
from amk.ops.wgmma_gemm import wgmma_gemm

DOCS = Path(__file__).parents[2] / "docs"


def transpose(pad: int = 0) -> KernelDescriptor:
    """A 32 x 32 transpose through shared memory; without padding its columns conflict."""
    k = KernelBuilder("transpose", target="sm_80", threads=1024)
    n = k.size("n", multiple_of=32)
    x, z = k.tensor("x", "f32", (n, n)), k.tensor("z", "f32", (n, n), access="write")
    s = k.shared("s", "f32", (32, 32), layout=Padded(pad=pad) if pad else None)
    a = k.registers("a", "f32", (1,))
    row, col = k.let("row", k.t // 32), k.let("col", k.t % 32)
    k.load(a[0], x[k.by * 32 + row, k.bx * 32 + col])
    k.store(s[row, col], a[0])
    k.sync()
    with k.loop("i", 0, 4, unroll="full"):
        k.load(a[0], s[col, row])
    k.store(z[k.t, k.by], a[0])
    return k.finish(grid=(cdiv(n, 32), cdiv(n, 32)))


def test_summary_says_what_a_warp_touches() -> None:
    found = summary(transpose(), Target.find("sm_80"))
    read, put, got, written = found.accesses
    assert (read.space, read.stride, read.pattern, read.sectors) == ("global", 4, "coalesced", 4)
    assert (put.space, put.stride, put.pattern) == ("shared", 4, "conflict-free")
    assert (got.stride, got.pattern) == (128, "32-way conflict")
    assert (written.stride, written.pattern, written.sectors) == (4096, "strided", 32)
    assert summary(transpose(pad=1), Target.find("sm_80")).accesses[2].pattern == "conflict-free"
    assert found.grid == ("cdiv(n, 32)", "cdiv(n, 32)") and found.shared_bytes == 4096
    assert [(x.var, x.trips, x.unroll) for x in found.loops] == [("i", "4", "full")]
    assert [(s.what, s.loop) for s in found.syncs] == [("barrier of the block", "")]


def test_summary_of_data_dependent_index() -> None:
    k = KernelBuilder("gather", target="sm_80", threads=32)
    n = k.size("n")
    i, x = k.tensor("i", "i32", (n,)), k.tensor("x", "f32", (n,))
    r, a = k.registers("r", "i32", (1,)), k.registers("a", "f32", (1,))
    k.load(r[0], i[0])
    k.load(a[0], x[r[0]])
    one, other = summary(k.finish(grid=(1,)), Target.find("sm_80")).accesses
    assert one.pattern == "broadcast" and (other.pattern, other.stride) == ("unknown", None)


def test_summary_of_a_warp_specialised_kernel() -> None:
    found = summary(wgmma_gemm(), Target.find("h200"))
    assert found.maps[0] == "from_a: boxes of 128 x 64 of A, swizzled over 128 bytes, zero outside"
    assert found.barriers == ("ab_full: 4 mbarriers, 1 arrival a phase", "ab_empty: 4 mbarriers, 16 arrivals a phase")
    assert [(r.first_warp, r.end_warp, r.registers) for r in found.roles] == [(0, 8, 232), (8, 12, 40)]
    box = next(a for a in found.accesses if a.what == "tma.load.2d write")
    assert (box.space, box.width_bytes, box.pattern, box.completes) == ("shared", 16384, "box", "ab_full[slot3]")
    b = next(a for a in found.accesses if a.operand.startswith("b[") and "wgmma" in a.what)
    assert (b.width_bytes, b.pattern, b.completes) == (8192, "tile", "its wgmma group")
    assert {a.pattern for a in found.accesses if "stmatrix" in a.what} == {"conflict-free"}
    said = [x.what for x in found.syncs]
    assert "arrive on ab_full[slot3], expecting 49152 bytes" in said
    assert "arrive on ab_empty[held] of block lane of the cluster" in said
    assert "wait until 1 bulk groups are unread" in said and "barrier of the cluster (execution only)" in said


def test_describe_shows_maps_barriers_roles_and_what_completes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    file = tmp_path / "gemm.amk.json"
    file.write_text(wgmma_gemm().to_json())
    assert main(["describe", str(file)]) == 0
    text = capsys.readouterr().out
    for part in ("cluster of 2", "tensor maps", "mbarriers", "roles", "232 registers a thread", "until ab_full[slot3]"):
        assert part in text


def test_summary_of_wide_accesses() -> None:
    k = KernelBuilder("wide", target="sm_80", threads=32)
    s, a = k.shared("s", "f32", (1024,)), k.registers("a", "f32", (4,))
    k.load(a[0], s[k.t * 4], width=4)
    k.load(a[0], s[k.t * 8], width=4)
    first, second = summary(k.finish(grid=(1,)), Target.find("sm_80")).accesses
    assert (first.pattern, second.pattern) == ("conflict-free", "2-way conflict")


def test_describe(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    write("kernel")
    assert main(["describe", "kernel.amk.json"]) == 0
    out = capsys.readouterr().out
    for part in (
        "kernel on sm_80",
        "grid       cdiv(n, 256)",
        "256 threads",
        "x: f32[n], read",
        "stride 4 B",
        "coalesced",
    ):
        assert part in out
    assert main(["describe", "kernel.amk.json", "--json", "--target", "h200"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["target"] == "h200" and data["accesses"][0]["pattern"] == "coalesced"
    assert main(["describe", "nothing.json"]) == 2


def test_rules_and_explain(harness: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    assert "AMK201  error    out of bounds" in capsys.readouterr().out
    assert main(["rules", "--json"]) == 0
    assert {"code": "AMK201", "title": "out of bounds", "severity": "error"} in json.loads(capsys.readouterr().out)
    assert main(["explain", "amk201"]) == 0
    assert capsys.readouterr().out.startswith("AMK201 out of bounds (error)\n\nAn access can leave its array.\n")
    assert main(["explain", "AMK202"]) == 2
    assert "try: amk explain AMK201" in capsys.readouterr().err


def test_pages(harness: Any, tmp_path: Path) -> None:
    page = docs.page("AMK201")
    assert page.startswith(
        "# AMK201 out of bounds\n\n*memory, error*\n\nAn access can leave its array.\n\n**Why.** it faults"
    )
    files = docs.write(tmp_path / "rules")
    binary = [f"AMK{n}" for n in range(110, 116)]
    codes = ("AMK001", *binary, "AMK201", "AMK301", "AMK403", "AMK501", "AMK900", "AMK901")
    assert sorted(f.name for f in files) == [*(f"{c}.md" for c in codes), "README.md"]
    assert "| [AMK201](AMK201.md) | out of bounds | error |" in (tmp_path / "rules" / "README.md").read_text()


def test_the_schema_file_is_current() -> None:
    assert (DOCS / "descriptor.schema.json").read_text() == schema_text(), "amk schema > docs/descriptor.schema.json"


def test_the_schema_holds_of_descriptors(vector_add: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    jsonschema.Draft202012Validator.check_schema(schema())
    for kernel in (vector_add(), transpose(), transpose(1)):
        validator.validate(json.loads(kernel.to_json()))
    data = json.loads(vector_add().to_json())
    validator.validate({"$schema": "descriptor.schema.json", **data})
    assert not validator.is_valid(data | {"colour": "blue"}) and not validator.is_valid(data | {"$schema": 1})


def test_schema_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["$schema"] == "https://json-schema.org/draft/2020-12/schema" and data["$id"] == "urn:amk:descriptor:1"


def test_the_manual_names_every_command_and_variable() -> None:
    from amk.cli.environment import VARIABLES
    from amk.cli.main import COMMANDS

    text = (DOCS / "cli.md").read_text()
    assert [n for n in COMMANDS if f"`amk {n}" not in text] == []
    assert [n for n, v in VARIABLES.items() if f"| `{n}` | {v} |" not in text] == []


def test_the_rule_pages_are_current() -> None:
    for cached in (docs.titles, docs.pages):
        cached.cache_clear()
    stale = [code for code, page in docs.pages().items() if _read(DOCS / "rules" / f"{code}.md") != page]
    assert stale == [], "amk rules --write docs/rules"


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_summary_of_a_kernel_that_would_explode() -> None:
    k = KernelBuilder("hostile", target="sm_80", threads=32)
    x, a = k.tensor("x", "f32", (4,)), k.registers("a", "f32", (1,))
    i = k.let("p", k.t + 2)
    for _ in range(100):
        i = k.let("p", i * i)
    k.load(a[0], x[i])
    k.load(a[0], x[(k.t + 1) << (k.t + 1) * 1000000000])
    k.load(a[0], x[k.t // (k.t * 0)])
    found = summary(k.finish(grid=(1,)), Target.find("sm_80"))
    assert [f.pattern for f in found.accesses] == ["unknown"] * 3


@pytest.mark.parametrize("change", [
    {"shape": []}, {"layout": {"kind": "strided", "strides": []}},
])  # fmt: skip
def test_summary_of_what_contradicts_itself(
    change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(transpose().to_json())
    data["buffers"][0] |= change
    (tmp_path / "k.json").write_text(json.dumps(data))
    assert main(["describe", "k.json"]) == 2
    assert "contradict each other" in capsys.readouterr().err
