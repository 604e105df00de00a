"""Python macros over the builder: patterns that many kernels write the same way. They add no node kind.

simt    copies of tiles by threads and by cp.async, rings of them, register tiles of sums
hopper  rings of mbarriers that TMA fills, tiles on the tensor cores, results stored by TMA, persistent tile loops

What an idiom writes is as open to the check as what an author writes by hand; places in diagnostics are its caller's.
"""

from __future__ import annotations

from amk.dsl.idioms.simt import RegisterTile, TileCopy, copy_tile, ring, spread

__all__ = ["RegisterTile", "TileCopy", "copy_tile", "ring", "spread"]
