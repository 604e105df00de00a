"""Arrays of every framework become one view, or an error that names the argument. The frameworks are small fakes."""

from __future__ import annotations

import subprocess
import sys
import types

import numpy as np
import pytest
from fake_driver import FakeDriver

from amk.errors import ArgumentError
from amk.runtime import device
from amk.runtime.arrays import ArrayView, alignment, extent, is_host, overlap, self_overlapping, view

BASE = 0x7F0000000000


def at(pointer=BASE, shape=(4,), strides=(1,), dtype="f32", device=0):
    return ArrayView(pointer, shape, strides, dtype, device, None, "cai")


# -- NumPy


@pytest.mark.parametrize(
    ("spelling", "name"),
    [("f4", "f32"), ("f2", "f16"), ("f8", "f64"), ("i4", "i32"), ("u4", "u32"), ("i8", "i64"), ("u8", "u64"),
     ("u1", "u8"), ("i1", "i8"), ("?", "bool")],
)  # fmt: skip
def test_numpy_dtypes(spelling, name):
    read = view(np.zeros((2, 3), spelling), "A")
    assert (read.dtype, read.shape, read.strides, read.framework) == (name, (2, 3), (3, 1), "numpy")
    assert is_host(read) and not read.readonly and read.stream is None


def test_numpy_strides_are_elements_and_signed():
    x = np.arange(24, dtype="f4").reshape(4, 6)
    assert view(x.T, "A").strides == (1, 6)
    assert view(x[::-1, ::2], "A").strides == (-6, 2)
    assert view(x[::-1], "A").pointer == x.ctypes.data + 3 * 24
    assert view(np.broadcast_to(x[0], (5, 6)), "A").strides == (0, 1)
    assert view(np.broadcast_to(x[0], (5, 6)), "A").readonly


def test_numpy_scalar_and_empty_arrays():
    assert view(np.array(1.0, "f4"), "A").shape == ()
    assert view(np.zeros((0, 3), "f4"), "A").shape == (0, 3)


def test_numpy_owner_is_the_callers_object():
    x = np.zeros(3, "f4")
    assert view(x, "A").owner is x


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1.0, 2.0], "B is not an array but list"),
        (3.0, "B is not an array but float"),
        (None, "B is not an array"),
        (np.zeros(3, "c8"), "B has dtype complex64"),
        (np.zeros(3, "O"), "B has dtype object"),
        (np.zeros(3, "U4"), "B has dtype <U4"),
        (np.zeros(3, ">f4"), "order of another machine"),
        (np.zeros(3, [("a", "f4"), ("b", "u1")])["a"], r"B has strides \(5,\) bytes"),
        (np.ma.masked_array(np.zeros(3, "f4"), [0, 1, 0]), "masked"),
    ],
)
def test_what_cannot_be_used_names_the_argument(value, says):
    with pytest.raises(ArgumentError, match=says):
        view(value, "B")


def test_unsupported_dtype_names_the_supported():
    with pytest.raises(ArgumentError, match="bf16, bool, f16, f32, f64"):
        view(np.zeros(3, "c16"), "B")


# -- torch


@pytest.fixture
def torch(monkeypatch):
    module = types.ModuleType("torch")
    names = (
        "bool",
        "int8",
        "uint8",
        "float16",
        "bfloat16",
        "float32",
        "int32",
        "float64",
        "int64",
        "complex64",
        "qint8",
    )
    for name in names:
        setattr(module, name, f"torch.{name}")
    module.strided, module.sparse_coo = "strided", "sparse_coo"

    class Tensor:
        is_quantized = requires_grad = False

        def __init__(self, shape=(2, 3), stride=(3, 1), dtype="float32", where="cuda", index=1, pointer=BASE, **flags):
            self.shape, self._stride, self.dtype = shape, stride, getattr(module, dtype)
            self.device = types.SimpleNamespace(type=where, index=index)
            self.is_cuda, self.layout, self.pointer = where == "cuda", flags.get("layout", "strided"), pointer
            self.conj, self.neg = flags.get("conj", False), flags.get("neg", False)
            self.is_quantized = flags.get("quantized", False)

        def get_device(self):
            return self.device.index

        def stride(self):
            return self._stride

        def data_ptr(self):
            if self.pointer is None:
                raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
            return self.pointer

        def is_conj(self):
            return self.conj

        def is_neg(self):
            return self.neg

        @property
        def __cuda_array_interface__(self):
            raise AssertionError("torch is read through its own attributes")

    Tensor.__module__, Tensor.__qualname__ = "torch", "Tensor"
    module.Tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_torch_gpu_tensor(torch):
    read = view(torch.Tensor(dtype="bfloat16", stride=(8, 1)), "A")
    assert (read.pointer, read.shape, read.strides, read.dtype) == (BASE, (2, 3), (8, 1), "bf16")
    assert (read.device, read.framework, read.stream) == (1, "torch", None)


