"""03: sums[b] = sum of block b's 1,024 elements. New: warp shuffles, and shared memory between warps.

The kernel stands in amk/harness/samples.py; this prints its descriptor:
python examples/ex03_block_reduction.py | amk check -
"""

from typing import Any

from amk.harness.samples import block_sum as build

SIZES = ({"n": 1}, {"n": 1024}, {"n": 2500})


def reference(args: dict[str, Any]) -> dict[str, Any]:
    """What the kernel computes, in NumPy and float64."""
    x = args["x"]
    return {"sums": [x[i : i + 1024].sum(dtype="float64") for i in range(0, len(x), 1024)]}


if __name__ == "__main__":
    print(build().to_json(), end="")
