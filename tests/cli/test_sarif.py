"""SARIF: valid for whatever is found, with both threads of a fault, repairs as edits, and fingerprints that last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import amk
from amk.cli.check import check_documents
from amk.cli.render_report import FORMATS
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.harness.diagnostics import Diagnostic
from amk.harness.rules import RULES
from amk.harness.rules.examples import example, mirrored, scattered


def run_of(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    log = json.loads(text)
    jsonschema.Draft7Validator(schema).validate(log)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_sarif_of_every_rule_is_valid(sarif_schema: dict[str, Any], tmp_path: Path) -> None:
    for r in RULES:
        (tmp_path / f"{r.code}.amk.json").write_text(r.bad().to_json())
    targets = [None, *(Target.find(r.device) for r in RULES if r.device)]  # advice about a device needs one
    run = run_of(FORMATS["sarif"](list(check_documents(["."], targets))), sarif_schema)
    assert {r.code for r in RULES} <= {r["ruleId"] for r in run["results"]}
    for rule in run["tool"]["driver"]["rules"]:
        assert rule["helpUri"] == f"urn:amk:rule:{rule['id']}" and rule["help"]["markdown"].startswith(
            f"# {rule['id']} "
        )
        assert rule["fullDescription"]["text"].endswith(".") and rule["shortDescription"]["text"]
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 2}]


def test_sarif_has_a_thread_flow_for_each_party(
    real: Any, shown: Any, sarif_schema: dict[str, Any], deadlock: Diagnostic
) -> None:
    (result,) = run_of(real("sarif", mirrored("mirror", barrier=False)), sarif_schema)["results"]
    ((flow),) = result["codeFlows"]
    first, second = flow["threadFlows"]
    assert [first["id"], second["id"]] == ["thread 0", "thread 127"]
    places = [f["locations"][0]["location"]["physicalLocation"]["region"]["startLine"] for f in (first, second)]
    assert places == [15, 18] and "block 0 of 1" in flow["message"]["text"]
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 15
    (result,) = run_of(shown("sarif", deadlock), sarif_schema)["results"]
    flows = result["codeFlows"][0]["threadFlows"]
    assert [f["id"] for f in flows] == [w.who for w in deadlock.cycle]
    assert flows[1]["locations"][0]["location"]["message"]["text"] == deadlock.cycle[1].sentence


@pytest.mark.parametrize("code", ["AMK301", "AMK201", "AMK302", "AMK506", "AMK091"])
def test_a_fix_in_sarif_is_an_edit_of_the_text(
    real: Any, tmp_path: Path, sarif_schema: dict[str, Any], code: str
) -> None:
    kernel = next(r for r in RULES if r.code == code).bad()
    run = run_of(real("sarif", kernel), sarif_schema)
    result = next(r for r in run["results"] if r["ruleId"] == code)
    (change,) = result["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    old = (tmp_path / "k.amk.json").read_text()
    region, lines = replacement["deletedRegion"], old.split("\n")

    def offset(line: int, column: int) -> int:
        return sum(len(x) + 1 for x in lines[: line - 1]) + column - 1

    start, end = (offset(region[f"{x}Line"], region[f"{x}Column"]) for x in ("start", "end"))
    new = old[:start] + replacement["insertedContent"]["text"] + old[end:]
    assert code not in {d.code for d in amk.check(KernelDescriptor.from_json(new)).diagnostics}


def test_sarif_of_very_many_findings(real: Any, sarif_schema: dict[str, Any]) -> None:
    """Each is a result; repairs are written out for the first of them alone."""
    body = [{"kind": "store", "dst": "a[0]", "values": ["1"]} for _ in range(400)]
    run = run_of(real("sarif", example(body=body)), sarif_schema)
    assert len(run["results"]) == 400 and 50 <= sum("fixes" in r for r in run["results"]) <= 300
    assert len({r["partialFingerprints"]["amkFinding/v2"] for r in run["results"]}) == 400


def test_sarif_says_what_is_suppressed_and_why(real: Any, sarif_schema: dict[str, Any]) -> None:
    run = run_of(real("sarif", scattered("AMK501", "one pass")), sarif_schema)
    (result,) = run["results"]
    assert result["suppressions"] == [{"kind": "inSource", "status": "accepted", "justification": "one pass"}]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "AMK501" and "fixes" not in result


def marks(text: str) -> list[str]:
    return [r["partialFingerprints"]["amkFinding/v2"] for r in json.loads(text)["runs"][0]["results"]]


def test_fingerprints_follow_the_statement(real: Any) -> None:
    kernel = mirrored("mirror", barrier=False)
    data = json.loads(kernel.to_json())
    mark = marks(real("sarif", kernel))
    assert len(mark) == 1 and mark == marks(real("sarif", json.dumps(data)))  # on one line
    assert mark == marks(real("sarif", json.dumps({k: data[k] for k in reversed(data)}, indent=7)))  # another order
    moved = {**data, "body": [{"kind": "let", "name": "q", "value": "t"}, *data["body"]]}
    assert mark == marks(real("sarif", json.dumps(moved)))  # another statement before it
    moved["body"][2]["at"] = "elsewhere.py:1"
    assert mark == marks(real("sarif", json.dumps(moved)))  # another place in the author's file
    moved["body"][2]["src"] = "s[126 - t]"
    assert mark != marks(real("sarif", json.dumps(moved)))  # another statement
    assert mark != marks(real("sarif", json.dumps({**data, "name": "other"})))


def test_equal_statements_have_fingerprints_of_their_own(real: Any) -> None:
    data = json.loads(mirrored("mirror", barrier=False).to_json())
    data["body"].append(data["body"][1])
    found = marks(real("sarif", json.dumps(data)))
    assert len(found) == 2 and len(set(found)) == 2 and {m.partition(":")[2] for m in found} == {"0", "1"}
