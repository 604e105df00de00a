"""AMK_LOGS: what the library says of caches and calls, on standard error and only when it is asked."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import amk
from amk.harness.samples import vector_add

CODE = """
import logging, numpy as np, amk
{setup}
a = np.ones((3, 3), np.float32)
amk.AutoMegaKernelGEMM(device="cpu").run(a[::-1, ::2], np.ones((2, 3), np.float32))
"""


def said(words: str, setup: str = "") -> str:
    """What a call prints in a new process, with one operand that has to be copied."""
    environment = {**os.environ, "AMK_LOGS": words}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(setup=setup)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stderr


def test_calls_are_told_when_asked() -> None:
    """The executor and every copy; other words say nothing."""
    told = said("x,run")
    assert "amk.run: gemm" in told and " on cpu; A was copied" in told and told.count("\n") == 1
    assert said("cache") == said("x") == ""


def test_a_program_that_listens_is_not_told_twice() -> None:
    assert said("run", "logging.basicConfig(level=logging.INFO)").count("on cpu") == 1


def test_a_compiled_kernel_tells_where_it_ran(caplog: pytest.LogCaptureFixture) -> None:
    x = np.ones(5, np.float32)
    with caplog.at_level(logging.INFO, logger="amk.run"):
        amk.compile(vector_add(), device="cpu")(x=x, y=x, z=np.empty_like(x))
    assert [r.getMessage() for r in caplog.records if r.name == "amk.run"] == ["vector_add on cpu"]
