"""The GPU as data: what an architecture allows, what one device has, and how many blocks of a kernel fit on an SM.

In: a name (`sm_90a`, `h200`), a target file, or the GPU of this machine. Out: a frozen `Target`, and exact integer
answers about it (`occupancy`, `allocated_registers`, `max_registers`, `allocated_shared`).

The figures, each with its source, stand in `devices.json`. The occupancy formula is NVIDIA's (cuda_occupancy.h of the
CUDA toolkit); it gave the driver's own answer at all 25,092 points tried on an H200 (13 register counts, 34 block
sizes, 18 sizes of shared memory; driver 580.159.04).
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator, model_validator

from amk.dsl.source import JSON, escape, raise_at, read_object
from amk.errors import EnvironmentProblem, InputError

__all__ = [
    "Architecture", "Feature", "Limit", "Occupancy", "Target", "allocated_registers", "allocated_shared",
    "max_registers", "occupancy",
]  # fmt: skip

WARP = 32
MAX_FILE_BYTES = 65536  # of a target file

Feature = Literal[
    "cluster", "cp.async", "ldmatrix", "mbarrier", "mma", "mma.fp8", "multicast", "setmaxnreg", "stmatrix", "tcgen05",
    "tma", "wgmma",
]  # fmt: skip
Limit = Literal["warps", "registers", "shared", "blocks"]
Count = Annotated[int, Field(strict=True, ge=1, le=(1 << 63) - 1)]
Text = Annotated[str, Field(strict=True, max_length=400, pattern=r"^[ -~]*$")]

# Other spellings of an architecture. A kernel for sm_90 may use what sm_90a has, since every 9.0 device runs sm_90a.
ALIASES = {"sm90": "sm_90a", "sm100": "sm_100a", "sm120a": "sm_120"}


class Architecture(BaseModel):
    """What every device of one architecture allows; bytes, threads and 32-bit registers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    compute_capability: tuple[int, int]
    threads_per_sm: Count
    warps_per_sm: Count
    blocks_per_sm: Count
    shared_per_sm: Count
    shared_optin: Count  # most that one block may have, after raising the kernel's limit
    fp32_lanes: Count  # per SM
    max_cluster: Count  # blocks; the portable maximum
    features: frozenset[Feature]
    sources: tuple[str, ...]
    # The same on all of them (CUDA C++ Programming Guide, Technical Specifications per Compute Capability):
    max_threads_per_block: Count = 1024
    max_block_dim: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    registers_per_sm: Count = 65536
    max_registers_per_thread: Count = 255
    shared_static_limit: Count = 49152
    named_barriers: Count = 16  # PTX ISA, bar.sync: 0 to 15
    # Allocation (cuda_occupancy.h): registers go to warps in lumps, warps to 4 sub-partitions, 1 KiB is the system's.
    register_allocation_unit: Count = 256
    warp_allocation_granularity: Count = 4
    shared_allocation_unit: Count = 128
    shared_reserved_per_block: Count = 1024


