"""Edits of JSON text: the data that RFC 6902 says, the rest of the text as it was, pointers that follow."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amk.dsl.patch import Edit, patched, relocated

LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.text('ab"\\/~ é', max_size=4)
TREES = st.recursive(
    LEAVES, lambda t: st.lists(t, max_size=4) | st.dictionaries(st.text('ab/~"', min_size=1, max_size=3), t, max_size=4)
)


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def pointers(value: Any, at: str = "") -> list[str]:
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    return [at, *(p for k, v in items for p in pointers(v, f"{at}/{escaped(str(k))}"))]


def find(data: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        data = data[int(key) if isinstance(data, list) else key]
    return data


def applied(data: Any, e: Edit) -> Any:
    """The plain meaning of an edit on data, written without the text."""
    data = deepcopy(data)
    value = find(data, e.source) if e.op == "move" else e.value
    for op, path in {"move": [("remove", e.source), ("add", e.path)]}.get(e.op, [(e.op, e.path)]):
        parent, _, last = path.rpartition("/")
        inside, key = find(data, parent), last.replace("~1", "/").replace("~0", "~")
        if isinstance(inside, dict):
            inside.pop(key, None) if op == "remove" else inside.__setitem__(key, value)
        elif op == "add":
            inside.insert(len(inside) if key == "-" else int(key), value)
        else:
            inside.pop(int(key)) if op == "remove" else inside.__setitem__(int(key), value)
    return data


@st.composite
def edits(draw: Any) -> tuple[Any, Edit]:
    data = draw(TREES.filter(lambda t: isinstance(t, (list, dict)) and t))
    places = pointers(data)[1:]
    op = draw(st.sampled_from(["remove", "replace", "add", "member"]))
    if op == "member":
        holders = [p for p in pointers(data) if isinstance(find(data, p), (list, dict))]
        holder = draw(st.sampled_from(holders))
        return data, Edit("add", f"{holder}/{'-' if isinstance(find(data, holder), list) else 'new'}", draw(TREES))
    return data, Edit(op, draw(st.sampled_from(places)), draw(TREES))


@given(edits(), st.sampled_from([None, 0, 2, 5]))
def test_the_text_means_what_the_edit_says(case: tuple[Any, Edit], indent: int | None) -> None:
    data, edit = case
    text = json.dumps(data, indent=indent, ensure_ascii=indent == 2)
    assert json.loads(patched(text, [edit])) == applied(data, edit)


BODY = """{
  "$schema": "x.json",
  "body": [
    {"kind": "let",   "name": "i"},
    {
      "kind": "load",
      "dst": "a[0]"
    },
    {"kind": "store"}
  ]
}
"""


def test_untouched_lines_stay_as_they_were() -> None:
    assert patched(BODY, [Edit("add", "/body/1", {"kind": "sync"})]) == BODY.replace(
        '    {\n      "kind": "load"', '    {"kind": "sync"},\n    {\n      "kind": "load"'
    )
    assert patched(BODY, [Edit("add", "/body/-", {"kind": "sync"})]) == BODY.replace(
        '{"kind": "store"}', '{"kind": "store"},\n    {"kind": "sync"}'
    )
    assert patched(BODY, [Edit("remove", "/body/0")]) == BODY.replace('{"kind": "let",   "name": "i"},\n    ', "")
    assert patched(BODY, [Edit("remove", "/body/2")]) == BODY.replace(',\n    {"kind": "store"}', "")
    assert patched(BODY, [Edit("replace", "/body/0/name", "j")]) == BODY.replace('"i"', '"j"')
    assert patched(BODY, [Edit("add", "/grid", ["1"])]) == BODY.replace("  ]\n}", '  ],\n  "grid": ["1"]\n}')


def test_a_statement_that_moves_takes_its_lines_along() -> None:
    wrapped = [
        Edit("add", "/body/1", {"kind": "if", "cond": "i < n", "body": []}),
        Edit("move", "/body/1/body/-", source="/body/2"),
        Edit("move", "/body/1/body/-", source="/body/2"),
    ]
    text = patched(BODY, wrapped)
    assert (
        '"body": [\n      {\n        "kind": "load",\n        "dst": "a[0]"\n      },\n      {"kind": "store"}\n    ]}'
        in text
    )
    assert json.loads(text)["body"][1]["body"] == json.loads(BODY)["body"][1:]


def test_new_lines_are_like_the_others() -> None:
    tabbed = BODY.replace("  ", "\t")
    stored = '\t\t{"kind": "store"}'
    assert patched(tabbed, [Edit("add", "/body/2", {})]) == tabbed.replace(stored, "\t\t{},\n" + stored)
    crlf = BODY.replace("\n", "\r\n")
    assert patched(crlf, [Edit("add", "/body/-", {})]) == crlf.replace('"store"}', '"store"},\r\n    {}')
    wrapped = [Edit("add", "/body/1", {"body": []}), Edit("move", "/body/1/body/-", source="/body/2")]
    assert '{"body": [\r\n      {\r\n        "kind": "load",\r\n        "dst"' in patched(crlf, wrapped)
    assert '{"body": [\n\t\t\t{\n\t\t\t\t"kind": "load",\n\t\t\t\t"dst"' in patched(tabbed, wrapped)


def test_pointers_follow() -> None:
    add, gone = Edit("add", "/body/1", {}), Edit("remove", "/body/1")
    into = Edit("move", "/body/1/body/0", source="/body/2")
    for before, edit, after in (
        ("/body/0/cond", add, "/body/0/cond"), ("/body/1", add, "/body/2"), ("/body/12/body/0", add, "/body/13/body/0"),
        ("/body/0", gone, "/body/0"), ("/body/1/dst", gone, None), ("/body/3", gone, "/body/2"),
        ("/body/2/dst", into, "/body/1/body/0/dst"), ("/body/3", into, "/body/2"), ("/params/1", add, "/params/1"),
        ("/body/1", Edit("replace", "/body/1", {}), "/body/1"), ("/body/1", Edit("add", "/body/-", {}), "/body/1"),
    ):  # fmt: skip
        assert relocated(before, [edit]) == after, (before, edit)


@given(st.lists(st.integers(), min_size=1, max_size=6, unique=True), st.data())
def test_pointers_follow_what_they_name(data: list[int], draw: Any) -> None:
    """Of distinct values in an array, each is found again at its relocated pointer."""
    places = st.integers(0, len(data) - 1)
    edit = draw.draw(
        st.builds(lambda i: Edit("add", f"/{i}", "new"), places)
        | st.builds(lambda i: Edit("remove", f"/{i}"), places)
        | st.builds(lambda i, j: Edit("move", f"/{j}", source=f"/{i}"), places, places)
    )
    now = applied(data, edit)
    for i, x in enumerate(data):
        new = relocated(f"/{i}", [edit])
        assert (x not in now) if new is None else find(now, new) == x


@pytest.mark.parametrize("path", ["/no", "/body/9", "/body/0/kind/x", "/body/9/cond"])
def test_a_path_that_is_not_there(path: str) -> None:
    for op in ("remove", "replace"):
        with pytest.raises(KeyError):
            patched(BODY, [Edit(op, path, 1)])  # type: ignore[arg-type]
