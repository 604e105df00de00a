"""Reading untrusted JSON: what is refused, where it says the fault is, and that sound data comes back unchanged."""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amk.dsl import source
from amk.dsl.json_places import places
from amk.dsl.json_walk import Fault, Walk
from amk.dsl.source import JSON, Locator, escape, locate, raise_at, read_json, read_object
from amk.errors import DescriptorError

HOSTILE = sorted(Path(__file__).with_name("hostile").glob("*.json"))
PRINTABLE = re.compile("^[^\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]*$")
SOUND = '{"format": 1, "s": "a\\n\\u00e9\\ud83d\\ude00", "n": [-1.5e3, true, null, {"": []}], "k": {"a/b": {"c~d": 7}}}'


def refused(text: str | bytes) -> DescriptorError:
    with pytest.raises(DescriptorError) as caught:
        read_object(text)
    error = caught.value
    assert error.line >= 1 and error.column >= 1 and error.code == "AMK001"
    assert PRINTABLE.match(error.message) and PRINTABLE.match(error.hint) and error.hint
    assert len(error.message) < 400
    assert f"line {error.line}, column {error.column}" in error.message
    return error


def test_the_corpus_is_there() -> None:
    assert len(HOSTILE) >= 60


@pytest.mark.parametrize("path", HOSTILE, ids=lambda p: p.stem)
def test_hostile_files_are_refused(path: Path) -> None:
    refused(path.read_bytes())


@pytest.mark.parametrize("end", range(len(SOUND)))
def test_every_truncation_is_refused(end: int) -> None:
    refused(SOUND[:end])
    refused(SOUND[:end].encode())


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "empty"),
        ("{}\n\n {}", 3, 2, "more text"),
        ('{"a": 1,\n "a": 2}', 2, 2, "twice"),
        ('{"a": [1,\n2,\n]}', 3, 1, "comma stands before"),
        ('{"a":\n  -Infinity}', 2, 3, "-Infinity is not a JSON number"),
        ('{"a": 1e999}', 1, 7, "out of range"),
        ('{"a": "b\nc"}', 1, 7, "must be escaped"),
        ('{"a": "\\q"}', 1, 8, "escape"),
        ('{"é": 1,\n "ö" 2}', 2, 6, "colon"),
        ('{"a": {"b": [', 1, 14, "ends before"),
        ('{"a": 1 // b\n}', 1, 9, "comments"),
        ("\ufeff{}", 1, 1, "byte order mark"),
        (b'{"a":\n "b\xff"}', 2, 4, "0xff is not UTF-8"),
        (b"\xff\xfe{\x00", 1, 1, "not UTF-8"),
        ("[1]", 1, 1, "array, not an object"),
        ("\n 7", 2, 2, "single value, not an object"),
        ('{"a": None}', 1, 7, "not a JSON value"),
    ],
)
def test_the_fault_is_named_and_placed(text: str | bytes, line: int, column: int, words: str) -> None:
    error = refused(text)
    assert words in error.message
    assert (error.line, error.column) == (line, column)


def test_the_error_points_at_the_object_that_holds_the_fault() -> None:
    assert refused('{"body": [0, {"x": 1, "x": 2}]}').pointer == "/body/1"


def test_what_opened_last_is_named_when_the_text_ends() -> None:
    assert "add ] for what opened at line 2, column 2" in refused('{"a":\n [1').hint


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' + "[" * source.MAX_DEPTH + "]" * source.MAX_DEPTH + "}",
        '{"' + "x" * 10**6 + '": 1}',
        '{"name": "' + "x" * 10**6 + '"}',
        '{"name": "' + '\\"' * (source.MAX_STRING + 1) + '"}',
        '{"n": ' + "9" * 10**6 + "}",
        '{"n": -' + "9" * 10**6 + ".5}",
        '{"n": 1e' + "9" * 10**6 + "}",
        '{"n": 0.' + "0" * 10**6 + "1}",
        '{"a": [' + "0," * source.MAX_NODES + "0]}",
        '{"a": ' + "[" + "[]," * source.MAX_NODES + "[]]}",
        "{" + ",".join(f'"{i % 50_000}": 0' for i in range(60_000)) + "}",
        '"' * 10**6,
        "\\" * 10**6,
        " " * 10**6,
        "\x1b]" * 10**6,
        '{"a": "' + "\\ud800" * 10_000 + '"}',
        " " * (source.MAX_BYTES + 1),
    ],
    ids=lambda t: f"{t[:12]!r}-{len(t)}",
)
def test_big_hostile_texts_are_refused_soon(text: str) -> None:
    started = time.process_time()
    refused(text)
    assert time.process_time() - started < 10  # seconds; the slowest takes 2 to 4, a quadratic scan minutes


