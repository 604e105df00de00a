"""What decides how a kernel is printed, as one digest: a part of every cache key.

Apart from the printer, so that a cache hit asks for the digest without importing the engine of the templates.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

__all__ = ["template_hash"]

_HERE = Path(__file__).parent
_PRINTER = ("render.py", "print_expr.py", "print_address.py", "print_stmt.py", "passes.py")


@lru_cache(maxsize=1)
def template_hash() -> str:
    """Hex digest of all that decides how a kernel is printed: templates, prelude and the printer itself."""
    files = [*_HERE.glob("templates/**/*.j2"), *_HERE.glob("prelude/*.cuh"), *(_HERE / n for n in _PRINTER)]
    out = hashlib.sha256()
    for path in sorted(files, key=lambda p: p.relative_to(_HERE).as_posix()):
        data = path.read_bytes().replace(b"\r\n", b"\n")
        out.update(f"{path.relative_to(_HERE).as_posix()} {len(data)}\n".encode() + data)
    return out.hexdigest()
