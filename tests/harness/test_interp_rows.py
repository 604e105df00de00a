"""The device tests of rows, run in the interpreter: what an H200 was seen to do is what the rows mean here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from amk.harness.interpret import run

_path = Path(__file__).parents[1] / "device" / "test_rows_async.py"
_spec = importlib.util.spec_from_file_location("rows_async", _path)
rows = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rows)

globals().update({name: test for name, test in vars(rows).items() if name.startswith("test_")})


class _Interpreted:
    """Stands for amk in these tests: a compiled kernel is one that the interpreter runs, with all it looks for."""

    @staticmethod
    def compile(kernel):
        def launch(**args):
            run(kernel, args, detect=True)

        return launch


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setattr(rows, "amk", _Interpreted)
    monkeypatch.setattr(rows, "as_bfloat16", lambda bits: bits)
