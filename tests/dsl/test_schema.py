"""The published schema: it says of each field what it means, offers what may stand there, and holds of what reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from amk.dsl.expr import Elem
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.schema import schema
from amk.dsl.text import parse
from amk.errors import DescriptorError
from amk.harness import samples
from amk.harness.rules import RULES

SCHEMA = schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def fields() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for kind, node in {"": SCHEMA, **SCHEMA["$defs"]}.items():
        yield from ((kind, name, field) for name, field in node.get("properties", {}).items())


FIELDS = list(fields())


@pytest.mark.parametrize(("kind", "name", "field"), FIELDS, ids=[f"{k or 'kernel'}.{n}" for k, n, _ in FIELDS])
def test_every_field_says_what_it_means(kind: str, name: str, field: dict[str, Any]) -> None:
    assert len(field.get("description", "")) > 8, "say it in amk/dsl/schema_text.py"
    assert field["description"].endswith(".") and field.get("default", 0) is not None
    chosen = {"enum", "const"} & field.keys() or field.get("type") == "boolean"
    nested = "$ref" in field.get("items", {}) or name in ("problem", "schedule", "origin", "queue")
    assert chosen or nested or field.get("examples"), "give examples in amk/dsl/schema_text.py"


@pytest.mark.parametrize(("kind", "name", "field"), FIELDS, ids=[f"{k or 'kernel'}.{n}" for k, n, _ in FIELDS])
def test_examples_are_valid(kind: str, name: str, field: dict[str, Any]) -> None:
    for example in field.get("examples", ()):
        inside = {**field, "$defs": SCHEMA["$defs"]}
        jsonschema.Draft202012Validator(inside).validate(example)
        named = json.dumps(field)
        if "/Expression" in named or "/Element" in named:
            terms = (
                [example] if isinstance(example, str) else example.values() if isinstance(example, dict) else example
            )
            assert all("/Expression" in named or isinstance(parse(t), Elem) for t in terms)


def test_what_is_told_apart_by_its_kind_has_one() -> None:
    for union in ("Statement", "Layout"):
        for option in SCHEMA["$defs"][union]["oneOf"]:
            assert SCHEMA["$defs"][option["$ref"].rpartition("/")[2]]["required"][0] == "kind"
    assert SCHEMA["properties"]["body"]["items"] == {"$ref": "#/$defs/Statement"}
    assert "Ex" not in SCHEMA["$defs"] and len(SCHEMA["$defs"]["Statement"]["oneOf"]) >= 14


def test_snippets_are_valid_once_filled_in() -> None:
    for name, node in SCHEMA["$defs"].items():
        for snippet in node.get("defaultSnippets", ()):
            text = json.dumps(snippet["body"]).replace('"$1"', '"AMK501"' if name == "Suppression" else '"a"')
            value = json.loads(text.replace('"$2"', '"b"').replace('"$3"', '"c"'))
            jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}).validate(value)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_the_schema_holds_of_every_example(rule: Any) -> None:
    """Faulty kernels read as well: what is wrong with them is no matter of fields."""
    for kernel in (rule.bad(), rule.good()):
        VALIDATOR.validate(json.loads(kernel.to_json()))


@pytest.mark.parametrize("spoil", [
    lambda d: d["body"].append({"dst": "a[0]", "src": "x[i]"}),  # no kind
    lambda d: d["body"].append({"kind": "lod", "dst": "a[0]"}),
    lambda d: d["buffers"][0].update(layout={"pad": 1}),
    lambda d: d["buffers"][0].update(space="global"),
    lambda d: d.update(suppress=[{"code": "AMK501"}]),
    lambda d: d.update(suppress=[{"code": "AMK501", "reason": " \n"}]),
    lambda d: d.update(suppress=[{"code": "AMK5011", "reason": "meant"}]),
    lambda d: d.update(threads="128"),
])  # fmt: skip
def test_schema_and_reader_refuse_alike(spoil: Any) -> None:
    data = json.loads(samples.vector_add().to_json())
    spoil(data)
    assert not VALIDATOR.is_valid(data)
    with pytest.raises(DescriptorError):
        KernelDescriptor.from_json(json.dumps(data))
