"""The house: imports point one way, and the light paths stay light."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amk.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent / "amk"
ALLOWED = {
    "dsl": {"dsl", "errors"},
    "ops": {"dsl", "errors", "ops"},
    "harness": {"dsl", "errors", "harness", "version"},
    "verify": {"dsl", "errors", "verify", "version"},
    "synth": {"dsl", "errors", "synth", "harness"},
    "runtime": {"dsl", "errors", "ops", "harness", "synth", "runtime"},
    "agents": {"dsl", "errors", "ops", "harness", "synth", "runtime", "agents"},
}
AGAINST = {  # each inside one function, and each with its reason in docs/why.md
    "dsl/detect.py": {"runtime"},  # Target.detect() asks the driver
}


def imported(path: Path, package: str | None = None) -> set[str]:
    """The modules of amk that a file imports, at run time or lazily (not under TYPE_CHECKING), by their full names.

    `from amk.harness import order` counts as amk.harness.order, relative imports are resolved in `package`, and a
    string that is a module's name counts too, since import_module and __import__ take one.
    """
    package = package or ".".join(("amk", *path.relative_to(ROOT).parent.parts))
    tree, found = ast.parse(path.read_text()), set()
    skipped = {
        id(n) for t in ast.walk(tree) if isinstance(t, ast.If) and ast.unparse(t.test).endswith("TYPE_CHECKING")
        for b in t.body for n in ast.walk(b)
    }  # fmt: skip
    for n in ast.walk(tree):
        if isinstance(n, ast.Import):
            names = [a.name for a in n.names]
        elif isinstance(n, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) + 1 - n.level]) if n.level else ""
            base = ".".join(x for x in (base, n.module) if x)
            names = [f"{base}.{a.name}" for a in n.names]
        elif isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.startswith("amk."):
            names = [n.value] if exists(n.value.split(".")[1]) else []
        else:
            continue
        if id(n) not in skipped:
            found |= {name if "." in name else f"{name}." for name in names if name.split(".")[0] == "amk"}
    return found


def packages(path: Path) -> set[str]:
    """The packages of amk that a file imports: `harness` of amk.harness.order, `api` of amk.api."""
    names = (name.split(".")[1] for name in imported(path))
    return {n if exists(n) else "__init__" for n in names}


def exists(name: str) -> bool:
    """Whether amk has a package or a module of this name."""
    return bool(name) and ((ROOT / name).is_dir() or (ROOT / f"{name}.py").exists())


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_point_one_way(package):
    """dsl <- ops, harness, synth <- runtime <- agents <- api <- cli; harness and synth never import ops."""
    for path in (ROOT / package).rglob("*.py"):
        against = AGAINST.get(path.relative_to(ROOT).as_posix(), set())
        assert packages(path) <= ALLOWED[package] | against, path


# What the interpreter may use beside its own files: the IR, the rows' NumPy meanings, the errors. `evaluate` (a term of
# sizes as a function), `infer` (the type of a term) and `flags` (which statements speak to other blocks) belong to the
# IR; tests/dsl holds them against the tree.
SHARED = {
    "amk.errors",
    *(
        f"amk.dsl.{m}"
        for m in ["evaluate", "expr", "flags", "infer", "instructions", "kernel", "layout", "nodes", "target", "types"]
    ),
}


def test_interpreter_shares_only_the_ir_with_the_checker():
    """The oracle imports no engine of the checker, by any spelling."""
    files = {f"amk.harness.{p.stem}": p for p in (ROOT / "harness").glob("interp*.py")}
    assert {"amk.harness.interpret", "amk.harness.interp_machine"} <= files.keys()
    for path in files.values():
        for name in imported(path):
            assert any(f"{name}.".startswith(f"{m}.") for m in {*files, *SHARED}), f"{path.name} imports {name}"


# What the program that re-checks certificates may use beside its own files: the IR as data (nodes, terms, layouts, the
# instruction table, targets), how files are read and text is shown, and one estimate that it says is shared.
FACTS = {
    "amk.errors", "amk.version", "amk.verify",
    "amk.dsl.expr", "amk.dsl.instructions", "amk.dsl.kernel", "amk.dsl.layout", "amk.dsl.model", "amk.dsl.nodes",
    "amk.dsl.target", "amk.dsl.types", "amk.dsl.source", "amk.dsl.printable", "amk.dsl.registers",
}  # fmt: skip


def test_the_second_program_shares_only_the_ir_with_the_engines():
    """`amk.verify` imports no engine of the harness, nothing that evaluates or infers for them, and no NumPy."""
    files = list((ROOT / "verify").glob("*.py"))
    assert {"verify.py", "logic.py", "block.py", "numeric.py", "outputs.py"} <= {p.name for p in files}
    for path in files:
        for name in imported(path):
            assert any(f"{name}.".startswith(f"{m}.") for m in FACTS), f"{path.name} imports {name}"
        tree = ast.parse(path.read_text())
        roots = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        roots |= {(n.module or "").split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert roots <= {*sys.stdlib_module_names, "amk", "z3"}, path.name
        assert ("z3" in roots) == (path.name == "logic.py")


def test_no_engine_imports_the_second_program():
    """Nothing that makes certificates knows how they are re-checked."""
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).parts[0] not in ("verify", "cli"):
            assert not any(name.startswith("amk.verify") for name in imported(path)), path


@pytest.mark.parametrize("text", [
    "from amk.harness import order", "from amk.harness.access import Access", "import amk.harness.ring as r",
    "from . import sizes", "from .tiles import tiles", "def f():\n  from amk.harness import footprint",
    "from amk import check", "import amk", "__import__('amk.harness.order')", "import_module('amk.harness.events')",
])  # fmt: skip
def test_the_whitelist_sees_every_spelling(text, tmp_path):
    """What a search for `amk.harness.order` in the text would miss."""
    (tmp_path / "interp_bad.py").write_text(text)
    found = imported(tmp_path / "interp_bad.py", "amk.harness")
    assert found and not any(f"{name}.".startswith(f"{m}.") for m in SHARED for name in found)


LONG: dict[str, str] = {}  # file: why it may have more than 400 lines


def test_files_are_short():
    """A file that needs a table of contents is two files; the longer ones are listed, each with its reason."""
    long = {p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.py") if len(p.read_text().splitlines()) > 400}
    assert long == LONG.keys()


# ------------------------------------------------------------------------------- machines without CUDA, Windows, macOS
FOREIGN = ("cuda", "nvidia", "torch", "cupy", "fcntl", "pwd", "grp", "resource", "termios")  # what such machines lack
POSIX = (  # and names of `os`
    "fork", "register_at_fork", "getuid", "geteuid", "sched_getaffinity", "killpg", "set_blocking", "O_NONBLOCK",
)  # fmt: skip


GUARD = """
import os, sys

