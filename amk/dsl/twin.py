"""The pydantic models that know the same fields as ours: they say what is wrong with data, and make the JSON Schema.

Imported where data is not plainly in order, or a schema is wanted.
"""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as Constraint

from amk.dsl.model import Field, Model

__all__ = ["by_pydantic", "twin"]

_TWINS: dict[type[Model], type[BaseModel]] = {}
_OWN: dict[Any, type[Model]] = {}


def by_pydantic(cls: type[Model], data: Any) -> dict[str, Any]:
    """The fields of data as pydantic reads them. Raises its ValidationError."""
    made = twin(cls).model_validate(_for_twin(data))
    return {n: _own(getattr(made, n)) for n in cls.model_fields}


def twin(cls: type[Model]) -> type[BaseModel]:
    """The pydantic model with the same name, text and fields."""
    if cls not in _TWINS:
        _make(cls)
    return _TWINS[cls]


def _make(cls: type[Model]) -> None:
    """The twins of a class and of all that stand in its fields."""
    waiting = [cls]
    for c in waiting:
        if c not in _TWINS:
            hints = get_type_hints(c, include_extras=True)
            fields: dict[str, Any] = {
                n: (_annotation(hints[n], waiting), ... if f.is_required() else f.default)
                for n, f in c.model_fields.items()
            }
            config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
            _TWINS[c] = create_model(c.__name__, __config__=config, __doc__=c.__doc__, **fields)
            _OWN[_TWINS[c]] = c
    by_name = {c.__name__: _TWINS[c] for c in waiting}
    for c in dict.fromkeys(waiting):
        _TWINS[c].model_rebuild(_types_namespace=by_name)


def _annotation(hint: Any, waiting: list[type[Model]]) -> Any:
    """An annotation in pydantic's words; classes by their names, which wait to be made."""
    if isinstance(hint, type) and issubclass(hint, Model):
        waiting.append(hint)
        return ForwardRef(hint.__name__)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        added = [Constraint(**a.facts) if isinstance(a, Field) else a for a in args[1:]]
        return Annotated[(_annotation(args[0], waiting), *added)]
    if origin in (Union, UnionType):
        return Union[tuple(_annotation(a, waiting) for a in args)]  # noqa: UP007 (of as many as there are)
    if origin in (tuple, dict):
        return origin[tuple(a if a is ... else _annotation(a, waiting) for a in args)]
    return hint


def _for_twin(value: Any) -> Any:
    """Data in which each node is one of pydantic's, which holds it (it was checked when it was made)."""
    if isinstance(value, Model):
        out = twin(type(value)).model_construct()
        out.__dict__["held"] = value
        return out
    if type(value) in (list, tuple):
        return type(value)(map(_for_twin, value))
    return {k: _for_twin(v) for k, v in value.items()} if type(value) is dict else value


def _own(value: Any) -> Any:
    """What pydantic made, as ours."""
    cls = _OWN.get(type(value))
    if cls is not None:
        held = value.__dict__.get("held")
        return held or cls.model_construct(**{n: _own(getattr(value, n)) for n in cls.model_fields})
    if isinstance(value, tuple):
        return tuple(map(_own, value))
    return {k: _own(v) for k, v in value.items()} if type(value) is dict else value
