"""Expressions as Python functions, for the engines that evaluate one many times.

The code object is built from the tree, never from text: variables become positional parameters, constants stay
constants, and the operators are the closed set of `expr`. Nothing that a descriptor says is ever compiled as source.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from amk.dsl.expr import Apply, Const, Elem, Expr, Var

__all__ = ["function_of"]

_BIN: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "&": ast.BitAnd,
    "|": ast.BitOr, "^": ast.BitXor, "<<": ast.LShift, ">>": ast.RShift,
}  # fmt: skip
_CMP: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
}  # fmt: skip
_GLOBALS = {
    "__builtins__": {}, "min": min, "max": max, "cdiv": lambda a, b: -(-a // b), "i32": int, "i64": int, "u32": int,
}  # fmt: skip


@lru_cache(maxsize=1 << 14)
def function_of(exprs: tuple[Expr, ...], params: tuple[str, ...]) -> Callable[..., tuple[Any, ...]]:
    """`f(*values)` gives the tuple of the expressions' values, integers by Python's rules.

    Raises ValueError for what has no integer meaning here (elements, float functions).
    """
    slots = {name: f"v{i}" for i, name in enumerate(params)}
    args = ast.arguments(
        posonlyargs=[], args=[ast.arg(arg=s) for s in slots.values()], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    body = ast.Tuple(elts=[_tree(e, slots) for e in exprs], ctx=ast.Load())
    tree = ast.fix_missing_locations(ast.Expression(ast.Lambda(args=args, body=body)))
    made: Callable[..., tuple[Any, ...]] = eval(compile(tree, "<expression>", "eval"), dict(_GLOBALS))
    return made


def _tree(e: Expr, slots: dict[str, str]) -> ast.expr:
    if isinstance(e, Const):
        return ast.Constant(e.value)
    if isinstance(e, Var):
        if e.name not in slots:
            raise ValueError(f"{e.name!r} has no value here")
        return ast.Name(slots[e.name], ast.Load())
    if isinstance(e, Elem):
        raise ValueError(f"{e} is not an integer known to the checker")
    assert isinstance(e, Apply)
    return _operation(e.op, [_tree(a, slots) for a in e.args])


def _operation(op: str, a: Sequence[ast.expr]) -> ast.expr:
    if op in _BIN:
        return ast.BinOp(a[0], _BIN[op](), a[1])
    if op in _CMP:
        return ast.Compare(a[0], [_CMP[op]()], [a[1]])
    if op in ("and", "or"):
        return ast.BoolOp(ast.And() if op == "and" else ast.Or(), list(a))
    if op in ("not", "neg"):
        return ast.UnaryOp(ast.Not() if op == "not" else ast.USub(), a[0])
    if op == "select":
        return ast.IfExp(a[0], a[1], a[2])
    if op in _GLOBALS:
        return ast.Call(ast.Name(op, ast.Load()), list(a), [])
    raise ValueError(f"{op} has no integer meaning")
