"""The page docs/outside_cases.md: each case with its origin and the verdict that it must get."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path

from outside_cases.case import CASES, Case

__all__ = ["PAGE", "THEMES", "cases", "page"]

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "outside_cases.md"
THEMES = (
    "shared_races", "overlaps", "barriers", "warp", "atomics", "global_memory", "bounds", "uninitialised",
    "cp_async", "mbarriers", "roles", "tma", "wgmma", "clusters",
)  # fmt: skip

HEAD = """# Outside cases

Kernels written by hand after ideas from elsewhere: test suites of other verifiers, samples, bug reports, manuals. The
ideas are told in our words and the code is ours. `tests/outside_cases` holds them, one file a theme; each must get the
verdict that stands here, and one of the named rules must be what refuses a faulty one.

{total} cases: {faulty} faulty, {right} right; {asynchronous} of them with asynchronous work, clusters or roles.

"""


def cases() -> list[Case]:
    """All cases, theme by theme."""
    for theme in THEMES:
        importlib.import_module(f"outside_cases.{theme}")
    return sorted(CASES.values(), key=lambda c: (THEMES.index(c.theme), c.name))


def page(all_cases: Iterable[Case]) -> str:
    """The page as text."""
    listed = list(all_cases)
    faulty = sum(c.faulty for c in listed)
    counts = {"total": len(listed), "faulty": faulty, "right": len(listed) - faulty}
    out = HEAD.format(**counts, asynchronous=sum(c.asynchronous for c in listed))
    for theme in THEMES:
        out += f"## {theme.replace('_', ' ').capitalize()}\n\n| case | idea | verdict | origin |\n|---|---|---|---|\n"
        for c in (c for c in listed if c.theme == theme):
            out += f"| {c.name} | {c.idea} | {' or '.join(c.codes) or 'right'} | {c.origin} |\n"
        out += "\n"
    return out.rstrip() + "\n"
