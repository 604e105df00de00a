"""Reading and writing files that a caller named; OSError or ValueError (a NUL in the path) as `open` raises them.

A named pipe blocks whoever opens it until somebody is at the other end, which may be never: here that is an error. A
pipe with its other end (`amk check <(make-it)`) is read and written as any file.
"""

from __future__ import annotations

import errno
import os
import stat

__all__ = ["read_bytes", "replace_bytes", "write_bytes"]

_NOW = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # Windows has the second alone, and no such pipes
_CHUNK = 65536


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """What the file holds, but no more than `limit` bytes of it."""
    handle = os.open(path, os.O_RDONLY | _NOW)
    with os.fdopen(handle, "rb") as file:
        first = _started(handle, limit) if stat.S_ISFIFO(os.fstat(handle).st_mode) else b""
        _wait_from_here(handle)
        return first + file.read(limit - len(first))


def _wait_from_here(handle: int) -> None:
    if hasattr(os, "O_NONBLOCK"):  # else it was opened to wait
        os.set_blocking(handle, True)


def _started(handle: int, limit: int) -> bytes:
    """The first bytes of a pipe: none yet where a writer keeps us waiting."""
    try:
        first = os.read(handle, min(limit, _CHUNK))
    except BlockingIOError:
        return b""
    if not first:
        raise OSError(errno.EPIPE, "it is a pipe that nobody writes to")
    return first


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes the file; what was there goes."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NOW, 0o666)
    except OSError as e:
        if e.errno == errno.ENXIO:
            raise OSError(e.errno, "it is a pipe that nobody reads") from None
        raise
    with os.fdopen(handle, "wb") as file:
        _wait_from_here(handle)
        file.write(data)


def replace_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes the file whole: whoever reads it, and whatever happens meanwhile, it is the old one or the new one.

    A link is followed, permissions stay. What is no regular file cannot be replaced (ValueError).
    """
    import tempfile

    place = os.path.realpath(path)
    try:
        mode = os.stat(place).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG | (0o666 & ~_umask())
    if not stat.S_ISREG(mode):
        raise ValueError("it is no regular file, and only such a file can be replaced")
    handle, aside = tempfile.mkstemp(dir=os.path.dirname(place), prefix=".amk-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, stat.S_IMODE(mode))
        os.replace(aside, place)
    except BaseException:
        if os.path.exists(aside):
            os.unlink(aside)
        raise


def _umask() -> int:
    """The permissions that new files of this process lack (it can only be read by setting it)."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
