"""Text of unknown origin as text that is safe to print: it cannot drive a terminal or reorder what stands beside it."""

from __future__ import annotations

import re

__all__ = ["escape"]

_TERMINAL = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles and links
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours and cursor movement
    r"|\x1b[ -/]*[0-~]?"
)
_BREAKS = re.compile("[\t\n\r\x0b\x0c\x85\u2028\u2029]+")
# Besides controls: marks that reorder or hide text on a screen, and halves of surrogate pairs, which no stream encodes.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def escape(text: str, limit: int = 80) -> str:
    """`text` for a message: no control characters or terminal sequences, one line, at most `limit` characters."""
    head = _TERMINAL.sub("", text[: 8 * limit])
    clean = _UNPRINTABLE.sub("", _BREAKS.sub(" ", head))
    if len(clean) > limit or len(text) > 8 * limit:
        return clean[: max(limit - 1, 0)] + "…"
    return clean
