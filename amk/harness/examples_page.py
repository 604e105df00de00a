"""The examples of a rule as its page shows them: the faulty kernel as a descriptor and as a builder, what is found in
it, and how the mended kernel differs.

In: a rule. Out: text. What is found is asked of the checker itself, so that a page says what the command says.
"""

from __future__ import annotations

from difflib import unified_diff
from typing import Any

from amk.dsl.builder_text import Unprintable, builder_code
from amk.dsl.kernel import KernelDescriptor
from amk.harness.check import check
from amk.harness.diagnostics import Diagnostic
from amk.harness.rule import Rule

__all__ = ["examples", "plain"]


def examples(rule: type[Rule]) -> str:
    """The examples as Markdown."""
    bad, good = rule.bad(), rule.good()
    shown, changed = _fenced("json", _json(bad)), _fenced("diff", _changes(bad, good))
    parts = ["## Example\n", shown, _found(rule, bad), "Mended:\n", changed]
    code, mended = _program(bad), _program(good)
    if code and mended:
        shown, changed = _fenced("python", code), _fenced("diff", _difference(code, mended))
        parts += ["## With the builder\n", shown, "Mended:\n", changed]
    return "\n".join(parts)


def plain(rule: type[Rule]) -> str:
    """The examples for a terminal."""
    bad, good = rule.bad(), rule.good()
    code, mended = _program(bad), _program(good)
    shown = code or _json(bad)
    changes = _difference(code, mended) if code and mended else _changes(bad, good)
    return f"Example\n\n{_indented(shown)}\n{_indented(changes)}"


def _indented(text: str) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def _json(kernel: KernelDescriptor) -> str:
    return _anonymous(kernel).to_json()


def _anonymous(kernel: KernelDescriptor) -> KernelDescriptor:
    """The kernel without the places in this package where it was written."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: bare(v) for k, v in value.items() if k not in ("at", "origin")}
        return [bare(v) for v in value] if isinstance(value, list) else value

    return KernelDescriptor.model_validate(bare(kernel.to_dict()))


def _found(rule: type[Rule], bad: KernelDescriptor) -> str:
    """What the checker says of the faulty kernel, without values that depend on a prover's version."""
    rows = [_row(d) for d in check(_anonymous(bad), rule.device or None).diagnostics if d.code == rule.code]
    return "\n".join(dict.fromkeys(rows))


def _row(d: Diagnostic) -> str:
    place = d.pointer or "the kernel"
    return f"> {d.code} at `{place}`: {d.message}\n>\n> Try: {d.hint}\n"


def _changes(bad: KernelDescriptor, good: KernelDescriptor) -> str:
    return _difference(_json(bad), _json(good))


def _difference(old: str, new: str) -> str:
    """The lines that change, with those around them."""
    lines = list(unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1))[2:]
    return "\n".join("" if line.startswith("@@") else line for line in lines).strip("\n") + "\n"


def _program(kernel: KernelDescriptor) -> str:
    """The builder's program; '' where the builder refuses what a form rule is about."""
    try:
        return builder_code(kernel)
    except Unprintable:
        return ""
