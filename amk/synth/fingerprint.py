"""What decides how a kernel is printed, and how it is checked, as digests: parts of every cache key.

Apart from the printer and the checker, so that a cache hit asks for the digests without importing either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

__all__ = ["harness_hash", "template_hash"]

_AMK = Path(__file__).parent.parent
_PRINTER = ("render", "print_*", "fault_record", "passes")
_PRINTED = ("synth/templates/**/*.j2", "synth/prelude/*.cuh", *(f"synth/{name}.py" for name in _PRINTER))
_CHECKED = ("harness/**/*.py", "dsl/**/*.py", "dsl/*.json", "ops/*.py", "runtime/meaning.py")


@lru_cache(maxsize=1)
def template_hash() -> str:
    """Hex digest of all that decides how a kernel is printed: templates, prelude and the printer itself."""
    return _digest(_PRINTED)


@lru_cache(maxsize=1)
def harness_hash() -> str:
    """Hex digest of all that decides whether a kernel gets a certificate, so that a mended checker proves anew."""
    return _digest(_CHECKED)


def _digest(patterns: Iterable[str]) -> str:
    out = hashlib.sha256()
    files = {path for pattern in patterns for path in _AMK.glob(pattern)}
    for path in sorted(files, key=lambda p: p.relative_to(_AMK).as_posix()):
        data = path.read_bytes().replace(b"\r\n", b"\n")
        out.update(f"{path.relative_to(_AMK).as_posix()} {len(data)}\n".encode() + data)
    return out.hexdigest()
