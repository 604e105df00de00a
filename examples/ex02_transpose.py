"""02: out = in transposed, through a 32 x 32 tile of shared memory. New: a barrier, and a layout.

Both sides of the copy are coalesced because the tile turns the matrix; the padding spreads a column over all banks.
"""

from amk import KernelBuilder, KernelDescriptor
from amk.dsl.expr import both, cdiv
from amk.dsl.layout import Padded

TILE, ROWS = 32, 8


def build(target: str = "sm_80") -> KernelDescriptor:
    """The kernel for any matrix of up to 65,535 x 32 rows."""
    k = KernelBuilder("transpose", target=target, threads=TILE * ROWS)
    m, n = k.size("m", min=0, max=65535 * TILE), k.size("n", min=0)
    source, out = k.tensor("source", "f32", (m, n)), k.tensor("out", "f32", (n, m), access="write")
    tile = k.shared("tile", "f32", (TILE, TILE), layout=Padded(pad=1))
    a = k.registers("a", "f32", (1,))
    tx, ty = k.let("tx", k.t % TILE), k.let("ty", k.t // TILE)
    for i in range(0, TILE, ROWS):
        row, col = k.by * TILE + ty + i, k.bx * TILE + tx
        k.load(a[0], source[row, col], when=both(row < m, col < n), other=0.0)
        k.store(tile[ty + i, tx], a[0])
    k.sync()
    for i in range(0, TILE, ROWS):
        row, col = k.bx * TILE + ty + i, k.by * TILE + tx
        with k.when(both(row < n, col < m)):
            k.load(a[0], tile[tx, ty + i])
            k.store(out[row, col], a[0])
    return k.finish(grid=(cdiv(n, TILE), cdiv(m, TILE)))


if __name__ == "__main__":
    print(build().to_json(), end="")
