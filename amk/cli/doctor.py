"""`amk doctor`: what this machine has and lacks, and the exact command that installs it."""

from __future__ import annotations

import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata

from amk import __version__
from amk.cli.environment import VARIABLES, settings, unknown
from amk.cli.output import clean, paint, say, say_json

__all__ = ["Finding", "add_doctor", "examine"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: `state` is ok, lacking (something does not work) or note (worth knowing)."""

    name: str
    state: str
    found: str
    install: str = ""


def add_doctor(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk doctor`."""
    parser.add_argument("--json", action="store_true", help="for a bug report")
    parser.set_defaults(run=run_doctor)


def run_doctor(args: Namespace) -> int:
    """Always 0: a machine that lacks something is described, not refused."""
    found = examine()
    if args.json:
        say_json({
            "amk": __version__, "findings": [{n: getattr(f, n) for n in f.__slots__} for f in found],
            "environment": settings(), "unknown_variables": unknown(),
        })  # fmt: skip
        return 0
    say("\n".join(map(_line, found)) + "\n\nenvironment\n" + "\n".join(_variables()))
    lacking = [f for f in found if f.install]
    if lacking:
        say("\nto do\n" + "\n".join(f"  {f.name}: {f.install}" for f in lacking))
    return 0


def _line(f: Finding) -> str:
    colour = {"ok": "green", "lacking": "red"}.get(f.state, "yellow")
    return f"{f.name:<10} {paint(f'{f.state:<8}', colour)} {clean(f.found, 300)}"


def _variables() -> list[str]:
    rows = [
        f"  {n:<20} {clean(v, 200) if v is not None else '(not set)'}: {VARIABLES[n]}" for n, v in settings().items()
    ]
    return rows + [f"  {clean(n, 80):<20} is not a variable of amk" for n in unknown()]


def examine() -> list[Finding]:
    """Everything, each looked at by itself: one that fails does not hide the others."""
    return [_looked(name, look) for name, look in _LOOKS.items()]


def _looked(name: str, look: Callable[[], tuple[str, str, str]]) -> Finding:
    try:
        return Finding(name, *look())
    except Exception as fault:  # a broken installation is what this command is for
        return Finding(name, "lacking", f"{type(fault).__name__}: {fault}", "pip install --force-reinstall amk")


def _python() -> tuple[str, str, str]:
    where = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    return ("ok", where, "") if sys.version_info >= (3, 11) else ("lacking", where, "install Python 3.11 or newer")


def _platform() -> tuple[str, str, str]:
    return "ok", f"{platform.platform()}, {os.cpu_count()} cores", ""


def _gpu() -> tuple[str, str, str]:
    from amk.runtime.device import probe

    status = probe()
    if status.available:
        return "ok", f"{', '.join(status.names)}; driver {status.driver} supports CUDA {status.cuda}", ""
    return "note", f"{status.reason}; kernels run on the CPU executor", status.hint


def _nvrtc() -> tuple[str, str, str]:
    from amk.errors import AmkError
    from amk.synth.compile import supported_targets, toolkit_version

    try:
        targets = supported_targets()
    except AmkError as fault:
        return "lacking", fault.message, fault.hint
    return "ok", f"NVRTC {toolkit_version()}, {targets[0]} to {targets[-1]}", ""


def _package(name: str, module: str, requirement: str) -> Callable[[], tuple[str, str, str]]:
    def look() -> tuple[str, str, str]:
        from importlib import import_module

        try:
            import_module(module)
            return "ok", metadata.version(name), ""
        except (ImportError, OSError, metadata.PackageNotFoundError) as fault:
            return "lacking", str(fault).splitlines()[0], f'pip install "{requirement}"'

    return look


def _torch() -> tuple[str, str, str]:
    try:
        return "ok", f"{metadata.version('torch')} (optional)", ""
    except metadata.PackageNotFoundError:
        return "note", 'not installed (optional, for torch tensors and cuBLAS as a peer: pip install "amk[torch]")', ""


_OWN_FOLDER = "set AMK_CACHE_DIR to a folder of yours"


def _cache() -> tuple[str, str, str]:
    from amk.synth.cache_disk import default_folder, entries, open_root

    folder = default_folder()
    try:
        root = open_root(folder)
        found = list(entries(root))
    except OSError as fault:
        return (
            "lacking",
            f"{folder}: {fault.strerror}; entries stay in memory",
            _OWN_FOLDER,
        )
    if not os.access(root, os.W_OK):
        return "lacking", f"{folder} cannot be written", _OWN_FOLDER
    return "ok", f"{folder}: {len(found)} entries, {sum(size for _, _, size in found)} bytes", ""


_LOOKS: dict[str, Callable[[], tuple[str, str, str]]] = {
    "amk": lambda: ("ok", __version__, ""),
    "python": _python,
    "platform": _platform,
    "gpu": _gpu,
    "nvrtc": _nvrtc,
    "z3": _package("z3-solver", "z3", "z3-solver>=4.13,<6"),
    "numpy": _package("numpy", "numpy", "numpy>=1.26"),
    "jinja2": _package("jinja2", "jinja2", "jinja2>=3.1"),
    "pydantic": _package("pydantic", "pydantic", "pydantic>=2.7,<3"),
    "torch": _torch,
    "cache": _cache,
}
