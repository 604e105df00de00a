"""The GPU of this machine as a Target: what its driver says, and what only its data sheet knows."""

from __future__ import annotations

from amk.dsl.source import escape
from amk.dsl.target import Architecture, Target, architectures, devices, squash
from amk.errors import EnvironmentProblem

__all__ = ["detect"]


def detect(index: int = 0) -> Target:
    """The GPU number `index` of this machine."""
    return _from_device(*_device(index))


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
    architecture = next((a for a in architectures().values() if a.compute_capability == capability), None)
    name = "".join(c for c in str(getattr(found, "name", "")) if c.isascii() and (c.isalnum() or c in " ._+()/-"))[:64]
    if architecture is None:
        known = ", ".join(architectures())
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
    for known in devices():
        same = squash(name).startswith(squash(known.name)) and known.architecture == architecture and known.sms == sms
        if same and memory and known.memory_bytes and abs(memory - known.memory_bytes) * 10 <= known.memory_bytes:
            return known
    return None
