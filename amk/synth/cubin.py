"""What a cubin says about its kernels: in come the bytes of an ELF file, out comes one `Resources` per kernel.

The bytes may come from a cache folder or from anywhere else, so every read is checked: garbage is a `CompileError`.
NVIDIA does not document the attribute numbers below; the tests hold this reader against `cuobjdump -res-usage`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from amk.errors import CompileError

__all__ = ["Resources", "read_cubin"]

_MACHINE = 190  # EM_CUDA
_ABI8 = 0x41  # EI_OSABI of the layout since CUDA 13: e_flags holds the architecture in bits 8..15, before in 0..7
_NOBITS, _FUNC, _ENTRY = 8, 2, 0x10  # SHT_NOBITS, STT_FUNC, STO_CUDA_ENTRY
_RESERVED_BYTES, _RESERVED_SINCE = 1024, 90  # shared memory that the system keeps, counted in .nv.shared since sm_90
_NAME_LIMIT = 4096
_MAX_THREADS, _FRAME_SIZE, _MIN_STACK, _PARAM_SIZE, _REGCOUNT, _BARRIERS = 0x05, 0x11, 0x12, 0x19, 0x2F, 0x4C


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel of a cubin takes.

    Units:  registers per thread; stack_bytes of local memory per thread; static_shared_bytes per block, without the
            1,024 bytes that the system reserves from sm_90 on; barriers of the block's 16; max_threads per block from
            a launch bound (None: no bound); parameter_bytes of the kernel's parameters; code_bytes of machine code
    """

    name: str
    registers: int
    stack_bytes: int
    static_shared_bytes: int
    barriers: int
    max_threads: int | None
    parameter_bytes: int
    code_bytes: int


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class _Elf:
    data: bytes
    arch: int
    sections: tuple[_Section, ...]
    by_name: dict[str, _Section] = field(default_factory=dict)

    def content(self, section: _Section) -> bytes:
        return _slice(self.data, section.offset, section.size) if section.kind != _NOBITS else b""


def read_cubin(data: bytes) -> dict[str, Resources]:
    """Resources of every kernel in a cubin, by kernel name.

    Raises:  CompileError when the bytes are no cubin, are cut short, or lack what is needed
    """
    elf = _read_elf(data)
    shared_facts = _facts_by_symbol(elf)
    kernels: dict[str, Resources] = {}
    for index, name in _entries(elf):
        if name in kernels:
            raise _damaged(f"two kernels are named {name!r}")
        kernels[name] = _resources(elf, name, shared_facts.get(index, {}))
    return kernels


def _damaged(why: str) -> CompileError:
    return CompileError(f"not a readable cubin: {why}", hint="compile again; `amk cache verify` checks stored binaries")


def _slice(data: bytes, offset: int, size: int) -> bytes:
    if offset < 0 or size < 0 or offset + size > len(data):
        raise _damaged(f"bytes {offset}..{offset + size} lie past its end ({len(data)} bytes)")
    return data[offset : offset + size]


def _unpack(layout: str, data: bytes, offset: int) -> tuple[int, ...]:
    return struct.unpack(layout, _slice(data, offset, struct.calcsize(layout)))


