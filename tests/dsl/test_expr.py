"""Expressions: the text form is exact in both directions, and what is outside the grammar is refused with a column."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amk.dsl.evaluate import function_of
from amk.dsl.expr import BINARY, Apply, Const, Elem, ExprError, Var, apply, both, cdiv, select, subst
from amk.dsl.text import parse

names = st.sampled_from(["x", "bx", "t", "n", "k0"])
leaves = st.one_of(
    names.map(Var), st.integers(-(2**62), 2**62).map(Const),
    st.floats(allow_nan=False, allow_infinity=False).map(Const), st.booleans().map(Const),
)  # fmt: skip


def grow(inner):
    comparisons = [o for o in BINARY]
    return st.one_of(
        st.tuples(st.sampled_from(comparisons), inner, inner).map(lambda v: Apply(v[0], v[1:])),
        inner.map(lambda e: Apply("neg", (e,))),
        inner.map(lambda e: Apply("not", (e,))),
        st.tuples(inner, inner, inner).map(lambda v: Apply("select", v)),
        st.tuples(inner, inner).map(lambda v: Elem("acc", v)),
    )


terms = st.recursive(leaves, grow, max_leaves=12)


@given(terms)
def test_text_round_trips(e):
    """parse(str(e)) is e for every tree, whatever its precedences and signs."""
    assert parse(str(e)) == e
    assert str(parse(str(e))) == str(e)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 0), ("a +", 3), ("a b", 2), ("a < b < c", 6), ("f(x)", 1), ("min(a)", 6), ("a[", 2), ("(a", 2),
        ("a ** b", 3), ("__import__('os')", 11), ("a if b else c", 2), ("1e999", 0), ("99999999999999999999", 0),
        ("x\ny", 1), ("lambda: 0", 6), ("a.b", 1), ("a and", 5), ("'s'", 0),
        ("\u0663", 0), ("a + \u00b2", 4), ("n\u0663", 1), ("a \n", 2), ("1_0", 1), ("0x10", 1), ("a\u00a0+ 1", 1),
        (" and ".join("a" * 300), 0),
    ],
)  # fmt: skip
def test_outside_the_grammar(text, column):
    """The fault names a column inside the text."""
    with pytest.raises(ExprError) as e:
        parse(text)
    assert 0 <= e.value.column <= len(text)
    assert e.value.column == column


def test_deep_nesting_is_refused_without_a_recursion_error():
    """Ten thousand parentheses cost an ExprError."""
    with pytest.raises(ExprError, match="deeper"):
        parse("(" * 10_000 + "a" + ")" * 10_000)
    with pytest.raises(ExprError):
        parse("-" * 10_000 + "a")
    with pytest.raises(ExprError):
        parse("not " * 10_000 + "a")


def test_equal_texts_are_parsed_once():
    """The same text gives the same object."""
    assert parse("bx*128 + t") is parse("bx*128 + t")


def test_terms_have_no_truth_value():
    """An `if` over a term is an author's mistake and says so."""
    with pytest.raises(TypeError, match="select"):
        bool(Var("a") < 3)


def test_constants_of_different_kinds_differ():
    """1, 1.0 and true are three constants, and so are 0.0 and -0.0."""
    assert len({Const(1), Const(1.0), Const(True)}) == 3
    assert Const(0.0) != Const(-0.0)


integers = st.integers(-1000, 1000)


@given(st.sampled_from(["+", "-", "*", "//", "%", "&", "|", "^", "min", "max", "<", "=="]), integers, integers)
def test_folding_agrees_with_evaluation(op, a, b):
    """A folded constant is what the function built from the unfolded tree computes."""
    folded = apply(op, a, b)
    if isinstance(folded, Const) and b != 0:
        assert function_of((Apply(op, (Var("a"), Var("b"))),), ("a", "b"))(a, b) == (folded.value,)


@given(terms, st.dictionaries(names, st.integers(0, 9).map(Const)))
def test_substitution_removes_the_names(e, env):
    """No replaced variable is left."""
    from amk.dsl.expr import names as free

    assert not free(subst(e, env)) & env.keys()


def test_builders_fold_neutral_elements():
    """What builders write reads as a person would write it."""
    x = Var("x")
    assert str(x * 1 + 0) == "x" and str(both(x < 3, Const(True))) == "x < 3"
    assert str(cdiv(Var("n"), 256)) == "cdiv(n, 256)" and str(select(Const(False), x, x + 1)) == "x + 1"
