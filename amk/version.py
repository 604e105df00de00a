"""The version of amk, for whoever may not import the package's public names."""

from __future__ import annotations

__version__ = "0.1.0"
