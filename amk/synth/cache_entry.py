"""A cache key and a cache entry, and how an entry is written as bytes: pure data, no files.

An entry becomes five named files and a manifest with the digest of each. What comes back from a folder is untrusted:
`unpack` either returns exactly what `pack` was given or raises `Damaged`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["JSON", "LIMITS", "MANIFEST", "SCHEMA", "CacheKey", "Damaged", "Entry", "pack", "read_manifest", "unpack"]

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]

SCHEMA = 1  # layout of an entry; another layout has another subfolder
MANIFEST = "manifest.json"
_MIB = 1 << 20
# The files of an entry with the bytes that each may have, so that a hostile folder cannot fill the memory.
LIMITS = {
    MANIFEST: _MIB // 16,
    "kernel.cubin": 64 * _MIB,
    "kernel.cu": 16 * _MIB,
    "build.log": 4 * _MIB,
    "certificate.json": 32 * _MIB,
    "meta.json": _MIB // 4,
}


class Damaged(Exception):
    """The bytes of an entry are not the ones that were written; says which file and why."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Everything that the binary, or the choice of it, depends on. A change in any field is another entry.

    descriptor and templates are digests; `driver` is "none" when no target file and no device told it; `flags` keep
    their order; `templates` covers the prelude too; `harness` digests the checker whose proof lies beside; `form` says
    whether the text is "plain" or "checked", with its tests in it.
    """

    descriptor: str
    target: str
    device_name: str
    agent: str
    toolkit: str
    flags: tuple[str, ...]
    templates: str
    harness: str
    driver: str = "none"
    form: str = "plain"
    schema: int = SCHEMA

    def digest(self) -> str:
        """SHA-256, in hex, of the canonical text: the same in every process, and unambiguous (JSON, sorted names)."""
        return _sha(_canonical(asdict(self)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One synthesised kernel: binary, CUDA text, the compiler's log, the certificate (JSON text), and small facts."""

    cubin: bytes
    source: str
    log: str
    certificate: str
    meta: dict[str, JSON] = field(default_factory=dict)


def pack(key: CacheKey, entry: Entry) -> dict[str, bytes]:
    """File name to content, the manifest last. Raises ValueError for an entry over `LIMITS` or not writable as text."""
    files = {
        "kernel.cubin": entry.cubin,
        "kernel.cu": entry.source.encode(),
        "build.log": entry.log.encode(),
        "certificate.json": entry.certificate.encode(),
        "meta.json": _canonical(entry.meta),
    }
    listing = {name: {"bytes": len(data), "sha256": _sha(data)} for name, data in files.items()}
    files[MANIFEST] = _canonical({"files": listing, "key": asdict(key)})
    if large := [name for name, data in files.items() if len(data) > LIMITS[name]]:
        raise ValueError(f"too large to be stored: {', '.join(large)}")
    return files


def unpack(digest: str, read: Callable[[str], bytes]) -> Entry:
    """The entry named `digest`, its files fetched by `read(name)`. Raises Damaged, and whatever `read` raises."""
    listing = read_manifest(digest, read(MANIFEST))[1]
    files = {name: _checked(name, read(name), listing[name]) for name in LIMITS if name != MANIFEST}
    source, log, certificate = (_decoded(files[name], name) for name in ("kernel.cu", "build.log", "certificate.json"))
    meta = _loads(files["meta.json"], "meta.json")
    if not isinstance(meta, dict):
        raise Damaged("meta.json is no object")
    return Entry(files["kernel.cubin"], source, log, certificate, meta)


def read_manifest(digest: str, data: bytes) -> tuple[CacheKey, dict[str, dict[str, Any]]]:
    """Key and file listing of a manifest. Raises Damaged when it is malformed or belongs to another digest."""
    manifest = _loads(data, MANIFEST)
    try:
        key, listing = (
            _key(manifest["key"]),
            {name: dict(manifest["files"][name]) for name in LIMITS if name != MANIFEST},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{MANIFEST} is malformed: {type(error).__name__}") from error
    if key.digest() != digest:
        raise Damaged(f"{MANIFEST} belongs to another key")
    return key, listing


def _key(raw: dict[str, Any]) -> CacheKey:
    key = CacheKey(**{**raw, "flags": tuple(raw["flags"])})
    texts = [value for name, value in raw.items() if name not in ("flags", "schema")]
    if not all(isinstance(text, str) for text in (*texts, *key.flags)) or type(key.schema) is not int:
        raise ValueError("a field of the key has another type")
    return key


def _checked(name: str, data: bytes, listed: dict[str, Any]) -> bytes:
    if listed.get("bytes") != len(data) or listed.get("sha256") != _sha(data):
        raise Damaged(f"{name} is not what was written ({len(data)} bytes, digest or length differs)")
    return data


def _loads(data: bytes, name: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name} is no JSON") from error


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Damaged(f"{name} is no UTF-8") from error


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
