"""The GPU as data: what an architecture allows, and what one device has.

In: a name (`sm_90a`, `h200`), a target file, or the GPU of this machine. Out: a frozen `Target`.

The figures, each with its source, stand in `devices.json`, which is ours and is taken as it is; a target file is not,
and `target_file` validates it.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, Literal

from amk.dsl.record import record
from amk.errors import InputError

__all__ = ["Architecture", "Feature", "Target", "architectures", "devices", "squash"]

Feature = Literal[
    "cluster", "cp.async", "ldmatrix", "mbarrier", "mma", "mma.fp8", "multicast", "setmaxnreg", "stmatrix", "tcgen05",
    "tma", "wgmma",
]  # fmt: skip

# Other spellings of an architecture. A kernel for sm_90 may use what sm_90a has, since every 9.0 device runs sm_90a.
ALIASES = {"sm90": "sm_90a", "sm100": "sm_100a", "sm120a": "sm_120"}


@record(frozen=True)
class Architecture:
    """What every device of one architecture allows; bytes, threads and 32-bit registers."""

    name: str
    compute_capability: tuple[int, int]
    threads_per_sm: int
    warps_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int
    shared_optin: int  # most that one block may have, after raising the kernel's limit
    fp32_lanes: int  # per SM
    max_cluster: int  # blocks; the portable maximum
    features: frozenset[Feature]
    sources: tuple[str, ...]
    # The same on all of them (CUDA C++ Programming Guide, Technical Specifications per Compute Capability):
    max_threads_per_block: int = 1024
    max_block_dim: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    registers_per_sm: int = 65536
    max_registers_per_thread: int = 255
    shared_static_limit: int = 49152
    named_barriers: int = 16  # PTX ISA, bar.sync: 0 to 15
    # Allocation (cuda_occupancy.h): registers go to warps in lumps, warps to 4 sub-partitions, 1 KiB is the system's.
    register_allocation_unit: int = 256
    warp_allocation_granularity: int = 4
    shared_allocation_unit: int = 128
    shared_reserved_per_block: int = 1024


@record(frozen=True)
class Target:
    """An architecture, and what is known of the device; None: unknown."""

    name: str
    architecture: Architecture
    sms: int | None = None
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    bandwidth: int | None = None  # bytes a second, of the data sheet
    clock_hz: int | None = None  # boost
    driver: str | None = None
    source: str = ""

    @property
    def fp32_flops(self) -> int | None:
        """Peak of plain FP32, operations a second: one multiply and one add per lane and cycle at boost clock."""
        return 2 * self.sms * self.architecture.fp32_lanes * self.clock_hz if self.sms and self.clock_hz else None

    def has(self, feature: Feature) -> bool:
        return feature in self.architecture.features

    def to_dict(self) -> dict[str, Any]:
        """JSON data: the architecture by its name, unknown facts left out."""
        facts = {n: v for n, v in vars(self).items() if v is not None}
        return {"format": 1, **facts, "architecture": self.architecture.name}

    def dumps(self) -> str:
        """The target as JSON text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @staticmethod
    def all() -> tuple[Target, ...]:
        """Every architecture, then every known device."""
        return (*map(_bare, architectures().values()), *devices())

    @staticmethod
    def find(name: str) -> Target:
        """The target called `name`: an architecture (sm_90 means sm_90a) or a device, in any case and spacing."""
        if name in architectures():
            return _bare(architectures()[name])
        key = squash(name[:200])
        known = {squash(t.name): t for t in Target.all()}
        return known.get(key) or known.get(squash(ALIASES.get(key, ""))) or _unknown(name, key, known)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Target:
        """Reads a target file, as `save` writes it."""
        from amk.dsl.target_file import load

        return load(path)

    @staticmethod
    def loads(text: str | bytes, *, name: str = "<input>") -> Target:
        """As `load`, from text."""
        from amk.dsl.target_file import loads

        return loads(text, name=name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a target file; a reader never sees half of one."""
        from amk.dsl.target_file import save

        save(self, path)

    @staticmethod
    def detect(index: int = 0) -> Target:
        """The GPU number `index` of this machine."""
        from amk.dsl.detect import detect

        return detect(index)


def _bare(a: Architecture) -> Target:
    return Target(a.name, a, source="; ".join(a.sources)[:400])


def _unknown(name: str, key: str, known: dict[str, Target]) -> Target:
    import difflib

    from amk.dsl.source import escape

    close = difflib.get_close_matches(key, known, 1, 0.5)
    hint = f"{known[close[0]].name}?" if close else "amk targets"
    names = ", ".join(t.name for t in known.values())
    raise InputError(f'no target is called "{escape(name)}"; known: {names}', hint=hint)


@lru_cache(maxsize=1)
def _catalogue() -> dict[str, Any]:
    # Beside this file in every wheel; importlib.resources alone would cost a twentieth of a whole `amk check`.
    with open(os.path.join(os.path.dirname(__file__), "devices.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@lru_cache(maxsize=1)
def architectures() -> dict[str, Architecture]:
    """Every architecture by its name."""
    return {row["name"]: Architecture(**_frozen(row)) for row in _catalogue()["architectures"]}


@lru_cache(maxsize=1)
def devices() -> tuple[Target, ...]:
    """Every known device."""
    rows = _catalogue()["targets"]
    return tuple(Target(**{**row, "architecture": architectures()[row["architecture"]]}) for row in rows)


def _frozen(row: dict[str, Any]) -> dict[str, Any]:
    """JSON lists as what `Architecture` holds."""
    out = {n: tuple(v) if isinstance(v, list) else v for n, v in row.items()}
    return {**out, "features": frozenset(row["features"])}


def squash(name: str) -> str:
    """Lower case without spaces, dashes and makers' words: "NVIDIA GeForce RTX 4060 Ti" is rtx4060ti."""
    words = name.casefold().replace("-", " ").replace("_", " ").split()
    return "".join(word for word in words if word not in ("nvidia", "geforce", "tesla"))
