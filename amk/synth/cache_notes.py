"""What the cache tells the user: log lines for hits and misses, warnings for a folder it cannot use and for damage."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from pathlib import Path

__all__ = ["CacheWarning", "log", "log_to_stderr_if_asked", "warn", "warn_fallback"]

log = logging.getLogger("amk.cache")
log.addHandler(logging.NullHandler())  # else Python itself prints what is already said as a warning
_SETTING = "set AMK_CACHE_DIR to a folder that only you can write"
_fallback = threading.Lock()  # taken once, for good, by the one warning of this process about the folder


class CacheWarning(UserWarning):
    """The cache had to do without its folder, or found a damaged entry. Results stay right."""


def warn(text: str) -> None:
    """Say it as a warning, and in the log for those who turned warnings off."""
    log.warning("%s", text)
    warnings.warn(text, CacheWarning, stacklevel=2)


def warn_fallback(folder: Path | None, error: OSError) -> None:
    """Say that kernels stay in memory, naming folder, reason and setting; once in a process, whatever the reason."""
    if _fallback.acquire(blocking=False):
        where, why = folder or "~/.cache/amk", error.strerror or error
        warn(f"the cache folder {where} cannot be used ({why}): kernels are kept in memory; {_SETTING}")


def log_to_stderr_if_asked() -> None:
    """AMK_LOGS=cache without a logging set-up of the program's own: lines go to stderr."""
    if "cache" in os.environ.get("AMK_LOGS", "").split(",") and not _heard():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def _heard() -> bool:
    handlers = [handler for name in ("", "amk", "amk.cache") for handler in logging.getLogger(name).handlers]
    return any(not isinstance(handler, logging.NullHandler) for handler in handlers)
