"""What ptxas says of a kernel beside its counts: the numbered remarks in the compiler's log, sorted by what they mean.

In: a log of NVRTC or nvcc. Out: one `Advisory` for each different remark. The numbers are not documented; what follows
was provoked with the ptxas of CUDA 13.0 and 13.5 (tests/synth/test_advisories.py):
C7508         setmaxnreg has no effect: no launch bound with a minimum of blocks tells the registers at entry
C7510, C7511, C7514, C7515   wgmma instructions wait for each other: a pipeline that crosses a call, too few registers,
              accumulators that are read, or written, between the start and the wait
C7517, C7519  the compiler put in a wait for wgmma, or a fence before it, that the text does not have there
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

__all__ = ["Advisory", "advisories"]

Kind = Literal["registers", "serialised", "injected", "other"]
_REMARK = re.compile(r"^\s*ptxas\s+(?:info|warning)\s*:\s*\((C\d{4})\)\s*(?:Potential Performance Loss:\s*)?(.*\S)\s*$")
_WHERE = re.compile(r"\s+in (?:the )?function '[^']*'(?: in line \d+)?|\s+in around line \d+|\s+in line \d+")
_KINDS: dict[str, Kind] = {
    "'setmaxnreg' ignored": "registers", "are serialized": "serialised", "is injected": "injected",
}  # fmt: skip
MOST = 100  # remarks that are kept


class Advisory(NamedTuple):
    """A remark: its number, what it means, and its text without the place in the generated code."""

    code: str
    kind: Kind
    text: str


def advisories(log: str) -> tuple[Advisory, ...]:
    """Every different remark, in the order of the log."""
    found: dict[Advisory, None] = {}
    for line in log.splitlines():
        if (said := _REMARK.match(line)) and len(found) < MOST:
            kind: Kind = next((k for words, k in _KINDS.items() if words in said[2]), "other")
            found[Advisory(said[1], kind, re.sub(r"\s+", " ", _WHERE.sub("", said[2])).rstrip("."))] = None
    return tuple(found)
