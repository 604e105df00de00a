"""02: out = in transposed, through a 32 x 32 tile of shared memory. New: a barrier, and a layout.

Both sides of the copy are coalesced because the tile turns the matrix; the padding spreads a column over all banks.
The kernel stands in amk/harness/samples.py; this prints its descriptor: python examples/ex02_transpose.py | amk check -
"""

from typing import Any

from amk.harness.samples import transpose as build

SIZES = ({"m": 1, "n": 1}, {"m": 32, "n": 64}, {"m": 77, "n": 45})


def reference(args: dict[str, Any]) -> dict[str, Any]:
    """What the kernel computes, in NumPy."""
    return {"out": args["source"].T}


if __name__ == "__main__":
    print(build().to_json(), end="")
