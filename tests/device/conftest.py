"""`execute`: a kernel certified, compiled and run on NumPy arrays, on the CPU executor and on a GPU if there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import amk
from amk.runtime.arrays import view
from amk.runtime.device import probe
from amk.runtime.launch import to_device, to_host

EDGE = 256  # poisoned bytes on either side of every argument


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def execute(request):
    """`execute(kernel)` certifies and compiles; what it gives runs on NumPy arrays, and checks the poison around."""
    if request.param == "gpu" and not probe().available:
        pytest.skip("no GPU")
    index = 0 if request.param == "gpu" else None

    def prepare(kernel: Any) -> Any:
        compiled = amk.compile(kernel, device="cpu" if index is None else index)

        def run(**args: Any) -> None:
            arrays = {n: a for n, a in args.items() if isinstance(a, np.ndarray)}
            scalars = {n: a for n, a in args.items() if n not in arrays}
            stores = {n: fenced(a) for n, a in arrays.items()}
            if index is None:
                compiled(**{n: inside(s, arrays[n]) for n, s in stores.items()}, **scalars)
            else:
                on_gpu(compiled, stores, arrays, scalars, index)
            for n, s in stores.items():
                edges = s[:EDGE], s[EDGE + arrays[n].nbytes :]
                assert all((e == 0xA5).all() for e in edges), f"bytes beside {n} were written"
                arrays[n][...] = inside(s, arrays[n])

        return run

    prepare.gpu = index is not None
    return prepare


def fenced(a: Any) -> Any:
    """The array's bytes in the middle of poison, on a 256-byte boundary."""
    raw = np.full(a.nbytes + 2 * EDGE + 256, 0xA5, np.uint8)
    start = -raw.ctypes.data % 256
    store = raw[start : start + a.nbytes + 2 * EDGE]
    store[EDGE : EDGE + a.nbytes] = np.ascontiguousarray(a).view(np.uint8).ravel()
    return store


def inside(store: Any, a: Any) -> Any:
    return store[EDGE : EDGE + a.nbytes].view(a.dtype).reshape(a.shape)


def on_gpu(compiled: Any, stores: dict[str, Any], arrays: dict[str, Any], scalars: dict[str, Any], index: int) -> None:
    """The same stores in device memory, handed over by the array interface; no framework is needed."""
    buffers = {n: to_device(view(s, n), index, 0) for n, s in stores.items()}
    try:

        class Inside:
            def __init__(self, name: str) -> None:
                a = arrays[name]
                self.__cuda_array_interface__ = {
                    "shape": a.shape, "typestr": a.dtype.str, "version": 3, "strides": None, "stream": None,
                    "data": (buffers[name].pointer + EDGE, False),
                }  # fmt: skip

        compiled(**{n: Inside(n) for n in arrays}, **scalars)
        for n, s in stores.items():
            to_host(buffers[n], view(s, n), 0)
    finally:
        for b in buffers.values():
            b.close()
