"""The field types of nodes: how terms, operands, names and whole numbers are read, and how a schema shows them.

Each is a function, and for pydantic a core schema and a JSON Schema as data (`reading.Read`).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from amk.dsl.expr import Elem, Expr, as_expr
from amk.dsl.names import check_name
from amk.dsl.reading import Read, Unsure, plain_text

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


def _function(f: Any, **shown: Any) -> Read:
    """What a function makes of a value."""
    text = {"type": "function-plain", "function": str, "is_field_serializer": False, "info_arg": False}
    core = {"type": "function-plain", "function": {"type": "no-info", "function": f}, "serialization": text}
    return Read(f, core, shown)


_TEXT = {"anyOf": [{"type": "string", "maxLength": 65536}, {"type": "number"}, {"type": "boolean"}]}
Ex = Annotated[Any, _function(_term, **_TEXT, description="an expression, such as 'by*128 + ty*8 + i'")]
_ELEMENT = {"type": "string", "maxLength": 65536, "description": "an element, such as 'a[i, j]'"}
Ref = Annotated[Any, _function(_operand, **_ELEMENT)]


def _text(f: Any, **shown: Any) -> Read:
    """A string that a function looks at: it returns the string, or says what is wrong with it."""
    core = {"type": "function-after", "function": {"type": "no-info", "function": f}, "schema": {"type": "str"}}
    return Read(lambda value: f(plain_text(value)), core, {"type": "string", **shown})


Name = Annotated[str, _text(check_name, maxLength=64, pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


def _matching(pattern: str, limit: int, complaint: str) -> Read:
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


def whole(low: int, high: int) -> Read:
    """An integer from `low` to `high`; true, 1.0 and "1" are none."""

    def read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise Unsure
        return value

    core = {"type": "int", "strict": True, "ge": low, "le": high}
    return Read(read, core, {"type": "integer", "minimum": low, "maximum": high})


def _flag(value: Any) -> bool:
    if value is not True and value is not False:
        raise Unsure
    return value


def _place(value: Any) -> str:
    if len(plain_text(value)) > 256:
        raise Unsure
    return str(value)


Int64 = Annotated[int, whole(-(2**63), 2**63 - 1)]
Extent = Annotated[int, whole(1, 2**31 - 1)]
Width = Literal[1, 2, 4, 8, 16]
Flag = Annotated[bool, Read(_flag, {"type": "bool", "strict": True}, {"type": "boolean"})]
Place = Annotated[str, Read(_place, {"type": "str", "max_length": 256}, {"type": "string", "maxLength": 256})]
