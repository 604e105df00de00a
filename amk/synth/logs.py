"""The loggers of the library, and AMK_LOGS: which of them are printed where the program set up no logging of its own.

AMK_LOGS=cache,run prints both on standard error; other words are ignored. `cache`: what the cache finds, keeps and
drops. `run`: which executor a call ran on, and what was copied for it.
"""

from __future__ import annotations

import logging
import os

__all__ = ["CACHE", "RUN", "listen"]

CACHE, RUN = logging.getLogger("amk.cache"), logging.getLogger("amk.run")
for _log in (CACHE, RUN):
    _log.addHandler(logging.NullHandler())  # else Python itself prints what is said as a warning already


def listen() -> None:
    """Prints the loggers that AMK_LOGS names, unless the program listens already."""
    asked = os.environ.get("AMK_LOGS", "")
    for log in (CACHE, RUN) if asked else ():
        if log.name.removeprefix("amk.") in asked.split(",") and not _heard(log):
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
            log.addHandler(handler)
            log.setLevel(logging.INFO)


def _heard(log: logging.Logger) -> bool:
    handlers = [handler for name in ("", "amk", log.name) for handler in logging.getLogger(name).handlers]
    return any(not isinstance(handler, logging.NullHandler) for handler in handlers)