def test_too_many_bytes_are_refused_before_decoding() -> None:
    assert "larger than" in refused(b"\xff" * (source.MAX_BYTES + 1)).message


@pytest.mark.parametrize(
    "data",
    [
        {"n": [2**63 - 1, -(2**63), 0, -0.0, 1.5, 5e-324, 1.7976931348623157e308]},
        {"s": ["", "\t\n\r", "\\", '"', "\\u0000", "\\\\b", "é€😀", "a" * source.MAX_STRING, "[[[{{{", "]" * 1000]},
        {"k" * source.MAX_NAME: 1},
        {"a": [0] * 100_000},
        {"a": [","] * 100_000},
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_sound_data_at_the_limits(data: dict[str, JSON], ascii_only: bool) -> None:
    assert read_object(json.dumps(data, ensure_ascii=ascii_only)) == data
    assert read_object(json.dumps(data, ensure_ascii=ascii_only).encode()) == data


def test_the_deepest_file_that_is_read() -> None:
    inside = source.MAX_DEPTH - 1
    assert read_object('{"a":' + "[" * inside + "]" * inside + "}")
    refused('{"a":' + "[" * (inside + 1) + "]" * (inside + 1) + "}")


def test_the_name_is_shown_without_its_escape_sequences() -> None:
    with pytest.raises(DescriptorError, match=r"\(evil\.json, line 1, column 1\)"):
        read_json("", name="\x1b[31mevil.json")


def test_a_large_descriptor_reads_fast() -> None:
    row = {"kind": "load", "dst": "a[0, (k0 + 3)]", "src": "x[bx*256 + t + 17]", "when": "i < n && j < m", "width": 4}
    text = json.dumps({"body": [row | {"place": ["examples/first.py", i]} for i in range(10_000)]})
    assert 1_400_000 < len(text) < 1_700_000
    times = []
    for _ in range(5):
        started = time.process_time()  # other work may run beside
        read_json(text)
        times.append(time.process_time() - started)
    assert min(times) < 0.2  # the goal is 40 ms, measured 30 to 45; a loaded machine must not fail the suite


# Random JSON within the limits: no forbidden characters, short keys.
CHARACTERS = st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\t\r[]{}\",:\\/~'u")
TEXTS = st.text(CHARACTERS, max_size=12)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(TEXTS, v, max_size=4), max_leaves=25)
INDENTS = st.sampled_from([None, 0, 1, "\t"])


@settings(max_examples=300, deadline=None)
@given(VALUES, INDENTS, st.booleans())
def test_what_json_writes_comes_back(value: JSON, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read_json(text) == value
    assert read_json(text.encode()) == value
    assert json.dumps(read_json(text)) == json.dumps(value)  # also tells 1 from 1.0 from true


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40) | st.text('[]{}",:0123456789eE.-+truefalsn\\ \n', max_size=40))
def test_the_reader_agrees_with_the_standard_parser(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=float)
    except (ValueError, RecursionError):
        with pytest.raises(DescriptorError):
            read_json(text)
        return
    try:
        assert read_json(text) == expected or not is_finite(expected)
    except DescriptorError:
        assert refusable(text)