def test_torch_host_tensor_and_subclass(torch):
    class Parameter(torch.Tensor):
        requires_grad = True

    assert view(Parameter(where="cpu", index=None), "A").device is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layout": "sparse_coo"}, "layout sparse_coo"),
        ({"quantized": True, "dtype": "qint8"}, "quantized"),
        ({"where": "meta"}, "device 'meta'.*\n.*no data"),
        ({"where": "mps"}, "device 'mps'"),
        ({"conj": True, "dtype": "complex64"}, "conjugate"),
        ({"neg": True}, "negative view"),
        ({"dtype": "complex64"}, "dtype"),
        ({"pointer": None}, "without memory"),
    ],
)
def test_torch_tensors_that_are_not_plain_arrays(torch, options, says):
    with pytest.raises(ArgumentError, match=f"(?s)^X is.*{says}" if says != "dtype" else "X has dtype"):
        view(torch.Tensor(**options), "X")


# -- the CUDA array interface, CuPy and DLPack


class Exposed:
    def __init__(self, **changes):
        self.__cuda_array_interface__ = {
            "shape": (4, 2), "typestr": "<f4", "data": (1 << 40, False), "version": 3, "strides": None, **changes,
        }  # fmt: skip


@pytest.fixture
def two_gpus():
    fake = FakeDriver(("sm_90a", "sm_86"))
    device.install(fake)
    yield fake
    device.install(None)


def test_array_interface(two_gpus):
    read = view(Exposed(stream=0xABC0), "A")
    assert (read.strides, read.device, read.stream, read.framework) == ((2, 1), 1, 0xABC0, "cai")
    assert view(Exposed(strides=(4, 16)), "A").strides == (1, 4)
    assert view(Exposed(version=2), "A").stream is None
    assert view(Exposed(stream=1), "A").stream == 1
    assert view(Exposed(data=(1 << 40, True)), "A").readonly
    assert view(Exposed(data=(0, False), shape=(0,)), "A").device == 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"stream": 0}, "stream 0.*ambiguous"),
        ({"version": 1}, "version 1"),
        ({"mask": object()}, "mask"),
        ({"typestr": ">f4"}, "another machine"),
        ({"typestr": "<c8"}, "dtype complex64"),
        ({"typestr": "<V2"}, "dtype"),
        ({"strides": (6, 4)}, "not all multiples"),
        ({"data": ((1 << 40) + 2, False)}, "not a multiple of its 4-byte"),
    ],
)
def test_array_interfaces_that_cannot_be_used(two_gpus, changes, says):
    with pytest.raises(ArgumentError, match=f"A .*{says}"):
        view(Exposed(**changes), "A")


def test_array_interface_of_a_bf16_producer(two_gpus):
    obj = Exposed(typestr="<V2")
    obj.dtype = "bfloat16"
    assert view(obj, "A").dtype == "bf16"


def test_cupy_is_read_through_its_attributes():
    class ndarray:  # the name that CuPy gives it
        shape, strides, itemsize, dtype = (2, 2), (8, 4), 4, np.dtype("f4")
        data, device = types.SimpleNamespace(ptr=BASE), types.SimpleNamespace(id=3)

    ndarray.__module__ = "cupy._core.core"
    read = view(ndarray(), "A")
    assert (read.pointer, read.strides, read.device, read.framework) == (BASE, (2, 1), 3, "cupy")


class Capsule:
    """A producer that knows DLPack only."""

    def __init__(self, array, where=(1, 0)):
        self.array, self.where = array, where

    def __dlpack_device__(self):
        return self.where

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_dlpack_on_the_host_shares_memory():
    x = np.arange(6, dtype="i4").reshape(2, 3)
    read = view(Capsule(x), "A")
    assert (read.pointer, read.dtype, read.device, read.framework) == (x.ctypes.data, "i32", None, "dlpack")


def test_dlpack_of_another_device_or_dtype():
    with pytest.raises(ArgumentError, match="A lies on a device of DLPack type 8"):
        view(Capsule(np.zeros(2), (8, 0)), "A")
    with pytest.raises(ArgumentError, match="A has dtype complex64"):
        view(Capsule(np.zeros(2, "c8")), "A")


