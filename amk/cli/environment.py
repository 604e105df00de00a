"""Every AMK_* variable, in one table: `amk doctor` and docs/cli.md show it."""

from __future__ import annotations

import os

__all__ = ["VARIABLES", "settings", "unknown"]

VARIABLES: dict[str, str] = {
    "AMK_CACHE_DIR": "folder of the cache (default: $XDG_CACHE_HOME/amk, then ~/.cache/amk)",
    "AMK_LOGS": "to standard error: cache (what it finds, keeps, drops), run (executor, copies); by commas",
    "AMK_DUMP_DIR": "folder that gets the CUDA text and the compiler log of everything compiled",
    "AMK_ALWAYS_COMPILE": "1: ignore what the cache holds",
    "AMK_BACKEND": "cpu: run on the CPU executor, even where there is a GPU",
    "AMK_DEBUG": "1: our own faults keep their traceback",
}


def settings() -> dict[str, str | None]:
    """Each variable with its value, or None where it is not set."""
    return {name: os.environ.get(name) for name in VARIABLES}


def unknown() -> list[str]:
    """Variables that look like ours and are none: most likely misspelt."""
    return sorted(name for name in os.environ if name.startswith("AMK_") and name not in VARIABLES)
