"""A process of its own for the cache tests: `cache_worker.py MODE FOLDER`, answers on standard output.

Modes:  digest     the digest of the sample key
        make       get or make the sample entry; prints 1 for a hit, 0 for made, and the cubin's text
        die:N      as make, but the process kills itself after N files were written
        die:rename as make, but it kills itself in place of the rename
        modules    a warm hit; prints the heavy modules that were imported on the way
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from amk.synth import cache_disk
from amk.synth.cache import Cache, CacheKey, Entry

KEY = CacheKey(
    harness="0.1.0",
    templates="t" * 64,
    flags=("--std=c++17", "-default-device"),
    toolkit="13.0.88",
    agent="rule/1",
    device_name="NVIDIA H200",
    target="sm_90a",
    descriptor="d" * 64,
)
HEAVY = ("cuda", "jinja2", "z3", "pydantic", "numpy", "networkx")


def entry() -> Entry:
    return Entry(b"\x7fELF-sample" * 50, "// text", "ptxas info", '{"proved": true}', {"registers": 10})


def slow() -> Entry:
    time.sleep(0.2)  # so that all processes are making at once
    return entry()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(when: str) -> None:
    """Replace the write or the rename by one that kills this process."""
    write, written = cache_disk._write_plain, []

    def writing(path: Path, data: bytes) -> None:
        if len(written) == int(when):
            path.write_bytes(data[: len(data) // 2])  # in the middle of a file
            die()
        write(path, data)
        written.append(path)

    def renaming(*_: Any) -> None:
        die()

    if when == "rename":
        cache_disk.os.rename = renaming  # type: ignore[assignment]
    else:
        cache_disk._write_plain = writing


def main(mode: str, folder: str) -> None:
    if mode == "digest":
        return print(KEY.digest())
    if mode.startswith("die:"):
        arm(mode[4:])
    found, hit = Cache(Path(folder)).get_or_make(KEY, slow)
    if mode == "modules":
        return print(hit, sorted({name.split(".")[0] for name in sys.modules} & set(HEAVY)))
    print(int(hit), found.cubin.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
