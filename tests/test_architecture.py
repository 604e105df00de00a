"""The house: imports point one way, and the light paths stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "amk"
ALLOWED = {
    "dsl": {"dsl", "errors", "runtime"},  # runtime only inside detect, which a machine's facts need
    "ops": {"dsl", "errors", "ops"},
    "harness": {"dsl", "errors", "harness"},
    "synth": {"dsl", "errors", "synth", "harness"},
    "runtime": {"dsl", "errors", "ops", "harness", "synth", "runtime", "__init__", "api"},
    "agents": {"dsl", "errors", "ops", "harness", "synth", "runtime", "agents"},
}


def imports(path: Path) -> set[str]:
    """The amk packages that a file imports, at run time or lazily (not under TYPE_CHECKING)."""
    tree, found = ast.parse(path.read_text()), set()
    skipped = {
        id(n) for t in ast.walk(tree) if isinstance(t, ast.If) and "TYPE_CHECKING" in ast.unparse(t.test)
        for n in ast.walk(t)
    }  # fmt: skip
    for n in ast.walk(tree):
        if id(n) in skipped:
            continue
        names = (
            [a.name for a in n.names]
            if isinstance(n, ast.Import)
            else [n.module or ""]
            if isinstance(n, ast.ImportFrom)
            else []
        )
        found |= {name.split(".")[1] if "." in name else "__init__" for name in names if name.split(".")[0] == "amk"}
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_one_way(package):
    """dsl <- ops, harness, synth <- runtime <- agents <- api <- cli; harness and synth never import ops."""
    for path in (ROOT / package).rglob("*.py"):
        assert imports(path) <= ALLOWED[package], path


def test_interpreter_shares_only_the_ir_with_the_checker():
    """The oracle imports no engine of the checker."""
    for path in (ROOT / "harness").glob("interp*.py"):
        text = path.read_text()
        for engine in ("events", "order", "bounds", "affine", "solver", "cutoff", "coverage", "check"):
            assert f"amk.harness.{engine}" not in text, (path, engine)


def run_blocked(code: str, blocked: tuple[str, ...]) -> None:
    """Runs code in a process where some modules cannot be imported."""
    guard = (
        "import sys\nclass B:\n def find_spec(self, name, *a):\n"
        f"  if name.split('.')[0] in {blocked!r}: raise ImportError(name)\nsys.meta_path.insert(0, B())\n"
    )
    subprocess.run([sys.executable, "-c", guard + code], check=True, capture_output=True, text=True)


def test_every_module_imports_without_cuda_and_fcntl():
    """Windows and macOS: no CUDA modules, no fcntl, no torch."""
    names = sorted(
        "amk." + ".".join(p.relative_to(ROOT).with_suffix("").parts)
        for p in ROOT.rglob("*.py") if p.name not in ("__init__.py", "__main__.py")
    )  # fmt: skip
    run_blocked("\n".join(f"import {n}" for n in names), ("cuda", "fcntl", "torch", "cupy"))


def test_importing_amk_is_light():
    """`import amk` pulls in neither NumPy nor Z3 nor CUDA."""
    heavy = "{'numpy', 'z3', 'cuda', 'jinja2', 'networkx', 'rich', 'torch'}"
    run_blocked(f"import amk, sys; assert not {heavy} & sys.modules.keys()", ())
