"""Form rules: scopes, types, operands, rows and the fragment, each on the smallest kernel that shows it."""

from __future__ import annotations

import pytest

from amk.errors import InternalError, Refused
from amk.harness.certify import Certificate, certify
from amk.harness.check import check
from amk.harness.rules.examples import example, small

LOAD = {"kind": "load", "dst": "a[0]", "src": "x[i]"}


def store(value, dst="z[i]"):
    return {"kind": "store", "dst": dst, "values": [value]}


def codes(kernel, target=None):
    return {d.code for d in check(kernel, target).diagnostics}


TOO_LARGE = [
    ("i32", "3000000000"), ("i32", "select(n > 5, 3000000000, n)"), ("i32", "min(n, 3000000000)"), ("u32", "-1"),
    ("i32", "max(1, 2147483648)"), ("i32", "n & 4294967295"), ("i8", "100 + 100"), ("bool", "u32(n) > -1"),
]  # fmt: skip
HELD = [
    ("i32", "2147483647"), ("i32", "-2147483648"), ("i64", "3000000000"), ("i64", "min(i64(n), 3000000000)"),
    ("u32", "4294967295"), ("bool", "n < 3000000000"), ("i8", "-128"), ("i64", "i64(n) + 3000000000"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "value"), [*TOO_LARGE, *HELD])
def test_a_constant_is_a_number_that_its_type_holds(dtype, value):
    """`int q = 3000000000` is negative on the device, and is proved about as three thousand million."""
    let = {"kind": "let", "name": "q", "dtype": dtype, "value": value}
    assert ("AMK004" in codes(example(body=[let, *small()["body"]]))) is ((dtype, value) in TOO_LARGE)


def test_no_guard_is_proved_with_a_number_that_the_device_does_not_have():
    """The store is out of bounds where q is negative, which it is on the device and nowhere else."""
    guard = {"kind": "if", "cond": "q < 0", "body": [store("0.0", "z[i + n]")]}
    kernel = example(body=[{"kind": "let", "name": "q", "value": "3000000000"}, *small()["body"], guard])
    assert codes(kernel) == {"AMK004"}


LOOP = {"kind": "for", "var": "j", "hi": "4", "carry": [{"name": "c", "init": "0", "next": "c + 1"}], "body": []}


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        ([LOAD, store("nothing[0]")], "AMK002"),
        ([{**LOAD, "src": "x[j]"}, LOOP], "AMK002"),
        ([LOOP, {**LOAD, "src": "x[j]"}], "AMK002"),
        ([LOOP, {"kind": "let", "name": "d", "value": "c"}], None),
        ([{"kind": "let", "name": "i", "value": "0"}], "AMK003"),
        ([{"kind": "if", "cond": "i", "body": []}], "AMK004"),
        ([{**LOAD, "src": "x[1.0]"}], "AMK004"),
        ([LOAD, store("i")], "AMK004"),
        ([LOAD, store("f32(i)")], None),
        ([store("x[i]")], "AMK004"),
        ([{**LOAD, "dst": "z[i]"}], "AMK005"),
        ([{**LOAD, "src": "a[1]"}], "AMK005"),
        ([{**LOAD, "src": "x[i, 0]"}], "AMK005"),
        ([{**LOAD, "src": "x[i // 4 * 4]", "width": 8}], "AMK005"),
        ([{"kind": "call", "row": "nothing"}], "AMK006"),
        ([{"kind": "call", "row": "shfl.down", "refs": {"dst": "a[0]"}, "args": {"value": "1.0"}}], "AMK006"),
        ([{"kind": "sync", "scope": "named"}], "AMK006"),
        ([{"kind": "fence", "what": "async"}], "AMK007"),
        ([{"kind": "assume", "fact": "i < n"}], "AMK008"),
        ([{"kind": "for", "var": "j", "hi": "4", "step": "0", "body": []}], "AMK008"),
    ],
)
def test_form(inner, code):
    found = {c for c in codes(example(inner)) if c < "AMK1"}
    assert found == ({code} if code else set())


def test_unusable_is_exit_code_2_and_stops_the_check():
    report = check(example([LOAD, store("q")], threads=4096))
    assert report.exit_code() == 2 and {d.code for d in report.errors} == {"AMK002"}


def test_two_registers_arrays_of_different_types():
    half = {"kind": "buffer", "name": "h", "space": "register", "dtype": "f16", "shape": [1]}
    kernel = example([{**LOAD, "dst": "h[0]"}], buffers=[*small()["buffers"], half])
    assert codes(kernel) == {"AMK004"}


def test_a_swizzled_buffer_has_no_view():
    layout = {"kind": "swizzle", "bits": 2, "base": 2, "shift": 2}
    s = {"kind": "buffer", "name": "s", "space": "shared", "dtype": "f32", "shape": [128], "layout": layout}
    kernel = example(body=[{"kind": "let", "name": "v", "view": "s[t]"}], buffers=[s])
    assert codes(kernel) == {"AMK005"}


def test_certificate_only_by_certify():
    made = certify(example())
    assert made.meaning == "not checked" and made.report.ok and made.digest in made.to_json()
    assert certify(example()).digest == made.digest
    with pytest.raises(InternalError):
        Certificate(made.kernel, made.target, made.report, "checked", made.digest)
    assert certify(example(), reference=lambda k: None).meaning == "checked"


def test_certify_refuses_with_the_report():
    with pytest.raises(Refused) as caught:
        certify(example(threads=2048))
    assert caught.value.report is not None and {d.code for d in caught.value.report.errors} == {"AMK101"}
    with pytest.raises(Refused, match="AMK403"):
        certify(example(), reference=lambda k: "z[0] is 1 and 2 is wanted")