@pytest.mark.parametrize(("stream", "told"), [(None, 1), (0, 1), (0x77, 0x77)])
def test_dlpack_on_a_gpu_is_told_the_stream(monkeypatch, stream, told):
    seen = {}

    class StridedMemoryView:
        ptr, shape, strides, dtype, readonly = BASE, (2, 2), None, np.dtype("f2"), True

        @classmethod
        def from_dlpack(cls, obj, stream_ptr):
            seen["stream"] = stream_ptr
            return cls()

    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.core", types.ModuleType("cuda.core"))
    utils = types.ModuleType("cuda.core.utils")
    utils.StridedMemoryView = StridedMemoryView
    monkeypatch.setitem(sys.modules, "cuda.core.utils", utils)
    read = view(Capsule(None, (2, 1)), "A", stream=stream)
    assert seen["stream"] == told == read.stream
    assert (read.strides, read.device, read.dtype, read.readonly) == ((2, 1), 1, "f16", True)


# -- where arrays lie


def test_extent():
    assert extent(at(shape=(4, 3), strides=(8, 1))) == (BASE, BASE + 4 * (3 * 8 + 2 + 1))
    assert extent(at(shape=(4,), strides=(-2,))) == (BASE - 24, BASE + 4)
    assert extent(at(shape=(0,))) == (BASE, BASE)
    assert extent(at(shape=(), strides=(), dtype="f64")) == (BASE, BASE + 8)


def test_alignment():
    assert [alignment(at(BASE + offset)) for offset in (0, 4, 16, 24, 128)] == [256, 4, 16, 8, 128]
    assert alignment(at(0)) == 256


def block(row, column, rows=64, columns=64, pitch=256):
    return at(BASE + 4 * (row * pitch + column), (rows, columns), (pitch, 1))


@pytest.mark.parametrize(
    ("a", "b", "shared"),
    [
        (block(0, 0), block(0, 64), False),  # disjoint columns of one wider matrix
        (block(0, 0), block(0, 63), True),
        (block(0, 0), block(64, 0), False),
        (block(0, 0), block(63, 0), True),
        (block(0, 0), block(63, 64), False),
        (block(0, 0), block(0, 0), True),
        (at(BASE, (100,), (2,)), at(BASE + 4, (100,), (2,)), False),  # even and odd elements
        (at(BASE + 400, (100,), (-2,)), at(BASE + 4, (100,), (2,)), False),
        (at(BASE, (8,)), at(BASE, (8,), device=1), False),
        (at(BASE, (8,)), at(BASE, (8,), device=None), False),
        (at(BASE, (0,)), at(BASE, (8,)), False),
        (at(BASE, (8,)), at(BASE + 30, (8,), dtype="f16"), True),
        (at(BASE, (8,)), at(BASE + 32, (8,), dtype="f16"), False),
        (at(BASE, (4096, 4096), (8192, 1)), at(BASE + 4 * 4096, (4096, 4096), (1, 8192)), False),
    ],
)
def test_overlap(a, b, shared):
    assert overlap(a, b) is shared and overlap(b, a) is shared


@pytest.mark.parametrize("seed", range(40))
def test_overlap_and_self_overlap_agree_with_counting(seed):
    rng = np.random.default_rng(seed)

    def draw():
        rank = int(rng.integers(1, 4))
        shape, strides = rng.integers(1, 5, rank), rng.integers(-7, 8, rank)
        return at(BASE + 4 * int(rng.integers(0, 30)), tuple(map(int, shape)), tuple(map(int, strides)))

    def elements(x):
        grids = np.meshgrid(*(np.arange(n) * s for n, s in zip(x.shape, x.strides, strict=True)), indexing="ij")
        return [int(v) for v in (sum(grids) + (x.pointer - BASE) // 4).ravel()]

    a, b = draw(), draw()
    assert overlap(a, b) == bool(set(elements(a)) & set(elements(b)))
    assert self_overlapping(a) == (len(set(elements(a))) < len(elements(a)))


def test_self_overlap():
    assert self_overlapping(at(shape=(4, 3), strides=(0, 1)))
    assert not self_overlapping(at(shape=(1, 3), strides=(0, 1)))
    assert not self_overlapping(at(shape=(0, 3), strides=(0, 0)))
    assert not self_overlapping(at(shape=(4, 2, 8), strides=(8, 32, 1)))
    assert self_overlapping(at(shape=(10, 4), strides=(1, 1)))  # sliding windows
    assert not self_overlapping(at(shape=(2, 3), strides=(3, 2)))  # interleaved, yet one to one
    assert self_overlapping(at(shape=(1 << 12, 1 << 12), strides=(2, 3)))  # too many to list: the cautious answer


def test_imports_without_cuda_or_any_framework():
    code = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cuda", "torch", "cupy", "pynvml"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
import numpy as np
from amk.runtime.arrays import view
import amk.runtime.device, amk.runtime.launch, amk.agents.measure
assert view(np.zeros(3, "f4"), "A").dtype == "f32"
status = amk.runtime.device.probe()
assert not status.available and status.driver == "none" and "cuda-python" in status.reason, status
print("ok")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "ok", done.stderr
