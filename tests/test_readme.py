"""The README is true: its blocks run, its test command is the one CI uses; and what the documents point to exists."""

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


# What stands only in the wheel, what is said not to exist, and names to fill in (name.py, amkNNN_name.py).
NOT_HERE = re.compile(r"amk/descriptor\.schema\.json|tests/properties/|.*/(amkNNN_)?name(_rules)?\.py")
TEXTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]


@pytest.mark.parametrize("text", TEXTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_what_a_text_points_to_exists(text):
    """Links are to files of the repository; a path or a test in backticks is there."""
    words = text.read_text()
    links = [x for x in re.findall(r"\]\(([^)#]+)\)", words) if not x.startswith(("http:", "https:"))]
    assert [x for x in links if not (text.parent / x).exists()] == []
    paths = re.findall(r"`((?:amk|tests|docs|benchmarks|examples)/[\w/.]+)`", words)
    assert [x for x in paths if not NOT_HERE.fullmatch(x) and not (ROOT / x).exists()] == []
    tests = "".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    assert [x for x in re.findall(r"`(test_\w+)`", words) if f"def {x}(" not in tests] == []
