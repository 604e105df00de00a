"""`amk cache ls`, `gc`, `verify`: what the cache holds, what to throw out, and what is damaged."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from amk.cli.output import say, say_json, table

if TYPE_CHECKING:
    from amk.synth.cache import Cache, Listed

__all__ = ["add_cache"]


def add_cache(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk cache`."""
    parser.add_argument("action", choices=("ls", "gc", "verify"))
    parser.add_argument("--folder", type=Path, help="another cache than the one of AMK_CACHE_DIR")
    parser.add_argument("--max-bytes", type=int, default=2 << 30, metavar="N", help="gc: most bytes to keep")
    parser.add_argument("--max-age-days", type=float, default=90.0, metavar="D", help="gc: unused for longer goes")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_cache)


def run_cache(args: Namespace) -> int:
    """One look at, or one clean-up of, the cache."""
    from amk.synth.cache import Cache

    cache = Cache(args.folder, max_bytes=args.max_bytes, max_age_days=args.max_age_days)
    return {"ls": _ls, "gc": _gc, "verify": _verify}[args.action](cache, args.json)


def _ls(cache: Cache, as_json: bool) -> int:
    entries = cache.ls()
    if as_json:
        say_json([_entry(e) for e in entries])
        return 0
    heads = ("digest", "target", "device", "agent", "bytes", "last used")
    rows = [
        (e.digest[:16], *((e.key.target, e.key.device_name, e.key.agent) if e.key else ("damaged", "-", "-")), e.bytes,
         time.strftime("%Y-%m-%d %H:%M", time.localtime(e.used)))
        for e in entries
    ]  # fmt: skip
    say((table(rows, heads) + "\n" if rows else "") + f"{len(rows)} entries, {sum(e.bytes for e in entries)} bytes")
    return 0


def _entry(e: Listed) -> dict[str, object]:
    return {"digest": e.digest, "key": asdict(e.key) if e.key else None, "bytes": e.bytes, "used": e.used}


def _gc(cache: Cache, as_json: bool) -> int:
    done = cache.gc()
    if as_json:
        say_json(asdict(done))
    else:
        say(f"removed {done.removed} ({done.freed_bytes} bytes), kept {done.kept} ({done.kept_bytes} bytes)")
    return 0


def _verify(cache: Cache, as_json: bool) -> int:
    found = cache.verify()
    if as_json:
        say_json({"good": found.good, "damaged": [{"digest": d, "fault": f} for d, f in found.damaged]})
    else:
        say("\n".join([*(f"{d[:16]}  moved away: {f}" for d, f in found.damaged), f"{found.good} entries are whole"]))
    return 1 if found.damaged else 0
