"""The summary of a campaign: counts by family, bounds of the rates, and what somebody has to look at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Any

from amk.harness.explained import explanation
from amk.harness.judge import OUTCOMES
from amk.harness.soundness import Record

__all__ = ["exit_code", "summary", "wilson"]

# What a message says of one mutant alone: names, numbers and terms in quotation marks.
_SPECIAL = re.compile(r"'[^']*'|`[^`]*`|\w+\[.*?\](?=[ ,.:;]|$)|\b\w* ?= ?-?\d+|-?\b\d[\d,]*\b")
_WHOLE = ("false accept", "checker failed", "interpreter failed", "timed out")
_GROUPED = ("false reject", "undecided", "outside")
_Z = 1.959964  # of a two-sided interval of 95 %


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Lower and upper bound of a rate at 95 %, by Wilson's score; (0, 1) of nothing."""
    if not of:
        return 0.0, 1.0
    rate, z2 = hits / of, _Z * _Z
    middle = (rate + z2 / (2 * of)) / (1 + z2 / of)
    spread = _Z / (1 + z2 / of) * sqrt(rate * (1 - rate) / of + z2 / (4 * of * of))
    return max(0.0, middle - spread), min(1.0, middle + spread)


def exit_code(records: Iterable[Record]) -> int:
    """4 for a fault of ours, 1 for a false accept, else 0."""
    outcomes = {r["outcome"] for r in records}
    return 4 if "checker failed" in outcomes else 1 if "false accept" in outcomes else 0


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """JSON data: everything that was counted, and each finding whole."""
    families = sorted({r["family"] for r in records})
    return {
        **_counts(records), "exit_code": exit_code(records), "rates": _rates(records),
        "families": {f: _counts([r for r in records if r["family"] == f]) for f in families},
        "caught_by": dict(Counter(r["rule"] for r in records if r["outcome"] == "caught").most_common()),
        "findings": {
            **{o.replace(" ", "_"): _of(records, o) for o in _WHOLE},
            **{o.replace(" ", "_"): reasons(_of(records, o)) for o in _GROUPED},
        },
    }  # fmt: skip


def _of(records: Sequence[Record], outcome: str) -> list[Record]:
    return [r for r in records if r["outcome"] == outcome]


def _counts(records: Sequence[Record]) -> dict[str, Any]:
    outcomes = Counter(r["outcome"] for r in records)
    spent = sorted(r["seconds"] for r in records)
    return {
        "mutants": len(records), "distinct": len({r["hash"] for r in records}),
        "faulty": sum(1 for r in records if r.get("fault")),
        "replayed": sum(1 for r in records if r.get("replayed")),
        "other_results": sum(1 for r in records if r.get("other_results")),
        **{o.replace(" ", "_"): outcomes[o] for o in OUTCOMES},
        "seconds": {"all": round(sum(spent), 1), "median": spent[len(spent) // 2] if spent else 0.0,
                    "most": spent[-1] if spent else 0.0},
    }  # fmt: skip


def _rates(records: Sequence[Record]) -> dict[str, Any]:
    faulty = sum(1 for r in records if r.get("fault"))
    hits = {
        "faulty": (faulty, len(records)), "false_accepts_of_faulty": (len(_of(records, "false accept")), faulty),
        "false_rejects": (len(_of(records, "false reject")), len(records)),
        "undecided": (len(_of(records, "undecided")), len(records)),
        "outside": (len(_of(records, "outside")), len(records)),
    }  # fmt: skip
    return {
        name: {"count": n, "of": of, "rate": round(n / of, 6) if of else 0.0,
               "wilson_95": [round(b, 6) for b in wilson(n, of)]}
        for name, (n, of) in hits.items()
    }  # fmt: skip


def reasons(records: Sequence[Record]) -> dict[str, Any]:
    """Refusals that no run bears out: those of one reason together, the most frequent first, each with its seeds."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for r in records:
        said = _SPECIAL.sub("..", r.get("message", ""))
        rule = r.get("rule", "")
        groups.setdefault((rule, said, explanation(rule, r.get("message", ""), r["family"])), []).append(r)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return {
        "count": len(records), "unexplained": sum(len(found) for (_, _, why), found in ordered if not why),
        "by_reason": [
            {"rule": rule, "reason": said, "why": why, "count": len(found), "families": dict(
                Counter(r["family"] for r in found)), "seeds": [r["seed"] for r in found]}
            for (rule, said, why), found in ordered
        ],
    }  # fmt: skip
