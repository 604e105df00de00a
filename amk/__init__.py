"""amk: generated GPU kernels that come with a proof. The public names, imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from amk.version import __version__

_HOME = {
    "AmkError": "amk.errors",
    "AutoMegaKernelGEMM": "amk.api",
    "KernelBuilder": "amk.dsl.builder",
    "KernelDescriptor": "amk.dsl.kernel",
    "Target": "amk.dsl.target",
    "build": "amk.api",
    "certify": "amk.api",
    "check": "amk.harness.check",
    "compile": "amk.api",
    "load": "amk.dsl.kernel",
}
__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'amk' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
