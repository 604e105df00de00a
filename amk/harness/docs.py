"""The manual of the rules: a rule's docstring and examples come in, its page comes out (`amk explain`, docs/rules/)."""

from __future__ import annotations

import inspect
from functools import lru_cache
from pathlib import Path
from typing import Any

from amk.dsl.files import write_bytes
from amk.errors import EnvironmentProblem, InputError
from amk.harness.binary_pages import PAGES, WARNINGS

__all__ = ["FAMILIES", "explain", "manual", "page", "pages", "titles", "write"]

FAMILIES = {
    "AMK0": "form", "AMK1": "resources", "AMK2": "memory", "AMK3": "ordering", "AMK4": "meaning",
    "AMK5": "speed advice", "AMK9": "faults of amk",
}  # fmt: skip

# Codes that no rule owns: raised while a file is read, found in the binary, and our own faults.
_OTHERS = {
    "AMK001": (
        "unusable descriptor",
        "The file is no descriptor: its JSON, its fields, a name or an expression does not read.\n\n"
        "Why:    nothing can be said about a kernel that is not there.\n"
        "Good:   compare with `amk schema`; `amk new gemm --m 64 --n 64 --k 64` prints a descriptor that reads.",
    ),
    **PAGES,
    "AMK403": (
        "wrong result",
        "The kernel, run by the interpreter on small sizes, does not compute what its operator means.\n\n"
        "Why:    a kernel can touch the right places in the right order and still put a wrong number there.\n"
        "Proof:  none: `certify` compares with the operator's float64 reference on small odd sizes, once a kernel.\n"
        "Good:   compare the sizes and the array that the message names with what the builder wrote.",
    ),
    "AMK901": (
        "provers disagree",
        "Two provers gave different verdicts on one claim; one of them is wrong, and the kernel is refused.\n\n"
        "Why:    what rests on a prover that is wrong somewhere rests on nothing.\n"
        "Proof:  under `--prover both` and `--certify` Z3 is asked again what the affine prover showed; only a model\n"
        "        that Python's own evaluation confirms counts as another verdict.\n"
        "Good:   send the descriptor.",
    ),
    "AMK900": (
        "fault of amk",
        "amk itself failed while it looked at the file; that is never the author's fault.\n\n"
        "Good:   send the file that standard error names.",
    ),
}
_SECTIONS = ("Why", "Proof", "Bad", "Good", "Fix", "Source", "Where", "Limits")


def _rules() -> dict[str, Any]:
    from amk.harness.rules import RULES

    return {r.code: r for r in RULES}


@lru_cache(maxsize=1)
def titles() -> dict[str, tuple[str, str]]:
    """Title and severity of every code, in order."""
    others = {c: (title, "warning" if c in WARNINGS else "error") for c, (title, _) in _OTHERS.items()}
    own = {code: (r.title, r.severity) for code, r in _rules().items()}
    return dict(sorted((others | own).items()))


@lru_cache(maxsize=1)
def pages() -> dict[str, str]:
    """The page of every code."""
    return {code: page(code) for code in titles()}


def page(code: str) -> str:
    """The page of a code, as Markdown, with its examples. KeyError for an unknown one."""
    rule = _rules().get(code)
    if rule is None or not hasattr(rule, "bad"):
        return manual(code)
    from amk.harness.examples_page import examples

    return manual(code) + "\n" + examples(rule)


def manual(code: str) -> str:
    """What a page says in words, as Markdown. KeyError for an unknown code."""
    title, severity = titles()[code]
    family = next((name for start, name in FAMILIES.items() if code.startswith(start)), "")
    head = f"# {code} {title}\n\n*{family}, {severity}*\n\n"
    return head + _markdown(_docstring(code)) + "\n"


def _docstring(code: str) -> str:
    rule = _rules().get(code)
    if rule is None:
        return _OTHERS[code][1]
    return inspect.cleandoc(rule.__doc__ or "")


def _markdown(doc: str) -> str:
    """Sections `Name: text` become paragraphs with a bold name; code examples keep their lines."""
    out: list[str] = []
    for line in doc.splitlines():
        name, colon, rest = line.partition(":")
        if colon and name in _SECTIONS:
            out += ["", f"**{name}.** {rest.strip()}"]
        else:
            out.append(line.strip())
    return "\n".join(_squeezed(out)).strip()


def _squeezed(lines: list[str]) -> list[str]:
    return [x for i, x in enumerate(lines) if x or (i and lines[i - 1])]


def explain(code: str) -> str:
    """The page of a code as plain text. InputError, with the nearest known ones, for an unknown code."""
    import difflib

    code = code.strip().upper()
    if code not in titles():
        near = difflib.get_close_matches(code, titles(), 3, 0.6)
        raise InputError(f"there is no rule {code[:20]!r}", hint=f"amk explain {near[0]}" if near else "amk rules")
    title, severity = titles()[code]
    rule = _rules().get(code)
    said = f"{code} {title} ({severity})\n\n{_docstring(code)}\n"
    if rule is None or not hasattr(rule, "bad"):
        return said
    from amk.harness.examples_page import plain

    return said + "\n" + plain(rule)


def write(folder: Path) -> list[Path]:
    """Writes a page for every code and an index; returns what it wrote."""
    mended = {c: "--fix" if "\nFix:" in _docstring(c) else "" for c in titles()}
    rows = "\n".join(f"| [{c}]({c}.md) | {t} | {s} | {mended[c]} |" for c, (t, s) in titles().items())
    index = f"# Rules\n\n| code | what | severity | repaired by |\n|---|---|---|---|\n{rows}\n"
    files = {f"{code}.md": body for code, body in pages().items()} | {"README.md": index}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, body in files.items():
            write_bytes(folder / name, body.encode())
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else str(e)
        raise EnvironmentProblem(f"cannot write into {folder}: {why}", hint="choose another folder") from None
    return [folder / name for name in files]
