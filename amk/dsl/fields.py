"""The field types of nodes: how pydantic reads terms, operands, names and whole numbers, and how a schema shows them.

Each is a core schema and a JSON Schema as data. The same could be said with BeforeValidator, Field and friends, which
look into their functions again for every field: a third of what the nodes cost to import, in every `amk check`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from amk.dsl.expr import Elem, Expr, as_expr
from amk.dsl.names import check_name

__all__ = ["Code", "Ex", "Extent", "Flag", "Int64", "Name", "Place", "Pointer", "Reason", "Ref", "Width", "whole"]


def _term(value: Any) -> Expr:
    if isinstance(value, (Expr, str, int, float)):
        return as_expr(value)
    raise ValueError("an expression is a string, a number or a term")


def _operand(value: Any) -> Elem:
    e = _term(value)
    if isinstance(e, Elem):
        return e
    raise ValueError(f"an operand is an element such as 'a[i, j]', not {str(e)[:40]!r}")


class _Read:
    """How pydantic reads one kind of field."""

    def __init__(self, core: Any, shown: dict[str, Any]) -> None:
        self.core, self.shown = core, shown

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return self.core

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.shown)


def _function(f: Any) -> Any:
    text = {"type": "function-plain", "function": str, "is_field_serializer": False, "info_arg": False}
    return {"type": "function-plain", "function": {"type": "no-info", "function": f}, "serialization": text}


_TEXT = {"anyOf": [{"type": "string", "maxLength": 65536}, {"type": "number"}, {"type": "boolean"}]}
Ex = Annotated[Any, _Read(_function(_term), {**_TEXT, "description": "an expression, such as 'by*128 + ty*8 + i'"})]
_ELEMENT = {"type": "string", "maxLength": 65536, "description": "an element, such as 'a[i, j]'"}
Ref = Annotated[Any, _Read(_function(_operand), _ELEMENT)]


def _text(f: Any, **shown: Any) -> _Read:
    """A string that a function looks at: it returns the string, or says what is wrong with it."""
    core = {"type": "function-after", "function": {"type": "no-info", "function": f}, "schema": {"type": "str"}}
    return _Read(core, {"type": "string", **shown})


Name = Annotated[str, _text(check_name, maxLength=64, pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


def _matching(pattern: str, limit: int, complaint: str) -> _Read:
    found = re.compile(pattern)

    def look(value: str) -> str:
        if len(value) > limit or found.search(value) is None:
            raise ValueError(complaint)
        return value

    return _text(look, maxLength=limit, pattern=pattern)


Code = Annotated[str, _matching("^AMK[0-9]{3}$", 6, "a rule's code is AMK and three digits, such as AMK501")]
Reason = Annotated[
    str, _matching(r"\S", 1024, "a suppression says why, in 1 to 1024 characters that are not all blank")
]
Pointer = Annotated[str, _matching("^(/[^/]+)*$", 1024, "a JSON pointer, such as /body/3 or /buffers/0")]


def whole(low: int, high: int) -> _Read:
    """An integer from `low` to `high`; true, 1.0 and "1" are none."""
    core = {"type": "int", "strict": True, "ge": low, "le": high}
    return _Read(core, {"type": "integer", "minimum": low, "maximum": high})


Int64 = Annotated[int, whole(-(2**63), 2**63 - 1)]
Extent = Annotated[int, whole(1, 2**31 - 1)]
Width = Literal[1, 2, 4, 8, 16]
Flag = Annotated[bool, _Read({"type": "bool", "strict": True}, {"type": "boolean"})]
Place = Annotated[str, _Read({"type": "str", "max_length": 256}, {"type": "string", "maxLength": 256})]
