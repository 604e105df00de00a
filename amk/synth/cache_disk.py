"""The folder behind the cache: which one, whether it can be trusted, and how an entry gets in and out of it whole.

No locks between processes. An entry is written aside, in a folder that nobody reads, and appears by one rename; a
reader checks every digest and never assumes that a writer finished. Renames also take entries away: to `bad/` when
damaged, to `tmp/` before they are deleted, so that nobody sees half of one.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from amk.synth.cache_entry import LIMITS, SCHEMA, Damaged

__all__ = [
    "default_folder", "delete", "entries", "identity", "open_root", "publish", "quarantine", "read", "sweep", "touch",
]  # fmt: skip

_PRIVATE = 0o700
_BAD_KEPT = 16  # damaged entries kept for a look; older ones are deleted
_STALE_SECONDS = 3600.0  # an unfinished write older than this belongs to a process that died
_TOUCH_SECONDS = 3600.0  # how fine "last used" is: a hit writes to the disk once an hour at most
_HEX = frozenset("0123456789abcdef")
# Not the entry's fault: out of handles or memory, or a network file system that lost sight of the file.
_PASSING = frozenset({errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN})


def default_folder() -> Path:
    """AMK_CACHE_DIR, or amk under XDG_CACHE_HOME, or ~/.cache/amk. Raises OSError when there is no home either."""
    if own := os.environ.get("AMK_CACHE_DIR"):
        return Path(own).absolute()
    if (shared := os.environ.get("XDG_CACHE_HOME")) and Path(shared).is_absolute():
        return Path(shared) / "amk"
    try:
        return Path.home() / ".cache" / "amk"
    except RuntimeError as error:
        raise OSError(errno.ENOENT, "there is no home folder") from error


def open_root(folder: Path) -> Path:
    """The versioned subfolder, made if needed. Raises OSError when it cannot be made or others could write into it."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=_PRIVATE, exist_ok=True)
    _refuse_shared(folder, os.stat(folder))  # the user may have linked the cache to another disk
    root = folder / f"v{SCHEMA}"
    if not root.is_dir():
        root.mkdir(mode=_PRIVATE, exist_ok=True)
    _refuse_shared(root, os.lstat(root))
    return root


def _refuse_shared(folder: Path, status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is no folder", str(folder))
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))
    if os.name == "posix" and status.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "others may write into it (chmod go-w)", str(folder))


def read(root: Path, digest: str, name: str) -> bytes:
    """One file of an entry.

    Raises:  FileNotFoundError when there is no such entry; Damaged when the entry lacks the file, or it is no plain
             file, too large or unreadable; OSError for what is not the entry's fault
    """
    folder = root / digest
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        raise Damaged("it is no folder")
    try:
        return _read_plain(folder / name, LIMITS[name])
    except OSError as error:
        if error.errno in _PASSING:
            raise
        raise Damaged(f"{name} cannot be read: {error.strerror}") from error


def _read_plain(path: Path, limit: int) -> bytes:
    # neither follow a link out of the folder nor wait for a pipe; Windows has neither flag
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise Damaged(f"{path.name} is no plain file of at most {limit} bytes")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Damaged(f"{path.name} has more than {limit} bytes")
    return data


def publish(root: Path, digest: str, files: dict[str, bytes]) -> bool:
    """Write an entry aside and rename it to its name. False: another writer was first. Raises OSError."""
    aside = _aside(root, "tmp", digest)
    try:
        aside.mkdir(mode=_PRIVATE)
        for name, data in files.items():
            _write_plain(aside / name, data)
        return _rename_new(aside, root / digest)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_plain(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)


def _rename_new(source: Path, target: Path) -> bool:
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.ESTALE) or target.is_dir():
            return False
        raise
    return True


def _aside(root: Path, place: str, digest: str) -> Path:
    (root / place).mkdir(mode=_PRIVATE, exist_ok=True)
    return root / place / f"{digest[:16]}-{os.getpid()}-{uuid.uuid4().hex[:12]}"


def identity(root: Path, digest: str) -> tuple[int, int] | None:
    """What tells an entry's folder from another under the same name; None when there is none."""
    try:
        found = os.stat(root / digest)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def quarantine(root: Path, digest: str) -> bool:
    """Move an entry out of the way. False when it is gone already, or cannot be moved."""
    try:
        os.rename(root / digest, _aside(root, "bad", digest))
        for old in sorted(_listed(root / "bad"), key=_used)[:-_BAD_KEPT]:
            _remove(old)
    except OSError:
        return False
    return True


def delete(root: Path, digest: str) -> bool:
    """Delete an entry; it disappears whole, by a rename. False when it is gone already, or cannot be moved."""
    try:
        aside = _aside(root, "tmp", digest)
        os.rename(root / digest, aside)
    except OSError:
        return False
    _remove(aside)
    return True


def entries(root: Path) -> Iterator[tuple[str, float, int]]:
    """Digest, time of last use (seconds since 1970) and bytes of every entry, damaged ones included."""
    for path in _listed(root):
        if len(path.name) == 64 and _HEX.issuperset(path.name):
            yield path.name, _used(path), _size(path)


def sweep(root: Path) -> None:
    """Delete what writers left behind that died long ago."""
    for path in _listed(root / "tmp"):
        if time.time() - _used(path) > _STALE_SECONDS:
            _remove(path)


def touch(root: Path, digest: str) -> None:
    """Note a use, for the size limit's order. Best effort: a read-only folder keeps its times."""
    try:
        if time.time() - os.lstat(root / digest).st_mtime > _TOUCH_SECONDS:
            os.utime(root / digest)
    except OSError:
        return


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _used(path: Path) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    total = 0
    for name in LIMITS if not folder.is_symlink() else ():
        try:
            total += os.lstat(folder / name).st_size
        except OSError:
            continue
    return total


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
