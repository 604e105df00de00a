"""01: z = x + y. One thread an element, and a guard for the last block.

The kernel itself stands in amk/harness/samples.py, since `amk selftest` mutates it too; this prints its descriptor:
python examples/ex01_vector_add.py | amk check -
"""

from typing import Any

from amk.harness.samples import vector_add as build

SIZES = ({"n": 1}, {"n": 256}, {"n": 1000})


def reference(args: dict[str, Any]) -> dict[str, Any]:
    """What the kernel computes, in NumPy."""
    return {"z": args["x"] + args["y"]}


if __name__ == "__main__":
    print(build().to_json(), end="")
