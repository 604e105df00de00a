"""The cache of synthesised kernels: in goes a `CacheKey` and a way to make the entry, out comes the `Entry`.

Safe under many threads and processes, on a read-only, full or missing folder, and after a crash. Whatever the folder
does, the caller gets a right entry: the worst case is that it is made again and kept in memory. Nothing here imports
the compiler, the driver or the prover, so that a hit stays cheap.

Environment:  AMK_CACHE_DIR (the folder) · AMK_ALWAYS_COMPILE=1 (ignore hits) · AMK_LOGS=cache (log to stderr)
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from amk.synth import cache_disk as disk
from amk.synth.cache_entry import JSON, MANIFEST, SCHEMA, CacheKey, Damaged, Entry, pack, read_manifest, unpack
from amk.synth.cache_flights import Flights
from amk.synth.cache_notes import CacheWarning, warn, warn_fallback
from amk.synth.logs import CACHE, listen

__all__ = ["JSON", "SCHEMA", "Cache", "CacheKey", "CacheWarning", "Collected", "Entry", "Listed", "Verified"]

_MEMORY_ENTRIES = 256  # entries that no folder would take; the oldest leave first
_GC_EVERY = 64  # entries written between two looks at the limits


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry on disk: bytes, and `used` in seconds since 1970 (exact to an hour). `key` is None when damaged."""

    digest: str
    key: CacheKey | None
    bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class Collected:
    """What `gc` did: entries removed and kept, and their bytes."""

    removed: int
    freed_bytes: int
    kept: int
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` found: entries that are whole, and digest and fault of those that it moved away."""

    good: int
    damaged: tuple[tuple[str, str], ...]


_READS = 3  # of an entry that others replace while it is read


class Cache:
    """A folder of entries, and a memory for those that the folder would not take.

    folder: None takes AMK_CACHE_DIR, XDG_CACHE_HOME/amk or ~/.cache/amk; it is first touched at the first use.
    Units: max_bytes of all entries on disk; max_age_days since the last use
    """

    def __init__(self, folder: Path | None = None, *, max_bytes: int = 2 << 30, max_age_days: float = 90.0) -> None:
        self._folder, self._max_bytes, self._max_age_days = folder, max_bytes, max_age_days
        self._memory: OrderedDict[str, Entry] = OrderedDict()
        self._root: Path | None = None
        self._opened = False
        self._written = 0
        self._flights: Flights[tuple[Entry, bool]] = Flights()
        self._stuck: set[str] = set()
        self._reset_after_fork()
        listen()

    def get(self, key: CacheKey) -> Entry | None:
        """The entry of this key, whole and verified, or None. Never raises for what it finds in the folder."""
        digest = key.digest()
        entry = None if os.environ.get("AMK_ALWAYS_COMPILE") == "1" else self._find(digest)
        CACHE.info("%s %s %s", "hit" if entry else "miss", digest[:16], key.target)
        return entry

    def put(self, key: CacheKey, entry: Entry) -> None:
        """Keep an entry: on disk, or in memory when the folder does not take it.

        An entry whose meta says that another toolkit made it is not kept: it would be found under the wrong name.
        """
        if entry.meta.get("toolkit", key.toolkit) != key.toolkit:
            CACHE.info("not kept: made by toolkit %s, asked for under %s", entry.meta["toolkit"], key.toolkit)
            return
        if not self._store(key, entry):
            self._remember(key.digest(), entry)

    def get_or_make(self, key: CacheKey, make: Callable[[], Entry]) -> tuple[Entry, bool]:
        """The entry, and whether it was spared to this call to make it.

        Threads that ask for one key share one `make`, and its exception if it fails, after which the key is free
        again. Other keys never wait. Two processes may both make an entry: the first to finish is kept. `make` must
        not ask for its own key.
        """
        if found := self.get(key):
            return found, True

        def land() -> tuple[Entry, bool]:
            # an earlier flight may have landed between the look above and the start of this one
            landed = self.get(key)
            if landed:
                return landed, True
            entry = make()
            self.put(key, entry)
            return entry, False

        (entry, hit), made_here = self._flights.share(key.digest(), land)
        return entry, hit or not made_here

    def discard(self, key: CacheKey, why: str, *, cubin: bytes | None = None) -> None:
        """Move an entry away that turned out to be of no use, such as a binary that the driver refuses to load.

        With `cubin` only if the entry still holds it: another thread or process may have made it again by now. What
        the folder does not let go is not looked at again by this object; its successor stays in memory.
        """
        digest = key.digest()
        with self._locked():
            discarding = self._discarding
        with discarding:
            found = self._find(digest)
            if cubin is not None and (found is None or found.cubin != cubin):
                return
            with self._locked():
                remembered = self._memory.pop(digest, None)
            if remembered:
                warn(f"kernel {digest[:16]} in memory is not used and will be made again: {why}")
            root = None if digest in self._stuck else self._open()
            if root and not self._move_away(root, digest, why):
                self._stuck.add(digest)

    def ls(self) -> list[Listed]:
        """Every entry on disk, last used first; only manifests are read."""
        root = self._open()
        found = [Listed(d, _stored_key(root, d), size, used) for d, used, size in disk.entries(root)] if root else []
        return sorted(found, key=lambda entry: entry.used, reverse=True)

    def gc(self) -> Collected:
        """Delete entries over the age limit, then the longest unused ones over the size limit, and dead leftovers."""
        root = self._open()
        if root is None:
            return Collected(0, 0, 0, 0)
        disk.sweep(root)
        oldest = time.time() - self._max_age_days * 86_400
        removed = freed = kept = total = 0
        for digest, used, size in sorted(disk.entries(root), key=lambda found: -found[1]):
            if (used < oldest or total + size > self._max_bytes) and disk.delete(root, digest):
                removed, freed = removed + 1, freed + size
            else:
                kept, total = kept + 1, total + size
        return Collected(removed, freed, kept, total)

    def verify(self) -> Verified:
        """Check every entry on disk against its digests; damaged ones are moved away."""
        root = self._open()
        if root is None:
            return Verified(0, ())
        faults = [(digest, _fault(root, digest)) for digest, _, _ in disk.entries(root)]
        damaged = tuple((digest, fault) for digest, fault in faults if fault)
        for digest, _ in damaged:
            disk.quarantine(root, digest)
        return Verified(len(faults) - len(damaged), damaged)

    # Looking.

    def _find(self, digest: str) -> Entry | None:
        if entry := self._memory.get(digest):
            return entry
        root = None if digest in self._stuck else self._open()
        return self._find_on_disk(root, digest) if root else None

    def _find_on_disk(self, root: Path, digest: str) -> Entry | None:
        for _ in range(_READS):
            before = disk.identity(root, digest)
            try:
                entry = _load(root, digest)
            except Damaged as fault:
                if disk.identity(root, digest) != before:  # half of it was read from its successor
                    continue
                self._move_away(root, digest, str(fault))
                return None
            except OSError as error:  # no such entry, or a network file system that lost sight of it
                CACHE.debug("not read: %s: %s", digest[:16], error.strerror)
                return None
            disk.touch(root, digest)
            return entry
        return None

    def _move_away(self, root: Path, digest: str, why: str) -> bool:
        """False when the folder does not let go of it."""
        moved = disk.quarantine(root, digest)
        # gone already: another process found the same fault, or deleted the entry while it was being read
        present = not moved and os.path.lexists(root / digest)
        if moved or present:
            warn(f"cache entry {digest[:16]} in {root} is not used and will be made again: {why}")
        return not present

    # Keeping.

    def _store(self, key: CacheKey, entry: Entry) -> bool:
        """True when the disk has an entry of this key that can be read back."""
        root = self._open()
        if root is None or key.digest() in self._stuck:
            return False
        try:
            stored = self._publish(root, key.digest(), pack(key, entry))
        except ValueError as error:
            CACHE.info("kept in memory only: %s", error)
            return False
        except OSError as error:
            warn_fallback(root, error)
            return False
        if stored:
            self._count_write()
        return stored

    def _publish(self, root: Path, digest: str, files: dict[str, bytes]) -> bool:
        """False when another writer was first and its entry cannot be read back.

        On a network file system that may just mean "not visible yet", for up to a minute: so the entry is left alone,
        nobody waits, and the caller's own build stays in memory. A damaged one is moved away by the next `get`.
        """
        if disk.publish(root, digest, files):
            return True
        try:
            _load(root, digest)
        except (Damaged, OSError) as error:
            CACHE.info("another writer was first, its entry %s does not read: %s", digest[:16], error)
            return False
        return True

    def _count_write(self) -> None:
        self._written += 1
        if self._written % _GC_EVERY == 1:
            self.gc()

    def _remember(self, digest: str, entry: Entry) -> None:
        with self._locked():
            self._memory[digest] = entry
            while len(self._memory) > _MEMORY_ENTRIES:
                self._memory.popitem(last=False)

    def _open(self) -> Path | None:
        """The folder, or None when it cannot be used: tried once, warned about once."""
        if self._opened:
            return self._root
        folder = self._folder
        try:
            folder = folder or disk.default_folder()
            self._root = disk.open_root(folder)
        except OSError as error:
            warn_fallback(folder, error)
        self._opened = True
        return self._root

    def _locked(self) -> threading.Lock:
        if self._pid != os.getpid():
            self._reset_after_fork()
        return self._guard

    def _reset_after_fork(self) -> None:
        """A fork copies locks of threads that do not exist in the child: nobody would ever release them."""
        self._pid, self._guard, self._discarding = os.getpid(), threading.Lock(), threading.Lock()


def _load(root: Path, digest: str) -> Entry:
    return unpack(digest, lambda name: disk.read(root, digest, name))


def _fault(root: Path, digest: str) -> str:
    """What is wrong with an entry; nothing when another process took it away or the file system lost sight of it."""
    try:
        _load(root, digest)
    except Damaged as fault:
        return str(fault)
    except OSError as error:
        CACHE.debug("not read: %s: %s", digest[:16], error.strerror)
    return ""


def _stored_key(root: Path, digest: str) -> CacheKey | None:
    try:
        return read_manifest(digest, disk.read(root, digest, MANIFEST))[0]
    except (Damaged, OSError):
        return None
