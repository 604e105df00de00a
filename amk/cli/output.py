"""What every command prints through: text that cannot drive a terminal, colours only where wanted, a pipe that closes.

A reader that goes away (`amk check … | head`) never changes the exit code: what follows is dropped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amk.errors import AmkError

__all__ = [
    "clean", "complain", "complain_line", "fault_of_ours", "flush", "paint", "report_fault", "say", "say_error",
    "say_json", "table", "tolerate_any_text",
]  # fmt: skip

_COLOURS = {"red": "31;1", "yellow": "33;1", "green": "32;1", "blue": "36", "dim": "2", "bold": "1"}
_LINE = 4000  # characters of one printed line of somebody else's text


def clean(text: str, limit: int = _LINE) -> str:
    """Text of unknown origin, as one line without control characters and terminal sequences."""
    from amk.dsl.source import escape

    return escape(text, limit)


def say(text: str, *, end: str = "\n") -> None:
    """Prints to standard output."""
    _write(sys.stdout, text + end)


def say_json(value: Any) -> None:
    """Prints JSON (ASCII, so that no text in it can drive a terminal)."""
    import json

    say(json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False, default=str))


def complain_line(text: str) -> None:
    """Prints a line to standard error."""
    _write(sys.stderr, text + "\n")


def complain(fault: AmkError) -> None:
    """`amk: error: what` and `try: what to do`, on standard error."""
    lines = [clean(line) for line in fault.message.splitlines()] or [type(fault).__name__]
    if log := getattr(fault, "log", ""):
        lines += ["  " + clean(line) for line in log.splitlines()[:12]]
    complain_line("\n".join(["amk: error: " + lines[0], *lines[1:]]))
    if fault.hint:
        complain_line(f"  try: {clean(fault.hint)}")


def say_error(fault: AmkError, exit_code: int) -> None:
    """An error as the one JSON object on standard output, for `--json` (docs/cli.md): what, and what to do about it."""
    from amk import __version__
    from amk.errors import KernelFault

    error = {"kind": type(fault).__name__, "code": _code(fault), "message": fault.message, "hint": fault.hint}
    extra = {n: getattr(fault, n, None) for n in ("pointer", "line", "column", "log", "status")}
    if isinstance(fault, KernelFault):
        extra["fault"] = fault.to_dict()
    say_json({"amk": __version__, "exit_code": exit_code, "error": error | {n: v for n, v in extra.items() if v}})


def _code(fault: AmkError) -> str | None:
    """The rule that an error comes from: AMK001 of a file that does not read, the first finding of a refused kernel."""
    report = getattr(fault, "report", None)
    if report is not None:
        found = (*report.errors, *report.undecided)
        return found[0].code if found else None
    code = getattr(fault, "code", None)
    return str(code) if code else None


def fault_of_ours(fault: BaseException) -> AmkError:
    """An error that nobody foresaw, as one that says so and names the file to send. With AMK_DEBUG=1 it goes on."""
    from amk.errors import InternalError

    if os.environ.get("AMK_DEBUG") == "1":
        raise fault
    place = _write_report(fault)
    hint = f"send {place} with the command you ran" if place else "run again with AMK_DEBUG=1"
    return InternalError(f"this is a fault of amk itself: {type(fault).__name__}: {clean(str(fault), 300)}", hint=hint)


def report_fault(fault: BaseException) -> int:
    """Our own fault, on standard error: a file to send, and exit code 4."""
    said = fault_of_ours(fault)
    complain(said)
    return said.exit_code


def _write_report(fault: BaseException) -> str:
    import platform
    import tempfile
    import traceback

    from amk import __version__

    head = f"amk {__version__} · Python {platform.python_version()} · {platform.platform()}\n\n"
    try:
        handle, place = tempfile.mkstemp(prefix="amk-fault-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(head + "".join(traceback.format_exception(fault)))
    except OSError:
        return ""
    return place


def paint(text: str, colour: str) -> str:
    """The text in a colour, where standard output is a terminal and NO_COLOR is not set."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if _colourful() else text


def _colourful() -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(sys.stdout and sys.stdout.isatty())


def table(rows: Iterable[Sequence[object]], heads: Sequence[str] = (), *, indent: str = "") -> str:
    """Columns as wide as their widest cell; numbers to the right."""
    cells = [[clean(str(x), 200) for x in row] for row in rows]
    lines = [list(heads), *cells] if heads else cells
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)] if lines else []
    right = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(widths))]
    return "\n".join(indent + _row(line, widths, right) for line in lines)


def _row(line: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True))
    return "  ".join(cells).rstrip()


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).replace("%", "").replace(" ", "").isdigit()


# -------------------------------------------------------------------------------------------------------------- pipes
def tolerate_any_text() -> None:
    """A terminal that lacks a character shows its number instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def flush(code: int) -> int:
    """Writes what is left; the code, whether or not somebody still reads."""
    for stream in (sys.stdout, sys.stderr):
        _write(stream, "")
    return code


def _write(stream: IO[str] | None, text: str) -> None:
    if stream is None:  # pythonw, or a parent that closed it
        return
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _drop(stream)
    except OSError as e:  # a full disk: what is lost must not look like success
        _drop(stream)
        if stream is sys.stdout:
            from amk.errors import EnvironmentProblem

            raise EnvironmentProblem(f"cannot write standard output: {e.strerror}") from None


def _drop(stream: IO[str]) -> None:
    """Later writes, and the interpreter's own at exit, go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return
