"""Frozen, typed data with named fields: what nodes are made of.

A class states its fields by annotations. Data that is plainly in order is read by `reading`; whatever is not goes to
pydantic, which knows the same fields (`twin`), decides, and says what is wrong. So the check of a kernel in order does
not import pydantic, which takes longer than the check. The methods have pydantic's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, dataclass_transform

from amk.dsl.reading import Field, Unsure, values

__all__ = ["Field", "Model"]

_MISSING: Any = object()


class _Info:
    """The default of a field."""

    __slots__ = ("default",)

    def __init__(self, default: Any) -> None:
        self.default = default

    def is_required(self) -> bool:
        """Whether the field has none."""
        return self.default is _MISSING


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Model:
    """Base of typed data. Raises pydantic's ValidationError for values that are none of its fields'."""

    model_fields: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = cls.__annotations__
        cls.model_fields = {**cls.model_fields, **{n: _Info(vars(cls).get(n, _MISSING)) for n in own}}

    def __init__(self, **data: Any) -> None:
        self.__dict__.update(_checked(type(self), data))

    @classmethod
    def model_validate(cls, data: Any) -> Self:
        """The value that plain data (dict, list, str, numbers) or nodes stand for."""
        return data if isinstance(data, cls) else cls.model_construct(**_checked(cls, data))

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        """With these values as they are, and defaults for the rest."""
        out = cls.__new__(cls)
        out.__dict__.update({n: _default(f) for n, f in cls.model_fields.items() if n not in values} | values)
        return out

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """With other values in some fields, as they are, and nothing remembered of this one."""
        held = self.__dict__
        return type(self).model_construct(**{n: held[n] for n in self.model_fields} | dict(update or {}))

    def model_dump(self, *, exclude: Iterable[str] = ()) -> dict[str, Any]:
        """The fields as plain data, terms as text."""
        return {n: _plain(getattr(self, n)) for n in self.model_fields if n not in frozenset(exclude)}

    def __setattr__(self, name: str, value: Any = None) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; model_copy(update=...) makes another one")

    __delattr__ = __setattr__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, n) == getattr(other, n) for n in self.model_fields)

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, n) for n in self.model_fields]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.model_fields)})"


def _default(f: _Info) -> Any:
    return dict(f.default) if type(f.default) is dict else f.default


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Model):
        return value.model_dump()
    if isinstance(value, (tuple, list)):
        return type(value)(map(_plain, value))
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else str(value)


def _checked(cls: type[Model], data: Any) -> dict[str, Any]:
    try:
        return values(cls, data)
    except (Unsure, ValueError, TypeError):
        from amk.dsl.twin import by_pydantic

        return by_pydantic(cls, data)
