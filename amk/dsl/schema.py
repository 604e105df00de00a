"""The JSON Schema of a descriptor (draft 2020-12), for editors and other programs.

pydantic says what is valid; what a field means, and what an editor may offer, `schema_text` adds. Statements,
expressions and elements are defined once, so that the schema can be read.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from amk.dsl.expr import Expr
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import FORMAT, KernelDescriptor
from amk.dsl.schema_text import FIELDS, SNIPPETS
from amk.dsl.target import Target
from amk.dsl.twin import twin

__all__ = ["IDENTITY", "schema", "schema_text"]

IDENTITY = f"urn:amk:descriptor:{FORMAT}"
_SHARED = {
    "Expression": ["bx*256 + t", "cdiv(n, 256)", "row < M and col < N", "0.0"],
    "Element": ["x[i]", "tile[ty, tx]", "acc[0]"],
}


class _Generator(GenerateJsonSchema):
    """Writes default expressions as the strings that they are in a file."""

    def encode_default(self, dft: Any) -> Any:
        return str(dft) if isinstance(dft, Expr) else super().encode_default(dft)


def schema() -> dict[str, Any]:
    """The schema, as JSON data."""
    body = twin(KernelDescriptor).model_json_schema(schema_generator=_Generator)
    title = f"amk kernel descriptor, format {FORMAT}"
    head = {"$schema": GenerateJsonSchema.schema_dialect, "$id": IDENTITY, "title": title}
    # Read and dropped before the model sees it (KernelDescriptor.from_json).
    body["properties"] = {"$schema": {"type": "string"}, **body["properties"]}
    _share(body)
    for name, node in {"": body, **body["$defs"]}.items():
        _describe(name, node)
    return {**head, **{k: v for k, v in body.items() if k not in head}}


def schema_text() -> str:
    """The schema as it stands in docs/descriptor.schema.json."""
    return json.dumps(schema(), indent=1, ensure_ascii=True) + "\n"


# --------------------------------------------------------------------------------------------------------------- shared
def _share(body: dict[str, Any]) -> None:
    """Defines once what stands in many places, and says that what is told apart by its kind must have one."""
    found: dict[str, dict[str, Any]] = {}

    def shared(value: Any) -> Any:
        if isinstance(value, list):
            return [shared(x) for x in value]
        if not isinstance(value, dict):
            return value
        name = _name_of(value)
        if name:
            found.setdefault(name, {k: v for k, v in value.items() if k not in ("title", "default", "discriminator")})
            return {"$ref": f"#/$defs/{name}", **({"default": value["default"]} if "default" in value else {})}
        return {k: shared(v) for k, v in value.items()}

    defs = body["$defs"]
    for part in (body, *defs.values()):
        part["properties"] = shared(part["properties"])
    for name, value in found.items():
        defs[name] = {**value, "title": name, **({"examples": _SHARED[name]} if name in _SHARED else {})}
        for option in value.get("oneOf", ()):
            told = defs[option["$ref"].rpartition("/")[2]]
            told["required"] = ["kind", *told.get("required", ())]
    body["$defs"] = dict(sorted(defs.items()))


def _name_of(value: dict[str, Any]) -> str:
    """The name under which a part of the schema is defined once, if it is one of those."""
    mapping = value.get("discriminator", {}).get("mapping", {})
    if mapping:
        return "Statement" if "let" in mapping else "Layout"
    said = str(value.get("description", ""))
    return {"an expression,": "Expression", "an element,": "Element"}.get(" ".join(said.split()[:2]), "")


# ------------------------------------------------------------------------------------------------------------- describe
def _describe(kind: str, node: dict[str, Any]) -> None:
    """Adds what its fields mean, and what may stand there."""
    for name, field in node.get("properties", {}).items():
        if name == "kind":
            field["description"] = f"What this is: {field['const']}."
            continue
        said, examples = FIELDS.get(kind, {}).get(name, ("", []))
        if said:
            field["description"] = said
        if examples := _examples(kind, name) or examples:
            field["examples"] = examples
        if field.get("default", 0) is None:  # an editor would offer to write it
            del field["default"]
    if kind in SNIPPETS:
        node["defaultSnippets"] = [{"label": label, "body": body} for label, body in SNIPPETS[kind]]


def _examples(kind: str, name: str) -> list[Any]:
    """Values that the package itself knows: instructions and architectures."""
    if (kind, name) == ("Call", "row"):
        return sorted(ROWS)
    if (kind, name) == ("", "target"):
        return [t.name for t in Target.all() if t.name == t.architecture.name]
    return []