class Blocked:
    def find_spec(self, name, *rest):
        if any(name == b or name.startswith(b + ".") for b in BLOCKED):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
for name in BLOCKED:
    assert name not in sys.modules
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{name} is not blocked")
if "fcntl" in BLOCKED:
    for name in POSIX:
        hasattr(os, name) and delattr(os, name)
"""


def run_blocked(code: str, blocked: tuple[str, ...] = FOREIGN, *, expect: int = 0, **options) -> str:
    """Standard output of a process where some modules cannot be imported; with `fcntl` go the POSIX names of `os`."""
    code = f"BLOCKED, POSIX = {blocked!r}, {POSIX!r}\n{GUARD}\n{code}"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


def test_every_module_imports_on_a_foreign_machine():
    """Windows and macOS: no CUDA modules, no fcntl, no torch. The package first, then each module by itself."""
    names = sorted(
        "amk." + ".".join(p.relative_to(ROOT).with_suffix("").parts)
        for p in ROOT.rglob("*.py") if p.name not in ("__init__.py", "__main__.py")
    )  # fmt: skip
    assert len(names) > 100
    public = "import amk\nfor n in amk.__all__: getattr(amk, n)"
    run_blocked("\n".join([public, *(f"import {n}" for n in names)]))


def test_every_command_has_help_on_a_foreign_machine():
    """`amk COMMAND --help`, and the options of an operator."""
    lines = [f"assert main([{name!r}, '--help']) == 0" for name in COMMANDS]
    lines += [f"assert main([{name!r}, 'gemm', '--help']) == 0" for name in ("new", "run", "bench")]
    shown = run_blocked("\n".join(["from amk.cli.main import main", *lines]))
    assert all(f"usage: amk {name} " in shown for name in COMMANDS)


def test_a_file_is_checked_on_a_foreign_machine(tmp_path):
    """Reading a descriptor and checking it need nothing of POSIX."""
    file = tmp_path / "k.amk.json"
    run_blocked(
        "from amk.cli.main import main; from amk.harness.samples import vector_add\n"
        f"text = vector_add().to_json(); assert open({str(file)!r}, 'w').write(text)\n"
        f"assert main(['check', {str(file)!r}]) == 0"
    )


@pytest.mark.slow
@pytest.mark.parametrize("blocked", [FOREIGN, ("cuda.bindings.nvrtc",)], ids=["no CUDA at all", "no compiler"])
def test_the_demo_says_what_is_missing(blocked, tmp_path):
    """Without NVRTC it still checks and runs, names the compiler and the command that installs it, and ends with 2."""
    options = {"cwd": tmp_path, "env": {**os.environ, "AMK_CACHE_DIR": str(tmp_path / "cache")}}
    code = "from amk.cli.main import main; sys.exit(main(['demo']))"
    shown = run_blocked(code, blocked, expect=2, **options)
    machine, _, compiled, ran = (("\n" + shown).split(f"\n{n}. ")[1].split("\n\n")[0] for n in (1, 2, 3, 4))
    for part in (machine, compiled):
        assert "NVRTC cannot be loaded" in part and "try: pip install" in part and "nvidia-cuda-nvrtc" in part
    assert "claims proved" in shown and "AMK303" in shown and ": right, error" in ran


def test_importing_amk_is_light():
    """`import amk` pulls in neither NumPy nor Z3 nor CUDA."""
    heavy = "{'numpy', 'z3', 'cuda', 'jinja2', 'networkx', 'rich', 'torch', 'pydantic'}"
    run_blocked(f"import amk; assert not {heavy} & sys.modules.keys()", ())
