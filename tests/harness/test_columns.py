"""Columns of terms agree, row by row, with the function that each term compiles to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Apply, Const, Expr, Var
from amk.dsl.text import parse
from amk.harness.columns import Columns, Tables

LEAVES = st.one_of(st.integers(-9, 9).map(Const), st.booleans().map(Const), st.sampled_from("tnk").map(Var))
TWO = ("+", "-", "*", "//", "%", "&", "|", "^", "min", "max", "cdiv", "<", "<=", ">", ">=", "==", "!=", "and", "or")
TERMS: st.SearchStrategy[Expr] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda op, a, b: Apply(op, (a, b)), st.sampled_from(TWO), inner, inner),
        st.builds(lambda op, a: Apply(op, (a,)), st.sampled_from(("neg", "not", "i32")), inner),
        st.builds(lambda a, b, c: Apply("select", (a, b, c)), inner, inner, inner),
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(TERMS, st.lists(st.integers(-40, 40), min_size=1, max_size=6), st.integers(-5, 5))
def test_a_column_is_the_function_of_each_row(e: Expr, k: list[int], n: int) -> None:
    f = function_of((e,), ("t", "n", "k"))
    columns = Columns(len(k), {"t": list(range(len(k))), "n": n, "k": k})
    try:
        expected = [f(t, n, x)[0] for t, x in enumerate(k)]
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            columns.of(e)
    else:
        assert columns.of(e) == expected


def test_a_division_that_a_selection_guards_is_not_evaluated() -> None:
    columns = Columns(3, {"t": [0, 1, 2]})
    assert columns.of(parse("select(t == 0, 7, 6 // t)")) == [7, 6, 3]
    assert columns.of(parse("t > 0 and 6 // t > 3")) == [False, True, False]


@pytest.mark.parametrize("text", ["m", "a[0]", "exp2(t)"])
def test_what_has_no_integer_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Columns(2, {"t": [0, 1]}).of(parse(text))


def test_tables_follow_the_loop_variables_that_a_term_uses() -> None:
    tables = Tables(2)
    assert tables.column({"i": 3, "j": 1}, parse("t + i")) == [3, 4]
    assert tables.column({"i": 3, "j": 2}, parse("t + i")) == [3, 4]
    assert tables.column({"i": 0, "j": 2}, parse("t + i*j")) == [0, 1]