def _read_elf(data: bytes) -> _Elf:
    if data[:6] != b"\x7fELF\x02\x01":
        raise _damaged("it does not begin as a 64-bit little-endian ELF file")
    (machine,) = _unpack("<H", data, 0x12)
    if machine != _MACHINE:
        raise _damaged(f"its machine is {machine}, not {_MACHINE} (CUDA)")
    (table,), (flags,) = _unpack("<Q", data, 0x28), _unpack("<I", data, 0x30)
    entry, count, names_at = _unpack("<HHH", data, 0x3A)
    if entry != 64 or names_at >= count:
        raise _damaged(f"its section table has {count} entries of {entry} bytes and names in entry {names_at}")
    heads = [_unpack("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)]
    sections = tuple(_Section(kind=h[1], offset=h[4], size=h[5], link=h[6]) for h in heads)
    elf = _Elf(data, flags >> 8 & 0xFF if data[7] == _ABI8 else flags & 0xFF, sections)
    names = elf.content(sections[names_at])
    elf.by_name.update((_string(names, head[0]), section) for head, section in zip(heads, sections, strict=True))
    return elf


def _string(table: bytes, offset: int) -> str:
    text, end, _ = table[offset : offset + _NAME_LIMIT].partition(b"\0")
    if offset >= len(table) or not end:
        raise _damaged(f"a name at {offset} has no end within {_NAME_LIMIT} bytes")
    return text.decode("utf-8", "backslashreplace")


def _entries(elf: _Elf) -> Iterator[tuple[int, str]]:
    """Symbol index and name of every kernel (device functions that were not inlined lack the entry bit)."""
    table = elf.by_name.get(".symtab")
    if table is None or table.link >= len(elf.sections):
        raise _damaged("it has no symbol table")
    symbols, strings = elf.content(table), elf.content(elf.sections[table.link])
    for index in range(len(symbols) // 24):
        name, info, other = _unpack("<IBB", symbols, index * 24)
        if info & 15 == _FUNC and other & _ENTRY:
            yield index, _string(strings, name)


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Code and payload of each attribute: format byte 1 has none, 2 and 3 hold it in place, 4 is followed by it."""
    at = 0
    while at < len(content):
        form, code, value = _unpack("<BBH", content, at)
        at += 4
        yield code, _slice(content, at, value) if form == 4 else value.to_bytes(2, "little")
        at += value if form == 4 else 0


def _facts_by_symbol(elf: _Elf) -> dict[int, dict[int, int]]:
    """`.nv.info`: for each symbol index, attribute code to value."""
    facts: dict[int, dict[int, int]] = {}
    info = elf.by_name.get(".nv.info")
    for code, payload in _attributes(elf.content(info)) if info else ():
        if code in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK):
            symbol, value = _unpack("<II", payload, 0)
            facts.setdefault(symbol, {})[code] = value
    return facts


def _resources(elf: _Elf, name: str, facts: dict[int, int]) -> Resources:
    info, text = elf.by_name.get(f".nv.info.{name}"), elf.by_name.get(f".text.{name}")
    if info is None or text is None or not 0 < facts.get(_REGCOUNT, 0) <= 255:
        raise _damaged(f"it does not tell the code, attributes or registers of kernel {name!r}")
    own = dict(_attributes(elf.content(info)))
    threads = _unpack("<III", own[_MAX_THREADS], 0) if _MAX_THREADS in own else None
    return Resources(
        name=name,
        registers=facts[_REGCOUNT],
        stack_bytes=facts.get(_MIN_STACK, facts.get(_FRAME_SIZE, 0)),
        static_shared_bytes=_static_shared(elf, name),
        barriers=own.get(_BARRIERS, b"\0")[0] if own.get(_BARRIERS, b"\0") else 0,
        max_threads=threads[0] * threads[1] * threads[2] if threads else None,
        parameter_bytes=_parameters(elf, name, own),
        code_bytes=len(elf.content(text)),
    )


def _static_shared(elf: _Elf, name: str) -> int:
    section = elf.by_name.get(f".nv.shared.{name}")
    size = section.size if section else 0
    reserved = _RESERVED_BYTES if elf.arch >= _RESERVED_SINCE and size >= _RESERVED_BYTES else 0
    return size - reserved


def _parameters(elf: _Elf, name: str, own: dict[int, bytes]) -> int:
    """Bytes of parameters; they are the tail of constant bank 0, which must hold at least as many."""
    size = int.from_bytes(own.get(_PARAM_SIZE, b"")[:2], "little")
    bank = elf.by_name.get(f".nv.constant0.{name}")
    if bank is not None and size > bank.size:
        raise _damaged(f"kernel {name!r} has {size} bytes of parameters in a bank of {bank.size}")
    return size
