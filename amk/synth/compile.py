"""CUDA text goes in, a cubin for one exact target comes out, with what the compiler and the binary say about it.

Neither a GPU nor a driver is needed. The CUDA modules are imported inside functions: importing this one costs nothing
and works on a machine without them. The text goes straight to machine code, never to PTX, so that no driver has to be
as new as the compiler.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from amk.dsl.occupancy import file_registers, occupancy
from amk.dsl.target import Target
from amk.errors import CompileError, EnvironmentProblem, InputError
from amk.synth.advisories import advisories
from amk.synth.cubin import Resources, read_cubin

__all__ = [
    "FLAGS", "Compiled", "compile_cubin", "fewer_blocks", "stack_note", "supported_targets", "toolkit_version",
    "verify_binary",
]  # fmt: skip

# Every compile gets these, before the caller's. With `__launch_bounds__` the compiler ignores -maxrregcount silently:
# a kernel's text carries the bound, so the option is not here.
# --fmad=false: products and sums round as the IR says.
# --no-cache: NVRTC's own cache answers a hit without the ptxas log.
FLAGS = ("--std=c++17", "-default-device", "--fmad=false", "--no-cache", "--ptxas-options=-v")

_INSTALL = 'pip install "cuda-python>=12.9,<14" "nvidia-cuda-nvrtc>=13.0,<14"'
_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")  # in the order in which cuda.pathfinder prefers them
_TARGET = re.compile(r"sm_([0-9]{2,3})([af]?)", re.ASCII)
_ERROR = re.compile(r"error\s*:|fatal\s*:")
_EXTERN = 'declare it extern "C" __global__, so that its name is not mangled'
_loaded = threading.Event()  # set once the NVRTC library itself has answered


@dataclass(frozen=True, slots=True)
class Compiled:
    """One cubin and its facts.

    Units:  spill_stores and spill_loads in bytes per thread, device functions that were not inlined included;
            seconds of wall clock. `flags` are all options but the target; `toolkit` is the version that did the work.
    """

    cubin: bytes
    log: str
    resources: Resources
    spill_stores: int
    spill_loads: int
    target: str
    toolkit: str
    flags: tuple[str, ...]
    seconds: float


def compile_cubin(source: str, target: str, *, name: str, flags: tuple[str, ...] = ()) -> Compiled:
    """Compile kernel `name` (extern "C") of `source` for exactly `target`, such as "sm_90a".

    Safe from many threads at once; the interpreter lock is released while the compiler works.
    Raises:  CompileError (with the compiler's log) for text it refuses or a binary that contradicts the log;
             InputError for a target it does not know; EnvironmentProblem when NVRTC is not installed
    """
    nvrtc = _nvrtc()
    _require_target(nvrtc, target)
    start = time.perf_counter()
    options = (*FLAGS, *flags)
    cubin, log = _build(nvrtc, source, name, (f"--gpu-architecture={target}", *options))
    resources = _kernel(cubin, name, log)
    stores, loads = _read_log(log, resources)
    seconds = time.perf_counter() - start
    return Compiled(cubin, log, resources, stores, loads, target, toolkit_version(), options, seconds)


def toolkit_version() -> str:
    """The version of NVRTC, such as "13.0.88".

    Until the library is loaded this is what the installed wheel says, so that a cache hit need not load it. If another
    library is loaded after all (one that a framework brought along), `Compiled.toolkit` and later calls name that one.
    Raises:  EnvironmentProblem when there is neither a wheel nor a library
    """
    wheels = _wheel_versions()
    if wheels and not _loaded.is_set():
        return wheels[0]
    major, minor = _ask(_nvrtc().nvrtcVersion())
    return next((v for v in wheels if v.startswith(f"{major}.{minor}.")), f"{major}.{minor}")


def supported_targets() -> tuple[str, ...]:
    """The targets of this NVRTC, lowest first; those from sm_90 on also exist with the suffix `a`."""
    return _targets(_nvrtc())


def verify_binary(
    compiled: Compiled,
    *,
    max_registers: int | None,
    max_shared_bytes: int,
    max_spill_bytes: int,
    threads: int,
    regs_per_sm: int = 65_536,
    blocks_per_sm: int = 1,
    dynamic_shared_bytes: int = 0,
    assumed_registers: int | None = None,
    target: Target | None = None,
    role_registers: bool = False,
) -> tuple[str, ...]:
    """The gate after compilation: the real binary must keep what the certificate assumed.

    Back come warnings about what is slower, not wrong: more registers than were assumed, which cost blocks that were
    promised; stack; remarks of ptxas. With `role_registers` the kernel has register budgets that were proved to fit:
    a compiler that ignores them breaks that.

    Units:   registers per thread; bytes of shared memory per block (static and dynamic together); bytes of spill
             stores and loads per thread, together; threads per block; `blocks_per_sm` that the kernel was bound to
    Raises:  CompileError naming every broken assumption with both of its numbers
    """
    real = compiled.resources
    shared = real.static_shared_bytes + dynamic_shared_bytes
    spilled = compiled.spill_stores + compiled.spill_loads
    file, said = file_registers(threads, real.registers, blocks_per_sm), advisories(compiled.log)
    broken = [
        (max_registers is not None and real.registers > max_registers, f"{real.registers} registers > {max_registers}"),
        (file > regs_per_sm, _register_file(real.registers, threads, blocks_per_sm, file, regs_per_sm)),
        (shared > max_shared_bytes, f"{shared:,} bytes of shared memory > {max_shared_bytes:,}"),
        (spilled > max_spill_bytes, _spills(compiled, max_spill_bytes)),
        (threads > (real.max_threads or threads), f"{threads} threads > the launch bound of {real.max_threads}"),
        *((role_registers and a.kind == "registers", f"{a.code}: {a.text}") for a in said),
    ]
    if found := [text for bad, text in broken if bad]:
        hint = "smaller tiles, fewer stages or a launch bound of the real block size"
        text = f"kernel {real.name!r} on {compiled.target}: {'; '.join(found)}"
        raise CompileError(text, log=compiled.log, hint=hint)
    notes = [f"ptxas {a.code}: {a.text}" for a in said]
    if real.stack_bytes and not spilled:
        notes.append(stack_note(real.stack_bytes))
    if target is None or assumed_registers is None or real.registers <= assumed_registers:
        return tuple(notes)
    return (fewer_blocks(target, threads, shared, assumed_registers, real.registers), *notes)


def stack_note(nbytes: int) -> str:
    """What a stack without spills means."""
    return f"{nbytes} bytes of stack a thread: a register array is indexed at run time, and lies in local memory"


def _spills(compiled: Compiled, allowed: int) -> str:
    stores, loads = compiled.spill_stores, compiled.spill_loads
    return f"{stores} + {loads} bytes spilled, " + (f"{allowed} allowed" if allowed else "none allowed")


def fewer_blocks(target: Target, threads: int, shared: int, assumed: int, real: int) -> str:
    """What it costs that more registers are taken than the certificate counted on."""
    promised, left = (occupancy(target, threads, r, shared).blocks_per_sm for r in (assumed, real))
    text = f"{real} registers where at most {assumed} were estimated"
    return text + (f": {left} blocks fit on an SM instead of {promised}" if left < promised else "")


def _register_file(registers: int, threads: int, blocks: int, needed: int, regs_per_sm: int) -> str:
    work = f"{threads} threads x {registers} registers" + (f" x {blocks} blocks" if blocks > 1 else "")
    return f"{work} take {needed:,} registers (given out in lumps of 256 per warp) > {regs_per_sm:,}"


# The compiler.


def _nvrtc() -> Any:
    """The NVRTC binding, with the library behind it loaded."""
    try:
        from cuda.bindings import nvrtc

        _ask(nvrtc.nvrtcVersion())
    # a missing library is a RuntimeError of cuda.pathfinder, or an OSError of the loader
    except (ImportError, RuntimeError, OSError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise EnvironmentProblem(f"the CUDA compiler NVRTC cannot be loaded: {first}", hint=_INSTALL) from error
    _loaded.set()
    return nvrtc


def _ask(answer: tuple[Any, ...]) -> Any:
    """The values of an NVRTC call, less the status that stands first."""
    status, *values = answer
    if int(status) != 0:
        raise CompileError(f"NVRTC failed: {status.name}")
    return values[0] if len(values) == 1 else values


def _wheel_versions() -> list[str]:
    found = []
    for wheel in _WHEELS:
        try:
            found.append(metadata.version(wheel))
        except metadata.PackageNotFoundError:
            continue
    return found


def _targets(nvrtc: Any) -> tuple[str, ...]:
    return tuple(f"sm_{number}" for number in sorted(_ask(nvrtc.nvrtcGetSupportedArchs())))


def _require_target(nvrtc: Any, target: str) -> None:
    match = _TARGET.fullmatch(target)
    suffixed_since = {"": 0, "a": 90, "f": 100}  # smallest architecture that has the suffix
    if not match or f"sm_{match[1]}" not in _targets(nvrtc) or int(match[1]) < suffixed_since[match[2]]:
        raise InputError(
            f"NVRTC {toolkit_version()} does not compile for target {target!r}",
            hint=f"one of {', '.join(_targets(nvrtc))}; from sm_90 on also with the suffix a",
        )


def _build(nvrtc: Any, source: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    program = _ask(nvrtc.nvrtcCreateProgram(_text(source), _text(f"{name}.cu"), 0, [], []))
    try:
        encoded = [_text(option) for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        log = _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        text = log.rstrip(b"\0").decode("utf-8", "backslashreplace").strip()
        if int(status) != 0:
            raise CompileError(_first_error(text) or f"NVRTC: {status.name}", log=text)
        return _fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), text
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(text: str) -> bytes:
    """UTF-8 for a C string; a NUL would end the compiler's reading early, so that it compiled other text."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CompileError(f"the text holds {text[error.start]!r}, which UTF-8 does not write") from error
    if b"\0" in data:
        raise CompileError("the text holds a NUL character")
    return data


def _fetch(size: Any, read: Any, program: Any) -> bytes:
    length = int(_ask(size(program)))
    # the binding fills the bytes object in place: never hand it one of one byte, which the interpreter shares
    buffer = bytes(length + 2)
    _ask(read(program, buffer))
    return buffer[:length]


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if _ERROR.search(line)), lines[0] if lines else "")