def is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def refusable(text: str) -> bool:
    """What the standard parser takes and we do not."""
    numbers = r"\d{19}|[eE][+]?\d{3}|[0-9.]{60}"
    return bool(re.search(f"[\x7f-\x9f\ud800-\udfff]|\\\\[ubf]|NaN|Infinity|{numbers}", text)) or text.count(":") > 1


def place_of(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset].split("\n")
    return len(before), len(before[-1]) + 1


def naive_places(value: JSON, text: str, at: int, pointer: str, places: dict[str, tuple[int, int]]) -> int:
    """Walks the text beside its parsed value; returns where the value ends. An independent, recursive reference."""

    def skip(at: int) -> int:
        while text[at] in " \t\n\r,:":
            at += 1
        return at

    at = skip(at)
    places[pointer] = place_of(text, at)
    if isinstance(value, (dict, list)):
        at += 1
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            if isinstance(value, dict):
                at = json.JSONDecoder().raw_decode(text, skip(at))[1]
            name = str(key).replace("~", "~0").replace("/", "~1")
            at = naive_places(inner, text, at, f"{pointer}/{name}", places)
        return text.index("]" if isinstance(value, list) else "}", at) + 1
    return int(json.JSONDecoder().raw_decode(text, at)[1])


@settings(max_examples=300, deadline=None)
@given(VALUES, INDENTS, st.sampled_from(["", " ", "\n\n "]))
def test_locate_agrees_with_a_naive_reference(value: JSON, indent: int | str | None, before: str) -> None:
    text = before + json.dumps(value, indent=indent, ensure_ascii=False)
    expected: dict[str, tuple[int, int]] = {}
    naive_places(value, text, 0, "", expected)
    find = Locator(text)
    assert {pointer: find(pointer) for pointer in expected} == expected


@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        ("", (1, 1)),
        ("/a", (1, 7)),
        ("/b/1", (3, 7)),
        ("/x~1y/m~0n", (4, 19)),
        ("/b/9", (3, 2)),
        ("/b/9/c/d", (3, 2)),
        ("/nothing/here", (1, 1)),
        ("no pointer", (1, 1)),
    ],
)
def test_locate(pointer: str, place: tuple[int, int]) -> None:
    text = '{"a": 1,\n "b":\n [10, {}],\n "x/y": {  "m~n": 0}}'
    assert locate(text, pointer) == place


def test_locate_finds_what_stands_before_a_fault() -> None:
    assert locate('{"a": 1,\n "b": nul}', "/a") == (1, 7)
    assert locate("", "/a") == (1, 1)


def test_raise_at() -> None:
    with pytest.raises(DescriptorError) as caught:
        raise_at('{"a":\n 1}', "/a", "too small", code="AMK010", hint="use 2", name="k.json")
    error = caught.value
    assert (error.line, error.column, error.pointer, error.code) == (2, 2, "/a", "AMK010")
    assert str(error) == "too small (k.json, line 2, column 2)\n  try: use 2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é€", "plain é€"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("a\r\nb\tc", "a b c"),
        ("a\x00\x08\x7f\x85b", "a b"),
        ("admin\u202e\u2066x", "adminx"),
        ("\ud800half", "half"),
        ("\x1b", ""),
    ],
)
def test_escape(text: str, shown: str) -> None:
    assert escape(text) == shown


@given(st.text(max_size=300), st.integers(1, 50))
def test_escape_is_short_and_printable(text: str, limit: int) -> None:
    shown = escape(text, limit)
    assert len(shown) <= limit and PRINTABLE.match(shown)
    assert escape(shown, limit) == shown


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.sampled_from(['a"b', "~/", "\\", "{[,:]}", "é", "\t"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=4) | st.just("~/\\"), inner, max_size=4),
    max_leaves=30,
)  # fmt: skip


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_the_quick_map_is_that_of_the_walk(value: object, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    walk = Walk(text)
    try:
        walk.run()
    except Fault:  # it reads, and holds what is not allowed: then the walk is asked
        return
    assert list(places(text).items()) == list(walk.places.items())
