"""Well-formed descriptors made to break the checker: each is refused, fast, and without a traceback."""

import copy
import json
import time

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check


def base():
    k = KernelBuilder("vector", target="sm_80", threads=64)
    n = k.size("n")
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        k.load(a[0], x[i])
        k.store(z[i], a[0])
    return json.loads(k.finish(grid=(cdiv(n, 64),)).to_json())


def doubling(d):
    for i in reversed(range(60)):
        value = "i + 1" if i == 59 else f"v{i + 1} + v{i + 1}"
        d["body"].insert(len(d["body"]) - 1, {"kind": "let", "name": f"v{i}", "value": value})


def loop(hi, step="1"):
    return {"kind": "for", "var": "q", "hi": hi, "step": step, "body": [{"kind": "sync"}]}


def register(shape):
    return {"kind": "buffer", "name": "big", "space": "register", "dtype": "f32", "shape": shape}


CASES = {
    "division by zero in the grid": (lambda d: d.update(grid=["n // 0"]), "AMK008"),
    "remainder by zero": (lambda d: d.update(grid=["n % 0"]), "AMK008"),
    "cdiv by zero": (lambda d: d.update(grid=["cdiv(n, 0)"]), "AMK008"),
    "shift too far": (lambda d: d.update(grid=["n << 99"]), "AMK008"),
    "negative shift": (lambda d: d["body"][0].update(value="bx >> (1 - 2)"), "AMK008"),
    "zero divisor in a shape": (lambda d: d["params"][1].update(shape=["n // 0"]), "AMK008"),
    "negative grid": (lambda d: d.update(grid=["-5"]), "AMK"),
    "an endless constant loop": (lambda d: d["body"].append(loop("2000000000")), "AMK008"),
    "a step of zero": (lambda d: d["body"].append(loop("n", "0")), "AMK008"),
    "values that double sixty times": (doubling, "AMK008"),
    "a register array of a gigabyte": (lambda d: d["buffers"].append(register([2**28])), "AMK104"),
    "an empty domain": (lambda d: d["params"][0].update(min=5, max=2), "AMK009"),
    "thread index in the grid": (lambda d: d.update(grid=["t"]), "AMK002"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_time(name):
    """A finding of the right family, within seconds."""
    change, code = CASES[name]
    data = copy.deepcopy(base())
    change(data)
    start = time.process_time()
    report = check(KernelDescriptor.from_json(json.dumps(data)))
    assert report.errors and any(d.code.startswith(code) for d in report.errors), report.diagnostics
    assert time.process_time() - start < 20
