"""The rows of warps are printed with their masks, and the compiler takes them."""

from __future__ import annotations

import re

import pytest

import amk
from amk.dsl.instructions import ROWS
from amk.harness.certify import certify
from amk.synth.compile import compile_cubin
from amk.synth.render import render

MASKED = [n for n in ROWS if n.startswith(("shfl.", "vote.", "match.", "redux."))]


def every_row() -> amk.KernelDescriptor:
    """The first 16 lanes of a warp issue each row once."""
    k = amk.KernelBuilder("rows_of_warps", target="sm_80", threads=32)
    x, out = k.tensor("x", "u32", (32,)), k.tensor("out", "u32", (32, len(MASKED)), access="write")
    v, r = k.registers("v", "u32", (1,)), k.registers("r", "u32", (len(MASKED),))
    k.load(v[0], x[k.t])
    for i in range(len(MASKED)):
        k.store(r[i], 0)
    with k.when(k.t < 16):
        for i, name in enumerate(MASKED):
            value = v[0] > 5 if name.startswith("vote.") else v[0]
            by = {a.name: 0 for a in ROWS[name].args[1:-1]}
            k.call(name, {"dst": r[i]}, value=value, members=0xFFFF, **by)
    for i in range(len(MASKED)):
        k.store(out[k.t, i], r[i])
    return k.finish(grid=(1,))


def test_every_mask_is_printed():
    """Each row with its own mask, and no other."""
    text = render(certify(every_row())).text
    masks = re.findall(r"__\w+_sync\((0x[0-9a-f]{8}u), ", text)
    assert masks == ["0x0000ffffu"] * len(MASKED)


def test_the_compiler_takes_them():
    pytest.importorskip("cuda.bindings.nvrtc")
    compiled = compile_cubin(render(certify(every_row())).text, "sm_80", name="rows_of_warps")
    assert compiled.resources.registers > 0 and compiled.spill_stores == 0