# What the log and the binary say.


def _kernel(cubin: bytes, name: str, log: str) -> Resources:
    kernels = read_cubin(cubin)
    if name not in kernels:
        have = ", ".join(sorted(kernels)) or "none"
        raise CompileError(f"the binary has no kernel {name!r} (it has: {have})", log=log, hint=_EXTERN)
    return kernels[name]


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


def _read_log(log: str, resources: Resources) -> tuple[int, int]:
    """Bytes of spill stores and loads; fails where the log is silent or counts other registers than the binary."""
    entries = set(_ENTRY.findall(log))
    registers, spills = {}, {}
    for function, line in _lines_by_function(log):
        if used := _REGISTERS.search(line):
            registers[function] = int(used[1])
        if spilt := _SPILLS.search(line):
            spills[function] = int(spilt[1]), int(spilt[2])
    if resources.name not in spills or registers.get(resources.name) != resources.registers:
        told = registers.get(resources.name, "no")
        raise CompileError(f"the log tells {told} registers, the binary {resources.registers}", log=log)
    # a device function that was not inlined counts for every kernel of the file: never too few
    counted = [spilt for function, spilt in spills.items() if function == resources.name or function not in entries]
    return sum(stores for stores, _ in counted), sum(loads for _, loads in counted)


def _lines_by_function(log: str) -> Iterator[tuple[str, str]]:
    current = ""
    for line in log.splitlines():
        if found := _FUNCTION.search(line) or _ENTRY.search(line):
            current = found[1]
        yield current, line