class Target(BaseModel):
    """An architecture, and what is known of the device; None: unknown. In JSON the architecture is its name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    name: Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+()/-]{0,63}$")]
    architecture: Architecture
    sms: Count | None = None
    l2_bytes: Count | None = None
    memory_bytes: Count | None = None
    bandwidth: Count | None = None  # bytes a second, of the data sheet
    clock_hz: Count | None = None  # boost
    driver: Annotated[str, Field(strict=True, pattern=r"^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$")] | None = None
    source: Text = ""

    @field_validator("architecture", mode="before")
    @classmethod
    def _known_architecture(cls, value: object) -> object:
        if isinstance(value, Architecture):
            return value
        found = _architectures().get(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"unknown architecture; known: {', '.join(_architectures())}")
        return found

    @model_validator(mode="before")
    @classmethod
    def _strict_format(cls, data: object) -> object:
        # Literal[1] alone would take true and 1.0.
        if isinstance(data, dict) and type(data.get("format", 1)) is not int:
            raise ValueError("format must be the integer 1")
        return data

    @field_serializer("architecture")
    def _architecture_name(self, value: Architecture) -> str:
        return value.name

    @property
    def fp32_flops(self) -> int | None:
        """Peak of plain FP32, operations a second: one multiply and one add per lane and cycle at boost clock."""
        return 2 * self.sms * self.architecture.fp32_lanes * self.clock_hz if self.sms and self.clock_hz else None

    def has(self, feature: Feature) -> bool:
        return feature in self.architecture.features

    @staticmethod
    def all() -> tuple[Target, ...]:
        """Every architecture, then every known device."""
        bare = (
            Target(name=a.name, architecture=a, source="; ".join(a.sources)[:400]) for a in _architectures().values()
        )
        return (*bare, *_devices())

    @staticmethod
    def find(name: str) -> Target:
        """The target called `name`: an architecture (sm_90 means sm_90a) or a device, in any case and spacing."""
        key = _squash(name[:200])
        known = {_squash(t.name): t for t in Target.all()}
        if found := known.get(key) or known.get(_squash(ALIASES.get(key, ""))):
            return found
        close = difflib.get_close_matches(key, known, 1, 0.5)
        hint = f"{known[close[0]].name}?" if close else "amk targets"
        names = ", ".join(t.name for t in known.values())
        raise InputError(f'no target is called "{escape(name)}"; known: {names}', hint=hint)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Target:
        """Reads a target file, as `save` writes it."""
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            message = f"cannot read the target file {escape(os.fspath(path), 300)}: {what}"
            raise InputError(message, hint="amk targets --detect writes one") from None
        if len(data) > MAX_FILE_BYTES:
            raise InputError(
                f"the target file {escape(os.fspath(path), 300)} is larger than {MAX_FILE_BYTES} bytes",
                hint="amk targets --detect writes one",
            )
        return Target.loads(data, name=os.fspath(path))

    @staticmethod
    def loads(text: str | bytes, *, name: str = "<input>") -> Target:
        """As `load`, from text."""
        data = read_object(text, name=name)
        decoded = text.decode() if isinstance(text, bytes) else text
        try:
            return Target.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            keys = [str(part).replace("~", "~0").replace("/", "~1") for part in first["loc"]]
            pointer = "".join(f"/{key}" for key in keys)
            message = f"{escape(pointer) or 'the target'}: {escape(first['msg'], 300)}"
            raise_at(decoded, pointer, message, hint="compare with: amk targets h200 --json", name=name)

    def dumps(self) -> str:
        """The target as JSON text; unknown facts are left out."""
        return json.dumps(self.model_dump(exclude_none=True), indent=2) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a target file; a reader never sees half of one."""
        place = Path(path)
        try:
            _write_whole(place, self.dumps())
        except OSError as error:
            message = f"cannot write {escape(str(place), 300)}: {error.strerror}"
            raise EnvironmentProblem(message, hint="choose a folder that exists and can be written") from None

    @staticmethod
    def detect(index: int = 0) -> Target:
        """The GPU number `index` of this machine."""
        return _from_device(*_device(index))


