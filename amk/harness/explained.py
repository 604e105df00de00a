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
    ("AMK201", "parts can reach", "the domain has sizes that no run has"),
    ("AMK202", "has index", "the walk comes to sizes that no run has, and to grids without a block"),
    ("AMK202", "can reach the size", "data that no run draws"),
    ("AMK302", "barrier is reached by", "a barrier takes all threads, in a grid without a block and at its end too"),
    ("AMK303", "has not waited for", "each thread of a warp that goes on has to have waited itself"),
    ("AMK304", "nothing orders them", "lemma 10: flags speak of workspace tensors alone"),
    ("AMK305", "the wgmma fence", "PTX asks for all threads of the warpgroup; the interpreter takes no notice"),
    ("AMK306", "no barrier is", "lemma 14: where data decides, the whole array is taken to be touched, at any size"),
    ("AMK310", "", "lemma 7: a phase may not end before all have seen the one before, whoever waits again for it"),
    ("AMK313", "no block barrier stands", "lemma 11: writes are handed over by block barriers, not by those of a warp"),
    ("AMK402", "the same thread", "an output is written once; a second write by the same thread changes nothing"),
    ("AMK401", "neither in tile form nor in grid-stride form", "lemma 6: coverage is shown by form, else undecided"),
)


# Of families whose blocks wait for each other's flags it is the other side that has the limit.
_TALKING = ("look_back",)
_ONE_ORDER = "the interpreter runs few orders of blocks, and in most all that a block looks back at is there already"


def explanation(rule: str, message: str, family: str = "") -> str:
    """The limit of the checker (or of the interpreter) that a refusal comes from, or '' where none is known."""
    if family in _TALKING and rule.startswith(("AMK201", "AMK3")):
        return _ONE_ORDER
    return next((why for code, part, why in _LIMITS if rule == code and re.search(part, message)), "")
