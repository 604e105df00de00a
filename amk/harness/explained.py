"""Why the checker may refuse what shows no fault: its documented limits, each by rule and by what the message says."""

from __future__ import annotations

import re

__all__ = ["explanation"]

# Rule, a part of its message, and the limit that it comes from (docs/soundness.md, or the page of the rule).
_LIMITS: tuple[tuple[str, str, str], ...] = (
    ("AMK007", "", "the target lacks what the kernel needs"),
    ("AMK008", "", "known limits: the fragment that the engines read"),
    ("AMK206", "updates atomically", "lemma 14: where data decides, the whole array is taken to be touched"),
    ("AMK207", "surely written", "AMK207: a write under an `if` counts under its own condition only"),
    ("AMK208", "can be zero or negative", "a step has to be positive even where a loop takes no turn"),
    ("AMK313", "", "the interpreter takes blocks one after another: what they tell each other comes in one order"),
    ("AMK401", "neither in tile form nor in grid-stride form", "lemma 6: coverage is shown by form, else undecided"),
)


def explanation(rule: str, message: str) -> str:
    """The limit of the checker that a refusal comes from, or '' where none is known."""
    return next((why for code, part, why in _LIMITS if rule == code and re.search(part, message)), "")
