"""Expressions as Python functions, for the engines that evaluate one many times.

The text that is compiled is written here from the tree, never taken from a descriptor: variables become positional
parameters v0, v1, ..., constants are printed by their type, and operators come from a closed table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from amk.dsl.expr import BINARY, COMPARISONS, Apply, Const, Elem, Expr, Var

__all__ = ["function_of"]

_CALLS = {"min": min, "max": max, "cdiv": lambda a, b: -(-a // b), "i32": int, "i64": int, "u32": int}
_GLOBALS = {"__builtins__": {}, **_CALLS}


@lru_cache(maxsize=1 << 14)
def function_of(exprs: tuple[Expr, ...], params: tuple[str, ...]) -> Callable[..., tuple[Any, ...]]:
    """`f(*values)` gives the tuple of the expressions' values, integers by Python's rules.

    Raises ValueError for what has no integer meaning here (elements, float functions).
    """
    slots = {name: f"v{i}" for i, name in enumerate(params)}
    body = "".join(f"{_text(e, slots)}," for e in exprs)
    try:
        made: Callable[..., tuple[Any, ...]] = eval(f"lambda {', '.join(slots.values())}: ({body})", dict(_GLOBALS))
    except (SyntaxError, RecursionError, MemoryError):  # Python's own limits on nesting
        raise ValueError("the expression nests too deeply") from None
    return made


def _text(e: Expr, slots: dict[str, str], outer: int = 0) -> str:
    """Python's text of a term; the grammar's precedences are Python's, so parentheses stand only where they must."""
    if isinstance(e, Const):
        return repr(e.value) if isinstance(e.value, (bool, float)) else f"({int(e.value)})"
    if isinstance(e, Var):
        if e.name not in slots:
            raise ValueError(f"{e.name!r} has no value here")
        return slots[e.name]
    if isinstance(e, Elem):
        raise ValueError(f"{e} is not an integer known to the checker")
    assert isinstance(e, Apply)
    level = BINARY.get(e.op)
    if level is None:
        return _operation(e.op, [_text(a, slots) for a in e.args])
    left, right = _text(e.args[0], slots, level + (e.op in COMPARISONS)), _text(e.args[1], slots, level + 1)
    text = f"{left} {e.op} {right}"
    return f"({text})" if level < outer else text


def _operation(op: str, a: list[str]) -> str:
    if op in ("not", "neg"):
        return f"({'not ' if op == 'not' else '-'}({a[0]}))"
    if op == "select":
        return f"(({a[1]}) if ({a[0]}) else ({a[2]}))"
    if op in _CALLS:
        return f"{op}({', '.join(a)})"
    raise ValueError(f"{op} has no integer meaning")