def _write_whole(place: Path, text: str) -> None:
    handle, aside = tempfile.mkstemp(dir=place.parent, prefix=".amk-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(aside, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


@lru_cache(maxsize=1)
def _catalogue() -> dict[str, JSON]:
    return read_object(files("amk.dsl").joinpath("devices.json").read_bytes(), name="devices.json")


@lru_cache(maxsize=1)
def _architectures() -> dict[str, Architecture]:
    rows = _catalogue()["architectures"]
    assert isinstance(rows, list)
    return {a.name: a for a in map(Architecture.model_validate, rows)}


@lru_cache(maxsize=1)
def _devices() -> tuple[Target, ...]:
    rows = _catalogue()["targets"]
    assert isinstance(rows, list)
    return tuple(map(Target.model_validate, rows))


def _squash(name: str) -> str:
    """Lower case without spaces, dashes and makers' words: "NVIDIA GeForce RTX 4060 Ti" is rtx4060ti."""
    words = name.casefold().replace("-", " ").replace("_", " ").split()
    return "".join(word for word in words if word not in ("nvidia", "geforce", "tesla"))


def _device(index: int) -> tuple[object, str | None]:
    """What the driver says of a GPU, and the driver's version."""
    try:
        from amk.runtime.device import device, probe
    except ImportError as error:
        message = f"the GPU of this machine cannot be asked: {escape(str(error), 200)}"
        raise EnvironmentProblem(message, hint="name the target, as in --target h200, or see: amk doctor") from None
    found: object = device(index)
    if found is None:
        raise EnvironmentProblem(
            "no GPU is visible here", hint="name the target, as in --target h200, or see: amk doctor"
        )
    return found, probe().driver


def _from_device(found: object, driver: str | None) -> Target:
    """Narrow adapter from what the driver says; the data sheet adds the bandwidth, which no driver tells."""
    capability = getattr(found, "compute_capability", None)
    architecture = next((a for a in _architectures().values() if a.compute_capability == capability), None)
    name = "".join(c for c in str(getattr(found, "name", "")) if c.isascii() and (c.isalnum() or c in " ._+()/-"))[:64]
    if architecture is None:
        known = ", ".join(_architectures())
        message = f"{name or 'this GPU'} has compute capability {escape(str(capability))}; known architectures: {known}"
        raise EnvironmentProblem(message, hint="name a known target for checking, as in --target sm_90a")
    optin = _fact(found, "shared_optin_bytes")
    if optin is not None and optin < architecture.shared_optin:
        message = (
            f"{name} gives a block {optin} bytes of shared memory; {architecture.name} has {architecture.shared_optin}"
        )
        raise EnvironmentProblem(message, hint="the driver restricts this GPU; use another one")
    sms, memory, clock = _fact(found, "sm_count"), _fact(found, "memory_bytes"), _fact(found, "clock_mhz")
    sheet = _data_sheet(name, architecture, sms, memory)
    return Target(
        name=sheet.name if sheet else name.strip() or architecture.name, architecture=architecture, sms=sms,
        l2_bytes=_fact(found, "l2_bytes"), memory_bytes=memory, bandwidth=sheet.bandwidth if sheet else None,
        clock_hz=clock * 1_000_000 if clock else None, driver=driver,
        source=f"the driver's answers for {name}" + (f"; bandwidth of {sheet.name}" if sheet else ""),
    )  # fmt: skip


def _fact(found: object, name: str) -> int | None:
    value = getattr(found, name, None)
    return int(value) if isinstance(value, (int, float)) and value >= 1 else None


def _data_sheet(name: str, architecture: Architecture, sms: int | None, memory: int | None) -> Target | None:
    """The known device that this one is: same name up to the board's suffix, same SMs, memory within 10 %."""
    for known in _devices():
        same = _squash(name).startswith(_squash(known.name)) and known.architecture == architecture and known.sms == sms
        if same and memory and known.memory_bytes and abs(memory - known.memory_bytes) * 10 <= known.memory_bytes:
            return known
    return None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident blocks and warps of one SM. With 0 blocks, `limited_by` is what a single block exceeds."""

    blocks_per_sm: int
    warps: int
    fraction: float
    limited_by: Limit


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _machine(target: Target | Architecture) -> Architecture:
    return target.architecture if isinstance(target, Target) else target


def _per_warp(machine: Architecture, registers: int) -> int:
    return _up(registers * WARP, machine.register_allocation_unit)


def allocated_registers(target: Target | Architecture, threads: int, registers: int) -> int:
    """Registers that the launch check counts for one block: lumps per warp, warps in groups of sub-partitions."""
    machine = _machine(target)
    return _per_warp(machine, registers) * _up(_up(threads, WARP) // WARP, machine.warp_allocation_granularity)


def allocated_shared(target: Target | Architecture, shared_bytes: int) -> int:
    """Bytes of an SM's shared memory that one block takes, the system's share included."""
    machine = _machine(target)
    return _up(shared_bytes + machine.shared_reserved_per_block, machine.shared_allocation_unit)


def max_registers(target: Target | Architecture, threads: int, blocks: int = 1) -> int:
    """The most registers per thread with which `blocks` blocks of `threads` threads still fit on an SM; 0: none do."""
    top = _machine(target).max_registers_per_thread
    return next((r for r in range(top, 0, -1) if occupancy(target, threads, r, 0).blocks_per_sm >= blocks), 0)


def occupancy(target: Target | Architecture, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """How many blocks run on an SM at once: exactly what cuOccupancyMaxActiveBlocksPerMultiprocessor answers.

    `registers` per thread (0: unknown, no limit), `shared_bytes` static plus dynamic of one block.
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise InputError(f"no block has {threads} threads, {registers} registers and {shared_bytes} bytes")
    machine, warps = _machine(target), _up(threads, WARP) // WARP
    fits: dict[Limit, int] = {
        "warps": machine.warps_per_sm // warps if threads <= machine.max_threads_per_block else 0,
        "registers": _blocks_by_registers(machine, threads, registers),
        "shared": machine.shared_per_sm // allocated_shared(machine, shared_bytes),
        "blocks": machine.blocks_per_sm,
    }
    if shared_bytes > machine.shared_optin:
        fits["shared"] = 0
    limit = min(fits, key=lambda each: fits[each])
    resident = fits[limit] * warps
    return Occupancy(fits[limit], resident, resident / machine.warps_per_sm, limit)


def _blocks_by_registers(machine: Architecture, threads: int, registers: int) -> int:
    if registers > machine.max_registers_per_thread:
        return 0
    if registers == 0:
        return machine.blocks_per_sm
    if allocated_registers(machine, threads, registers) > machine.registers_per_sm:
        return 0
    # Each sub-partition has its own part of the file, so warps do not share what is left over.
    parts = machine.warp_allocation_granularity
    warps = machine.registers_per_sm // parts // _per_warp(machine, registers) * parts
    return warps // (_up(threads, WARP) // WARP)
