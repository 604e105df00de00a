"""What the cache tells the user: warnings for a folder it cannot use and for damage."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

from amk.synth.logs import CACHE

__all__ = ["CacheWarning", "warn", "warn_fallback"]

_SETTING = "set AMK_CACHE_DIR to a folder that only you can write"
_fallback = threading.Lock()  # taken once, for good, by the one warning of this process about the folder


class CacheWarning(UserWarning):
    """The cache had to do without its folder, or found a damaged entry. Results stay right."""


def warn(text: str) -> None:
    """Say it as a warning, and in the log for those who turned warnings off."""
    CACHE.warning("%s", text)
    warnings.warn(text, CacheWarning, stacklevel=2)


def warn_fallback(folder: Path | None, error: OSError) -> None:
    """Say that kernels stay in memory, naming folder, reason and setting; once in a process, whatever the reason."""
    if _fallback.acquire(blocking=False):
        where, why = folder or "~/.cache/amk", error.strerror or error
        warn(f"the cache folder {where} cannot be used ({why}): kernels are kept in memory; {_SETTING}")
