"""Reading by our own functions: what they take, pydantic takes and reads the same; and good files need no pydantic."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from amk.dsl.expr import as_expr
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.nodes import Let, Load, Sync
from amk.dsl.reading import Unsure, values
from amk.dsl.twin import _own, twin
from amk.harness import samples
from amk.ops.wgmma_gemm import wgmma_gemm

ODD: tuple[Any, ...] = (
    None, True, 0, 1, -1, 16, 1.0, 2**63, "", "1", "t", "read", "a\n", "é", "\ud800", "sm_90a\n", "sm_٩٠", [], ["t"],
    ["t", 1], {}, {"kind": "let"}, {"kind": True}, {"kind": ["let"]}, {"x": "t"}, ("t",), b"x", "x" * 5000,
)  # fmt: skip
WHOLE = {"suppress": [{"code": "AMK501", "reason": "meant"}], "origin": {"agent": "é", "problem": {"m": [1, None]}}}
KERNELS = [
    {**samples.block_sum().to_dict(), **WHOLE},
    {**samples.transpose().to_dict(), "cluster": 2},
    wgmma_gemm().to_dict(),
]


def spoiled(data: Any) -> Iterator[None]:
    """Changes one value of `data` after the other, in place."""
    for key in list(data) if isinstance(data, dict) else range(min(len(data), 3)):
        held = data[key]
        for odd in ODD:
            data[key] = copy.copy(odd)
            yield
        data[key] = held
        if isinstance(held, (dict, list)):
            yield from spoiled(held)
    if isinstance(data, dict):
        data["unknown"] = 1
        yield
        del data["unknown"]
        for key in list(data):
            held = data.pop(key)
            yield
            data[key] = held


@pytest.mark.parametrize("data", KERNELS, ids=lambda data: str(data["name"]))
def test_what_we_read_pydantic_reads_the_same(data: dict[str, Any]) -> None:
    """Thousands of files with one value changed, both readers on those that ours reads."""
    data, taken = copy.deepcopy(data), 0
    for _ in spoiled(data):
        try:
            mine = values(KernelDescriptor, data)
        except (Unsure, ValueError, TypeError):
            continue
        other = twin(KernelDescriptor).model_validate(data)
        taken += 1
        assert mine == {n: _own(getattr(other, n)) for n in KernelDescriptor.model_fields}
    assert taken > 50


def test_a_good_file_needs_no_pydantic(tmp_path: Any) -> None:
    """It would take longer to import than the check takes."""
    file = tmp_path / "k.amk.json"
    file.write_text(samples.block_sum().to_json())
    program = "import sys; from amk.cli.main import main; assert main(['check', sys.argv[1]]) == 0; "
    program += "print([m for m in sys.modules if m.partition('.')[0] in ('pydantic', 'pydantic_core', 'numpy', 'z3')])"
    out = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_what_only_pydantic_takes_becomes_ours() -> None:
    """A set where a tuple is wanted, beside a node that is made already."""
    let = Let(name="x", value=as_expr("t"))
    kernel = KernelDescriptor(name="k", target="sm_80", threads=32, grid={"1"}, body=[let, {"kind": "sync"}])
    assert kernel.grid == (as_expr("1"),) and kernel.body == (let, Sync())
    assert kernel.body[0] is let and type(kernel.body[1]) is Sync


def test_faults_are_told_as_pydantic_tells_them() -> None:
    with pytest.raises(ValueError, match=r"1 validation error for Load\nwidth\n  Input should be 1, 2, 4, 8 or 16"):
        Load(dst="a[0]", src="x[t]", width=3)  # type: ignore[arg-type]


def test_nodes_are_frozen_and_equal_by_value() -> None:
    one = Let(name="x", value=as_expr("t"))
    with pytest.raises(AttributeError, match="frozen"):
        one.name = "y"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del one.name
    same = Let(name="x", value="t")
    assert one == same and hash(one) == hash(same) and one != Let(name="y", value="t") and one != "x"
    assert "name='x'" in repr(one) and one.model_dump()["value"] == "t"


def test_a_copy_remembers_nothing_of_the_first() -> None:
    kernel = samples.vector_add()
    other = kernel.model_copy(update={"threads": 128})
    assert kernel.hash != other.hash and kernel.model_copy().hash == kernel.hash
