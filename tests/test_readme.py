"""The README is true: its Python blocks run, its commands run, and its test command is the one CI uses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


@pytest.mark.parametrize("code", [c for lang, c in BLOCKS if lang == "python"], ids=lambda c: c.split("\n")[0])
def test_python_blocks_run(code, tmp_path):
    """Each block is a program of its own."""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_command_block_runs(tmp_path):
    """The linter's three commands, as written."""
    block = next(c for lang, c in BLOCKS if lang == "bash" and "amk new" in c)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], check=True, cwd=tmp_path, env={**os.environ, "PATH": path}
    )


def test_ci_runs_the_readmes_test_command():
    """One command passes the tests, here and in CI."""
    script = (ROOT / ".ci" / "run").read_text()
    install, test = next(c for lang, c in BLOCKS if "pytest" in c).strip().split(" && ")
    assert test in script and install.replace("pip install ", "") in script
