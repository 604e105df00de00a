"""The JSON Schema of a descriptor (draft 2020-12), for editors and other programs."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from amk.dsl.expr import Expr
from amk.dsl.kernel import FORMAT, KernelDescriptor

__all__ = ["IDENTITY", "schema", "schema_text"]

IDENTITY = f"urn:amk:descriptor:{FORMAT}"


class _Generator(GenerateJsonSchema):
    """Writes default expressions as the strings that they are in a file."""

    def encode_default(self, dft: Any) -> Any:
        return str(dft) if isinstance(dft, Expr) else super().encode_default(dft)


def schema() -> dict[str, Any]:
    """The schema, as JSON data."""
    body = KernelDescriptor.model_json_schema(schema_generator=_Generator)
    title = f"amk kernel descriptor, format {FORMAT}"
    head = {"$schema": GenerateJsonSchema.schema_dialect, "$id": IDENTITY, "title": title}
    # Read and dropped before the model sees it (KernelDescriptor.from_json).
    body["properties"] = {"$schema": {"type": "string", "description": "For editors; ignored."}, **body["properties"]}
    return {**head, **{k: v for k, v in body.items() if k not in head}}


def schema_text() -> str:
    """The schema as it stands in docs/descriptor.schema.json."""
    return json.dumps(schema(), indent=1, ensure_ascii=True) + "\n"
