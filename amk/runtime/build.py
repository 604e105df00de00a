"""From a descriptor to a binary: certify, print, compile, check the binary, and keep it under the composite key.

On a hit nothing of this runs, and neither compiler, prover nor templates are imported: the entry holds the binary, its
certificate and its compiler log.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from amk.dsl.kernel import KernelDescriptor
from amk.dsl.occupancy import max_registers
from amk.dsl.registers import assumed_registers, estimate_registers, has_budgets
from amk.dsl.target import Target
from amk.synth.cache import Cache, CacheKey, Entry

__all__ = ["Binary", "binary_of", "default_cache", "key_of", "rebuilt"]

_COUNTS = ("registers", "estimated_registers", "assumed_registers", "spill_bytes")  # of a thread, in an entry's meta


@dataclass(frozen=True, slots=True)
class Binary:
    """A certified kernel's machine code, with what the compiler and the certificate say of it.

    Registers of a thread: `registers` compiled, `estimated_registers` expected from liveness, `assumed_registers` the
    estimate with its margin, which the certificate's occupancy stands on; `warnings` say where the binary exceeds it.
    """

    kernel: KernelDescriptor
    target: Target
    cubin: bytes
    source: str
    log: str
    certificate: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    hit: bool
    estimated_registers: int = 0
    assumed_registers: int = 0
    warnings: tuple[str, ...] = ()
    checked: bool = False  # each access stands behind a test
    instead_of: str = ""  # what the driver said of the binary in the cache that this one was made to replace


@lru_cache(maxsize=1)
def default_cache() -> Cache:
    """The cache of this process."""
    return Cache()


def key_of(kernel: KernelDescriptor, target: Target, *, checked: bool = False) -> CacheKey:
    """Every input of the binary, as one key."""
    from amk.synth.compile import FLAGS, toolkit_version
    from amk.synth.fingerprint import harness_hash, template_hash

    agent = kernel.origin.agent if kernel.origin else ""
    return CacheKey(
        descriptor=kernel.hash, target=target.architecture.name, device_name=target.name, agent=agent,
        toolkit=toolkit_version(), flags=FLAGS, templates=template_hash(), harness=harness_hash(),
        driver=target.driver or "none", form="checked" if checked else "plain",
    )  # fmt: skip


def binary_of(kernel: KernelDescriptor, target: Target, cache: Cache | None = None, *, checked: bool = False) -> Binary:
    """The binary for a target, from the cache or made now. Raises Refused, CompileError or EnvironmentProblem."""
    store = cache or default_cache()
    key = key_of(kernel, target, checked=checked)
    entry, hit = store.get_or_make(key, lambda: _make(kernel, target, checked=checked))
    warned = entry.meta.get("warnings")
    counts: dict[str, Any] = {n: int(str(entry.meta.get(n, 0))) for n in _COUNTS}
    return Binary(
        kernel, target, entry.cubin, entry.source, entry.log, entry.certificate, shared_bytes=kernel.shared_bytes,
        hit=hit, checked=checked, warnings=tuple(map(str, warned)) if isinstance(warned, list) else (), **counts,
    )  # fmt: skip


def rebuilt(refused: Binary, why: str, cache: Cache | None = None) -> Binary:
    """The binary made again, after the driver refused the one that the cache held. Raises as `binary_of` does."""
    store = cache or default_cache()
    key = key_of(refused.kernel, refused.target, checked=refused.checked)
    store.discard(key, why, cubin=refused.cubin)
    made = binary_of(refused.kernel, refused.target, store, checked=refused.checked)
    return replace(made, hit=False, instead_of=why)


def _make(kernel: KernelDescriptor, target: Target, *, checked: bool = False) -> Entry:
    from amk.harness.certify import certify
    from amk.runtime.meaning import meaning_of
    from amk.synth.compile import compile_cubin, verify_binary
    from amk.synth.render import render

    certificate = certify(kernel, target, reference=meaning_of(kernel))
    source = render(certificate, checked=checked)
    arch = target.architecture
    made = compile_cubin(source.text, arch.name, name=source.name)
    _dump(f"{source.name}-checked" if checked else source.name, kernel.hash, source.text, made.log)
    assumed, spilled = assumed_registers(kernel, target), made.spill_stores + made.spill_loads
    warnings = verify_binary(
        made, max_registers=max_registers(target, kernel.threads, kernel.min_blocks),
        # tests take registers, and a checked build is not there for its speed
        max_shared_bytes=arch.shared_optin, max_spill_bytes=spilled if checked else kernel.spill_bytes,
        threads=kernel.threads,
        regs_per_sm=arch.registers_per_sm, blocks_per_sm=kernel.min_blocks, dynamic_shared_bytes=kernel.shared_bytes,
        assumed_registers=None if checked else assumed, target=target, role_registers=has_budgets(kernel),
    )  # fmt: skip
    meta = {
        "registers": made.resources.registers, "spill_bytes": spilled,
        "estimated_registers": estimate_registers(kernel, target), "assumed_registers": assumed,
        "warnings": list(warnings),
        "toolkit": made.toolkit, "kernel": kernel.name,
    }  # fmt: skip
    return Entry(made.cubin, source.text, made.log, certificate.to_json(), json.loads(json.dumps(meta)))


def _dump(name: str, digest: str, text: str, log: str) -> None:
    """AMK_DUMP_DIR keeps the text and the compiler's log of everything compiled."""
    folder = os.environ.get("AMK_DUMP_DIR")
    if folder:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{name}-{digest[:12]}.cu").write_text(text)
        (path / f"{name}-{digest[:12]}.log").write_text(log)
