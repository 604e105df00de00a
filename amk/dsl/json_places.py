"""Where each value of a JSON text stands, for texts that are known to read: one pass over its marks, no questions."""

from __future__ import annotations

import json
import re

__all__ = ["places"]

_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def places(text: str) -> dict[str, int]:
    """The offset of each value by its JSON pointer, as `json_walk.Walk` finds them."""
    out: dict[str, int] = {}
    outer: list[tuple[str, int, bool]] = []
    base, count, keyed = "", 0, False  # of the object (keyed) or array around: its pointer, and members before
    pointer, awaiting = "", False  # of the next value; whether a key comes before it
    for mark in _MARK.finditer(text):
        at = mark.start()
        first = text[at]
        if first == ":":
            continue
        if first == ",":
            awaiting = keyed
            if not keyed:
                count += 1
                pointer = f"{base}/{count}"
        elif first == "]" or first == "}":
            base, count, keyed = outer.pop()
        elif keyed and awaiting:
            key = mark[0]
            key = json.loads(key) if "\\" in key else key[1:-1]
            pointer, awaiting = f"{base}/{key.replace('~', '~0').replace('/', '~1')}", False
        else:
            out[pointer] = at
            if first == "[" or first == "{":
                outer.append((base, count, keyed))
                base, count, keyed = pointer, 0, first == "{"
                pointer, awaiting = f"{base}/0", keyed
    return out
