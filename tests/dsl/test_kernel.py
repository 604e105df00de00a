"""The descriptor: JSON round trip, stable hash, strict reading, and speed."""

import json
import subprocess
import sys
import time

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Elem, cdiv
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.text import parse
from amk.errors import DescriptorError


def sample(statements: int = 4) -> KernelDescriptor:
    k = KernelBuilder("sample", target="sm_80", threads=256)
    n = k.size("n")
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (64,))
    i = k.let("i", k.bx * 256 + k.t)
    with k.when(i < n):
        for j in range(statements):
            k.load(a[j % 64], x[i - i % (j + 1)])
    with k.loop("q", 0, n, s=0) as loop:
        k.store(z[i], a[0])
        loop.next(s=loop.s + 1)
    return k.finish(grid=(cdiv(n, 256),))


def test_json_round_trip_is_exact():
    """Text, tree and hash survive; defaults and places are restored."""
    k = sample()
    again = KernelDescriptor.from_json(k.to_json())
    assert again == k and again.hash == k.hash and again.to_json() == k.to_json()


def test_places_name_this_file_and_are_no_part_of_the_hash():
    """Every statement remembers its author's line; moving it does not change the hash."""
    k = sample()
    assert all(s.at.startswith("test_kernel.py:") for _, s in walk(k.body))
    data = json.loads(k.to_json())
    data["body"][0]["at"] = "elsewhere.py:1"
    assert KernelDescriptor.from_json(json.dumps(data)).hash == k.hash
    data["body"][0]["value"] = "bx * 255 + t"
    assert KernelDescriptor.from_json(json.dumps(data)).hash != k.hash


def test_a_schema_for_editors_is_ignored():
    """At the top alone, and a string alone."""
    data = json.loads(sample().to_json())
    again = KernelDescriptor.from_json(json.dumps({"$schema": "descriptor.schema.json", **data}))
    assert again.hash == sample().hash and "$schema" not in again.to_json()
    for bad in (1, None, ["x"], {"x": 1}):
        with pytest.raises(DescriptorError, match="schema") as e:
            KernelDescriptor.from_json(json.dumps({**data, "$schema": bad}))
        assert e.value.pointer == "/$schema"
    inner = {**data, "body": [{"$schema": "x", **data["body"][0]}, *data["body"][1:]]}
    with pytest.raises(DescriptorError):
        KernelDescriptor.from_json(json.dumps(inner))
    twice = sample().to_json().replace("{", '{"$schema": "a", "$schema": "b",', 1)
    with pytest.raises(DescriptorError, match="twice"):
        KernelDescriptor.from_json(twice)


def test_hash_is_the_same_under_every_hash_seed():
    """Two processes with different seeds agree, byte for byte."""
    code = "from amk.dsl.kernel import KernelDescriptor as K; import sys; k = K.from_json(sys.stdin.read());" \
           "print(k.hash); print(k.to_json())"  # fmt: skip
    outs = {
        subprocess.run(
            [sys.executable, "-c", code], input=sample().to_json(), text=True, capture_output=True, check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "4242")
    }  # fmt: skip
    assert len(outs) == 1


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda d: d["body"][0].update(name="for"), "reserved"),
        (lambda d: d["body"][0].update(name="__syncthreads"), "reserved"),
        (lambda d: d["body"][0].update(name="i\nx"), "letter"),
        (lambda d: d["body"][0].update(name="x" * 100), "letter"),
        (lambda d: d["body"][0].update(kind="goto"), "tag"),
        (lambda d: d["body"][0].update(value="bx +"), "character"),
        (lambda d: d["body"][0].update(extra=1), "xtra"),
        (lambda d: d.update(threads="256; system()"), "integer"),
        (lambda d: d.update(threads=0), "greater"),
        (lambda d: d.update(target="sm_80 -Xfoo"), "pattern"),
        (lambda d: d.update(format=2), "newer"),
        (lambda d: d.update(format="1"), "whole number"),
        (lambda d: d.update(name="main"), "reserved"),
        (lambda d: d.update(name="a\\"), "letter"),
        (lambda d: d.pop("grid"), "grid"),
        (lambda d: d["params"][0].update(min=2**70), "out of range"),
        (lambda d: d["params"].append(None), "params"),
        (lambda d: d["body"][1].update(body="x"), "tuple"),
    ],
)
def test_bad_descriptors_are_refused_with_a_place(change, where):
    """What, where (line and column) and no traceback, for every kind of wrong field."""
    data = json.loads(sample().to_json())
    change(data)
    with pytest.raises(DescriptorError) as e:
        KernelDescriptor.from_json(json.dumps(data, indent=1))
    assert e.value.line >= 1 and e.value.column >= 1
    assert where.lower() in str(e.value).lower() or where in str(e.value)


def test_a_view_moves_what_it_views():
    """v[i, j] is the viewed element moved in its last dimensions; views of views add up."""
    k = KernelBuilder("v", target="sm_80", threads=32)
    a = k.shared("a", "f32", (3, 8, 8))
    v = k.view("v", a[1, 2, 0])
    w = k.view("w", v[1, 4])
    kernel = k.finish(grid=(1,))
    assert kernel.resolve(w[0, 2]) == Elem("a", tuple(map(parse, ("1", "3", "6"))))


@pytest.mark.parametrize(("statements", "limit"), [(1_000, 0.060), (10_000, 0.600)])
def test_reading_is_fast(statements, limit):
    """1,000 statements load, parse and hash in under 60 ms, 10,000 in under 600 ms (best of five; shared machines
    get three times that)."""
    text = sample(statements).to_json()
    best = min(_time(text) for _ in range(5))
    assert best < 3 * limit, f"{1e3 * best:.0f} ms"


def _time(text: str) -> float:
    parse.cache_clear()
    start = time.process_time()
    _ = KernelDescriptor.from_json(text).hash
    return time.process_time() - start


@pytest.mark.parametrize("value", [True, 1.0, "256", None, [256], 2**40])
def test_a_whole_number_is_nothing_else(value: object) -> None:
    """What JSON writes as a string, a fraction or a truth value is no count."""
    data = json.loads(sample().to_json())
    data["threads"] = value
    with pytest.raises(DescriptorError, match="/threads"):
        KernelDescriptor.from_json(json.dumps(data))


def test_numbered_names_are_never_reserved_ones():
    """`i32` and `i64` are types."""
    k = KernelBuilder("many", target="sm_80", threads=32)
    made = [str(k.let("i", n)) for n in range(70)]
    assert len(set(made)) == 70 and not {"i32", "i64"} & set(made)
    k.finish(grid=(1,))
