"""`amk COMMAND …`: arguments come in, an exit code comes out.

Only the module of the command that was asked for is imported, so that `amk --version` and `amk check` stay quick.

Exit codes, of every command: 0 no error finding · 1 error finding, refused kernel or wrong result · 2 unusable input,
arguments or environment · 3 only undecided · 4 our own fault · 130 interrupted
"""

from __future__ import annotations

import gc
import os
import sys
from argparse import ArgumentParser, HelpFormatter
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from amk import __version__
from amk.cli.output import complain, complain_line, fault_of_ours, flush, say, say_error, tolerate_any_text

if TYPE_CHECKING:
    from amk.errors import AmkError

__all__ = ["COMMANDS", "entry", "main"]

# Command: the module that has its `add_COMMAND`, and what it does.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "the whole flow on this machine, in under a minute"),
    "check": ("check", "check descriptors: bounds, races, barriers, resources"),
    "describe": ("manual", "what a kernel does: grid, loops, accesses, synchronisation"),
    "explain": ("manual", "the manual page of a rule"),
    "rules": ("manual", "every rule"),
    "schema": ("manual", "the JSON Schema of a descriptor"),
    "targets": ("manual", "the GPUs that are known, or the one in this machine"),
    "new": ("make", "a descriptor for an operator, as the rule agent would build it"),
    "certify": ("make", "the certificate of a kernel, as a file that `amk verify` re-checks"),
    "verify": ("verify", "re-check certificates with a second program"),
    "emit": ("make", "the CUDA text of a certified kernel"),
    "compile": ("make", "a cubin, with its registers, spills, shared memory and occupancy"),
    "run": ("execute", "run an operator or a descriptor, and compare"),
    "bench": ("execute", "measure an operator against a peer (needs a GPU)"),
    "cache": ("cache", "list, clean or verify the cache"),
    "selftest": ("selftest", "mutants of known kernels: does the checker refuse what goes wrong?"),
    "doctor": ("doctor", "what this machine has and lacks, and what to install"),
}


class _Help(HelpFormatter):
    """As wide as the terminal, as `shutil` would say; importing it takes longer than all else that a parser does."""

    def __init__(self, prog: str, **how: Any) -> None:
        super().__init__(prog, **{"width": _columns() - 2, **how})


def _columns() -> int:
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


class _Parser(ArgumentParser):
    """Complains as everything here does: what is wrong, and what to try."""

    def error(self, message: str) -> NoReturn:
        from amk.errors import InputError

        raise InputError(message, hint=f"{self.prog} --help")


def entry() -> NoReturn:
    """The `amk` script: `main`, tuned for a process that lives for a fraction of a second.

    Where pydantic is needed, no plugin of it is looked for (it would see our models, and the search costs more than
    reading). Cycles are collected less often, and `check`, which leaves nothing behind, ends without freeing
    a kernel term by term: together a quarter of its time.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.set_threshold(200_000, 20, 100)
    code = main()
    if sys.argv[1:2] == ["check"]:
        os._exit(code)  # `main` has flushed both streams
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Never raises, but for AMK_DEBUG=1, where our own faults keep their traceback."""
    tolerate_any_text()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
    except SystemExit as end:  # argparse: 0 for --help, 2 for a bad argument
        code = end.code if isinstance(end.code, int) else 2
    except KeyboardInterrupt:
        complain_line("amk: interrupted")
        code = 130
    except Exception as fault:  # the last place that can tell it to a user in a sentence
        code = _failed(fault, as_json=_wants_json(words))
    return flush(code)


def _wants_json(words: Sequence[str]) -> bool:
    """Whether standard output is to be JSON; asked of the words, since they may be what is wrong."""
    return "--json" in words or "--format=json" in words or "--format json" in " ".join(words)


def _failed(fault: Exception, *, as_json: bool) -> int:
    """An error for people on standard error, and under --json as an object on standard output."""
    from amk.errors import AmkError, EnvironmentProblem

    if isinstance(fault, MemoryError):
        fault = EnvironmentProblem("this machine has not the memory for that", hint="smaller sizes")
    known = fault if isinstance(fault, AmkError) else fault_of_ours(fault)
    code = _code(known)
    complain(known)
    if as_json:
        say_error(known, code)
    return code


def _code(fault: AmkError) -> int:
    """The error's own code; of a refused kernel what `amk check` would say of it."""
    from amk.errors import Refused

    report = fault.report if isinstance(fault, Refused) else None
    return (report.exit_code() if report else 0) or fault.exit_code


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        say(_help())
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        say(f"amk {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        return _unknown(argv[0])
    module, summary = COMMANDS[argv[0]]
    about = f"{summary[0].upper()}{summary[1:]}."
    parser = _Parser(prog=f"amk {argv[0]}", description=about, allow_abbrev=False, formatter_class=_Help)
    getattr(import_module(f"amk.cli.{module}"), f"add_{argv[0]}")(parser, argv[1:])
    args = parser.parse_args(argv[1:])
    code: int = args.run(args)
    return code


def _help() -> str:
    rows = "\n".join(f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items())
    return (
        "usage: amk COMMAND …\n\nGenerated GPU kernels that come with a proof.\n\n"
        f"{rows}\n\n  amk COMMAND --help   the options of a command\n  amk --version        the version\n\n"
        "exit codes: 0 fine, 1 a fault was found, 2 unusable input, 3 undecided, 4 our own fault, 130 interrupted"
    )


def _unknown(name: str) -> int:
    import difflib

    from amk.errors import InputError

    close = difflib.get_close_matches(name, COMMANDS, 1)
    raise InputError(f"there is no command {name[:40]!r}", hint=f"amk {close[0]}" if close else "amk --help")
