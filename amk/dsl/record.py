"""Classes of named fields, for modules that every check imports: what `dataclasses` gives, without what it costs.

The standard module imports `inspect` and compiles half a dozen methods for each class, a tenth of the time in which a
small kernel is checked. Here one method is compiled for each class, and the others are shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

__all__ = ["field", "record", "replace"]

_T = TypeVar("_T")
_MISSING = object()


class _Factory:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """A field whose default is made anew for each object."""
    return _Factory(default_factory)


@dataclass_transform(field_specifiers=(field,))
def record(*, frozen: bool = False) -> Callable[[type[_T]], type[_T]]:
    """Gives a class its constructor, `==`, a text, and where it is `frozen` a hash; its annotations are its fields."""

    def make(cls: type[_T]) -> type[_T]:
        names = tuple(cls.__annotations__)
        defaults = {n: vars(cls)[n] for n in names if n in vars(cls)}
        for n, value in defaults.items():
            if isinstance(value, _Factory):
                delattr(cls, n)
        made: dict[str, Any] = {"__init__": _constructor(cls.__name__, names, defaults), "__eq__": _equal}
        made |= {"__repr__": _text, "_names": names, "__match_args__": names}
        made |= {"__setattr__": _refuse, "__delattr__": _refuse, "__hash__": _hash} if frozen else {"__hash__": None}
        for n, value in made.items():
            if n not in vars(cls) or n == "__hash__":
                setattr(cls, n, value)
        return cls

    return make


def replace(held: _T, /, **changes: Any) -> _T:
    """The object with other values in some fields."""
    return type(held)(**{n: getattr(held, n) for n in held._names} | changes)  # type: ignore[attr-defined]


def _constructor(title: str, names: tuple[str, ...], defaults: dict[str, Any]) -> Any:
    given = ", ".join(f"{n}=_missing" if isinstance(defaults.get(n), _Factory) else
                      f"{n}=_{n}" if n in defaults else n for n in names)  # fmt: skip
    values = ", ".join(
        f"{n!r}: _{n}.make() if {n} is _missing else {n}" if isinstance(defaults.get(n), _Factory) else f"{n!r}: {n}"
        for n in names
    )
    scope = {"_missing": _MISSING, **{f"_{n}": value for n, value in defaults.items()}}
    exec(f"def __init__(self, {given}): self.__dict__.update({{{values}}})", scope)
    scope["__init__"].__qualname__ = f"{title}.__init__"
    return scope["__init__"]


def _values(held: Any) -> tuple[Any, ...]:
    return tuple([getattr(held, n) for n in held._names])


def _equal(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _text(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self._names)})"


def _hash(self: Any) -> int:
    return hash(_values(self))


def _refuse(self: Any, name: str, value: Any = None) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} stays as it is")
