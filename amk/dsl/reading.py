"""Plain data as values of fields: one small function a field, made from its annotation.

In: data from JSON or from a builder. Out: the value, or Unsure for whatever is not plainly in order, of which pydantic
then says what is wrong (or takes it after all).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["Field", "Read", "Reader", "Unsure", "plain_text", "values"]

Reader = Callable[[Any], Any]


class Unsure(Exception):
    """A value that is not plainly in order."""


class Field:
    """What an annotation adds to a string (`max_length`, `pattern`), a tuple (lengths) or a union (`discriminator`)."""

    __slots__ = ("facts",)

    def __init__(self, **facts: Any) -> None:
        self.facts = facts


class Read:
    """A kind of field: a function that reads its values (ValueError or Unsure for others), pydantic's core schema that
    takes the same values, and the JSON Schema that shows it."""

    def __init__(self, read: Reader, core: Any, shown: dict[str, Any]) -> None:
        self.read, self.core, self.shown = read, core, shown

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return self.core

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.shown)


def values(cls: Any, data: Any) -> dict[str, Any]:
    """The fields of data that is plainly in order."""
    readers, needed, defaults = _fields(cls)
    if type(data) is not dict or not data.keys() >= needed:
        raise Unsure
    out = {n: dict(v) if type(v) is dict else v for n, v in defaults.items()}
    for name, value in data.items():
        read = readers.get(name)
        if read is None:
            raise Unsure
        out[name] = read(value)
    return out


@lru_cache(maxsize=64)
def _fields(cls: Any) -> tuple[dict[str, Reader], frozenset[str], dict[str, Any]]:
    """How to read each field; those that must be there; the defaults of the rest."""
    hints = get_type_hints(cls, include_extras=True)
    needed = frozenset(n for n, f in cls.model_fields.items() if f.is_required())
    defaults = {n: f.default for n, f in cls.model_fields.items() if n not in needed}
    return {n: _reader(hints[n]) for n in cls.model_fields}, needed, defaults


def _reader(hint: Any) -> Reader:
    """How to read what an annotation says. Whatever is not known here is left to pydantic."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(args[0], args[1:])
    if hint is Any:
        return _itself
    if hint is None or hint is type(None):
        return _nothing
    if hint is str:
        return plain_text
    if hasattr(hint, "model_fields"):
        return _one_of({}, (hint,))
    if origin is Literal:
        return _literal(args)
    if origin in (Union, UnionType):
        return _first_of(sorted(map(_reader, args), key=lambda r: r is not _nothing))
    if origin is tuple:
        return _tuple(args)
    if origin is dict:
        return _dict(_reader(args[1]))
    return _refused


def _annotated(hint: Any, added: tuple[Any, ...]) -> Reader:
    if len(added) != 1:
        return _refused
    if isinstance(added[0], Read):
        read: Reader = added[0].read
        return read
    if not isinstance(added[0], Field):
        return _refused
    facts = added[0].facts
    if "discriminator" in facts:
        name, kinds = facts["discriminator"], get_args(hint)
        return _one_of({k.model_fields[name].default: k for k in kinds}, kinds, name)
    if hint is str:
        return _bounded_text(facts.get("max_length", 1 << 62), facts.get("pattern", ""))
    return _counted(_reader(hint), facts.get("min_length", 0), facts.get("max_length", 1 << 62))


def _itself(value: Any) -> Any:
    return value


def _refused(value: Any) -> Any:
    raise Unsure


def _nothing(value: Any) -> None:
    if value is not None:
        raise Unsure


def plain_text(value: Any) -> str:
    """A string without half of a surrogate pair."""
    if type(value) is not str:
        raise Unsure
    if not value.isascii():
        value.encode()
    return value


def _bounded_text(limit: int, pattern: str) -> Reader:
    found = re.compile(pattern, re.ASCII)

    def read(value: Any) -> str:
        if len(plain_text(value)) > limit or "\n" in value or found.search(value) is None:
            raise Unsure
        return str(value)

    return read


def _literal(allowed: tuple[Any, ...]) -> Reader:
    by = {(type(v), v) for v in allowed}

    def read(value: Any) -> Any:
        if type(value) not in (str, int) or (type(value), value) not in by:
            raise Unsure
        return value

    return read


def _first_of(readers: list[Reader]) -> Reader:
    def read(value: Any) -> Any:
        for r in readers:
            try:
                return r(value)
            except (Unsure, ValueError):
                continue
        raise Unsure

    return read


def _one_of(kinds: Mapping[Any, Any], classes: tuple[Any, ...], name: str = "") -> Reader:
    """A node of some classes, or its data; the field `name` says of which class."""

    def read(value: Any) -> Any:
        if type(value) is not dict:
            if isinstance(value, classes):
                return value
            raise Unsure
        if name:
            kind = value.get(name)
            cls = kinds.get(kind) if type(kind) is str else None
            if cls is None:
                raise Unsure
        else:
            (cls,) = classes
        out = cls.__new__(cls)
        out.__dict__.update(values(cls, value))
        return out

    return read


def _tuple(args: tuple[Any, ...]) -> Reader:
    readers = [_reader(a) for a in args if a is not ...]
    each = readers[0] if args[-1] is ... else None

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list and type(value) is not tuple:
            raise Unsure
        if each is not None:
            return tuple([each(x) for x in value])
        if len(value) != len(readers):
            raise Unsure
        return tuple([r(x) for r, x in zip(readers, value, strict=True)])

    return read


def _counted(inner: Reader, least: int, most: int) -> Reader:
    def read(value: Any) -> Any:
        out = inner(value)
        if not least <= len(out) <= most:
            raise Unsure
        return out

    return read


def _dict(each: Reader) -> Reader:
    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise Unsure
        return {plain_text(k): each(v) for k, v in value.items()}

    return read
