"""Loading, launching, streams, captures and host copies, with a fake driver."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import types

import numpy as np
import pytest
from fake_driver import FakeDriver

from amk.errors import ArgumentError, LaunchError
from amk.runtime import device as devices
from amk.runtime import streams
from amk.runtime.arrays import ArrayView, view
from amk.runtime.launch import (
    allocate,
    current_stream,
    is_capturing,
    launch_stream,
    load,
    prepare,
    release,
    stream_handle,
    to_device,
    to_host,
    wait_for,
)

HOPPER, AMPERE = b"sm_90a:gemm:168:1024", b"sm_86:gemm:128:0"


@pytest.fixture
def gpus():
    fake = FakeDriver(("sm_90a", "sm_86"))
    devices.install(fake)
    yield fake
    devices.install(None)


def gpu_array(framework="cai", stream=None, device=0):
    return ArrayView(1 << 20, (4,), (1,), "f32", device, None, framework, stream=stream)


# -- loading


def test_load_reads_the_drivers_own_figures(gpus):
    kernel = load(HOPPER, "gemm", 0, 0)
    assert (kernel.registers, kernel.static_shared, kernel.max_threads) == (168, 1024, 384)
    assert gpus.calls("set") == [] and gpus.stack == []


@pytest.mark.parametrize(("shared", "set_to"), [(48 * 1024 - 1024, []), (48 * 1024, [49152]), (200000, [200000])])
def test_shared_memory_is_opted_into(gpus, shared, set_to):
    load(HOPPER, "gemm", 0, shared)
    assert [value for _, value in gpus.calls("set")] == set_to


def test_the_limit_is_never_lowered(gpus):
    large, small = load(HOPPER, "gemm", 0, 200000), load(HOPPER, "gemm", 0, 100000)
    large.launch((1, 1, 1), 128, 0, 0)
    small.launch((1, 1, 1), 128, 0, 0)
    assert len(gpus.calls("load")) == 1 and len(gpus.calls("launch")) == 2


def test_too_much_shared_memory_is_refused(gpus):
    with pytest.raises(LaunchError, match=r"needs 233472 bytes.*has 232448"):
        load(HOPPER, "gemm", 0, 232448)


def test_each_device_loads_its_own(gpus):
    a, b = load(HOPPER, "gemm", 0, 0), load(AMPERE, "gemm", 1, 0)
    a.launch((1, 1, 1), 32, 0, 0)
    b.launch((1, 1, 1), 32, 0, 0)
    assert [entry[-1] for entry in gpus.calls("launch")] == [0, 1]


def test_one_cubin_on_two_gpus_of_one_model():
    """A module belongs to a context: each device has its own, and each launch takes that of its device."""
    fake = FakeDriver(("sm_90a", "sm_90a"))
    devices.install(fake)
    for index in (0, 1, 0, 1):
        load(HOPPER, "gemm", index, 0).launch((1, 1, 1), 32, 0, 0)
    assert fake.calls("load") == [(0, "gemm"), (1, "gemm")]
    assert [entry[-1] for entry in fake.calls("launch")] == [0, 1, 0, 1]
    devices.install(None)


def test_the_limit_of_shared_memory_is_that_of_the_device(gpus):
    """C7: what fits the first GPU does not fit the second."""
    load(HOPPER, "gemm", 0, 150_000)
    with pytest.raises(LaunchError, match="150000 bytes of shared memory a block, GPU 1 has 101376"):
        load(AMPERE, "gemm", 1, 150_000)


def test_the_wrong_architecture_names_the_device(gpus):
    with pytest.raises(LaunchError, match=r"GPU 1 \(Fake sm_86, sm_86\)") as caught:
        load(HOPPER, "gemm", 1, 0)
    assert caught.value.status == "CUDA_ERROR_NO_BINARY_FOR_GPU" and gpus.stack == []
    with pytest.raises(LaunchError):  # nothing half-registered
        load(HOPPER, "gemm", 1, 0)


def test_sixteen_threads_load_once(gpus):
    found = []
    threads = [threading.Thread(target=lambda: found.append(load(HOPPER, "gemm", 0, 0))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16 and all(kernel is found[0] for kernel in found)
    assert len(gpus.calls("load")) == 1


def test_loading_inside_a_capture_leaves_it_whole(gpus):
    gpus.capturing[0x50] = "active"
    kernel = load(HOPPER, "gemm", 0, 0)
    kernel.launch((1, 1, 1), 32, 0, 0x50)
    assert is_capturing(0x50) and gpus.capturing[0x50] == "active" and gpus.mode == "global"


def test_the_capture_mode_comes_back_after_a_failure(gpus):
    with pytest.raises(LaunchError):
        load(HOPPER, "other", 0, 0)
    assert gpus.mode == "global"


# -- launching


def test_launch_on_another_device_keeps_the_callers(gpus):
    kernel = load(AMPERE, "gemm", 1, 0)
    with devices.ensure_context(0):
        kernel.launch((2, 3, 4), 64, 0, 0x99)
        assert devices.current_device() == 0
    name, grid, block, shared, stream, _, device = gpus.calls("launch")[0]
    assert (name, grid, block, shared, stream, device) == ("gemm", (2, 3, 4), 64, 0, 0x99, 1)


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_an_empty_grid_is_no_launch(gpus, grid):
    load(HOPPER, "gemm", 0, 0).launch(grid, 128, 0, 0)
    assert gpus.calls("launch") == []


@pytest.mark.parametrize("grid", [(1, 1, 65536), (1, 65536, 1), (2**31, 1, 1), (-1, 1, 1), (1, 1, 100_000)])
def test_a_grid_above_the_limit_never_reaches_the_driver(gpus, grid):
    with pytest.raises(LaunchError, match="y 65535, z 65535"):
        load(HOPPER, "gemm", 0, 0).launch(grid, 128, 0, 0)
    assert gpus.calls("launch") == []


def test_a_grid_at_the_limit_does(gpus):
    load(HOPPER, "gemm", 0, 0).launch((2**31 - 1, 65535, 65535), 128, 0, 0)
    assert len(gpus.calls("launch")) == 1


@pytest.mark.parametrize("block", [0, 416, 2000])
def test_a_block_above_what_the_registers_allow(gpus, block):
    with pytest.raises(LaunchError, match="at 168 registers the driver allows 384"):
        load(HOPPER, "gemm", 0, 0).launch((1, 1, 1), block, 0, 0)


def test_a_refused_launch_is_an_error(gpus, monkeypatch):
    kernel = load(HOPPER, "gemm", 0, 0)

    def refuse(*_):
        raise gpus.fail("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")

    monkeypatch.setattr(gpus, "launch", refuse)
    with pytest.raises(LaunchError, match=r"OUT_OF_RESOURCES(?s:.*)try:"):
        kernel.launch((1, 1, 1), 128, 0, 0)


def test_ctypes_arguments(gpus, monkeypatch):
    seen = []

    def read(function, x, y, z, block, shared, stream, params):
        table = (ctypes.c_void_p * 2).from_address(params)
        seen.append(ctypes.c_int32.from_address(table[0]).value)
        seen.append(ctypes.c_float.from_address(table[1]).value)

    monkeypatch.setattr(gpus, "launch", read)
    load(HOPPER, "gemm", 0, 0).launch((1, 1, 1), 32, [ctypes.c_int32(-7), ctypes.c_float(0.5)], 0)
    assert seen == [-7, 0.5]


# -- arguments

C_TYPES = {"ptr": ctypes.c_uint64, "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64,
           "f32": ctypes.c_float, "f64": ctypes.c_double}  # fmt: skip


def unpack(packer, params):
    table = (ctypes.c_void_p * len(packer.signature)).from_address(params)
    return [C_TYPES[kind].from_address(table[i]).value for i, kind in enumerate(packer.signature)]


def test_pack():
    packer = prepare(("i32", "ptr", "f32", "f64", "i64", "u32"))
    values = [-5, 0x7FFF_0000_0010, 1.5, -2.25, -(2**40), 2**32 - 1]
    assert unpack(packer, packer.pack(values)) == values
    assert unpack(packer, packer.pack([np.int64(3), 0, np.float32(2), 1, True, 0])) == [3, 0, 2.0, 1.0, 1, 0]
    table = (ctypes.c_void_p * 6).from_address(packer.pack(values))
    assert all(table[i] % ctypes.sizeof(C_TYPES[kind]) == 0 for i, kind in enumerate(packer.signature))


def test_a_tensor_map_is_aligned_to_64():
    packer = prepare(("i32", "tmap"))
    table = (ctypes.c_void_p * 2).from_address(packer.pack([1, bytes(range(128))]))
    assert table[1] % 64 == 0 and ctypes.string_at(table[1], 128) == bytes(range(128))


def test_no_arguments():
    assert prepare(()).pack(()) != 0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([1], "takes 2 arguments, not 1"),
        ([2**31, 0.0], "argument 0 is 2147483648.*i32"),
        (["x", 0.0], "argument 0 is 'x'"),
        ([1, None], "argument 1 is None"),
        ([1.5, 0.0], "argument 0 is 1.5"),
        ([1, 1e300], "argument 1 is 1e\\+300"),
    ],
)
def test_arguments_that_do_not_fit(values, says):
    with pytest.raises(ArgumentError, match=says):
        prepare(("i32", "f32")).pack(values)


def test_infinities_are_values():
    packer = prepare(("f32",))
    assert unpack(packer, packer.pack([float("-inf")])) == [float("-inf")]


def test_unknown_parameter_type():
    with pytest.raises(ArgumentError, match="'i16'"):
        prepare(("i16",))


def test_threads_do_not_share_buffers():
    packer, bad, gate = prepare(("i32", "i64")), [], threading.Barrier(8)

    def work(number):
        gate.wait()
        for _ in range(300):
            if unpack(packer, packer.pack([number, -number])) != [number, -number]:
                bad.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad


# -- streams


def test_stream_handles():
    assert stream_handle(0) == 0 and stream_handle(0x7F00) == 0x7F00
    assert stream_handle(types.SimpleNamespace(cuda_stream=5)) == 5  # torch
    assert stream_handle(types.SimpleNamespace(ptr=6)) == 6  # CuPy
    assert stream_handle(types.SimpleNamespace(__cuda_stream__=lambda: (0, 7))) == 7
    assert stream_handle(types.SimpleNamespace(__cuda_stream__=(0, 8))) == 8
    for wrong in (True, -1, "1", 1.0, None):
        with pytest.raises(ArgumentError, match="not a CUDA stream"):
            stream_handle(wrong)


@pytest.fixture
def frameworks(monkeypatch):
    """torch and CuPy, whose current streams on device d are 0x100 + d and 0x200 + d."""
    raw = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 0x100 + device)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(_C=raw))
    active = []

    class Device:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            active.append(self.index)

        def __exit__(self, *_):
            active.pop()

    cuda = types.SimpleNamespace(
        Device=Device, get_current_stream=lambda: types.SimpleNamespace(ptr=0x200 + active[-1])
    )
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(streams, "_RAW", {})


def test_current_stream(frameworks):
    torch, cupy = gpu_array("torch", device=1), gpu_array("cupy", device=1)
    assert current_stream([gpu_array(), torch]) == 0x101
    assert current_stream([cupy]) == 0x201
    assert current_stream([cupy, torch]) == 0x101
    assert current_stream([gpu_array()]) == 0
    assert current_stream([gpu_array("torch", device=None), cupy]) == 0x201  # a host tensor has no stream
    assert current_stream([view(np.zeros(3), "A")]) == 0
    assert current_stream([]) == 0


def test_torch_without_the_raw_query(monkeypatch):
    current = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=0x300 + device))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(_C=object(), cuda=current))
    monkeypatch.setattr(streams, "_RAW", {})
    assert current_stream([gpu_array("torch", device=1)]) == 0x301


def test_waiting_is_ordered_on_the_gpu(gpus):
    wait_for(0x10, 0x20)
    (event, producer), (waiter, waited) = gpus.calls("record")[0], gpus.calls("wait")[0]
    assert producer == 0x10 and waiter == 0x20 and event == waited
    assert gpus.calls("destroy_event") == [(event,)]
    assert not gpus.calls("synchronize") and not gpus.calls("sync_stream")


@pytest.mark.parametrize(("producer", "stream"), [(0x10, 0x10), (0, 1), (1, 0), (2, 2)])
def test_a_stream_does_not_wait_for_itself(gpus, producer, stream):
    wait_for(producer, stream)
    assert gpus.calls("record") == []


@pytest.mark.parametrize("producer_is", ["none", "legacy"])
def test_a_captured_stream_cannot_wait_for_work_outside(gpus, producer_is):
    gpus.capturing = {0x20: "active", 0x10: producer_is}
    with pytest.raises(LaunchError, match=r"captured into a graph(?s:.*)before the capture"):
        wait_for(0x10, 0x20)
    assert gpus.calls("record") == []


def test_two_captured_streams_may_be_ordered(gpus):
    gpus.capturing = {0x20: "active", 0x10: "active"}
    wait_for(0x10, 0x20)
    assert len(gpus.calls("wait")) == 1


def test_launch_stream_waits_for_producers(gpus, frameworks):
    assert launch_stream([gpu_array("torch"), gpu_array(stream=0x77)]) == 0x100
    assert [entry[1] for entry in gpus.calls("record")] == [0x77]
    release([gpu_array("torch"), gpu_array(stream=0x77)], 0x100)
    assert [entry[1] for entry in gpus.calls("record")] == [0x77, 0x100]
    assert [entry[0] for entry in gpus.calls("wait")] == [0x100, 0x77]


def test_nothing_waits_for_a_captured_launch(gpus, frameworks):
    """B7: in a capture nothing runs, so no stream outside the graph may wait for it."""
    gpus.capturing = {0x100: "active"}
    release([gpu_array("torch"), gpu_array(stream=0x77)], 0x100)
    assert gpus.calls("record") == [] and gpus.calls("wait") == []


def test_launch_stream_orders_mixed_frameworks_unless_told(gpus, frameworks):
    mixed = [gpu_array("torch"), gpu_array("cupy")]
    assert launch_stream(mixed) == 0x100
    assert [entry[1] for entry in gpus.calls("record")] == [0x200]
    assert launch_stream(mixed, 0x55) == 0x55
    assert len(gpus.calls("record")) == 1


def test_one_framework_needs_no_waits(gpus, frameworks):
    torch = [gpu_array("torch")] * 3
    assert launch_stream(torch, stream=None) == 0x100
    release(torch, 0x100)
    assert gpus.calls("record") == []


# -- memory


@pytest.mark.parametrize("pools", [True, False])
@pytest.mark.parametrize("case", ["plain", "transposed", "reversed", "block", "scalar", "empty", "i32"])
def test_host_arrays_go_there_and_back(pools, case):
    fake = FakeDriver(pools=pools)
    devices.install(fake)
    wide = np.arange(60, dtype="f4").reshape(6, 10)
    x = {"plain": wide, "transposed": wide.T, "reversed": wide[::-1, ::-1], "block": wide[1:4, 2:7],
         "scalar": np.array(3.0, "f8"), "empty": wide[:0], "i32": wide.view("i4")[:, ::3]}[case]  # fmt: skip
    before = x.copy()
    whole = wide.copy()
    with to_device(view(x, "A"), 0, 0x30) as buffer:
        assert buffer.nbytes == x.nbytes
        held = ctypes.string_at(buffer.pointer, buffer.nbytes) if buffer.nbytes else b""
        assert held == np.ascontiguousarray(x).tobytes()
        x[...] = 0
        to_host(buffer, view(x, "A"), 0x30)
    assert np.array_equal(x, before) and np.array_equal(wide, whole)
    assert fake.memory == {} and fake.stack == []
    devices.install(None)


def test_bf16_moves_as_16_bits(gpus):
    x = np.arange(10, dtype="u2")
    read = ArrayView(x.ctypes.data + 18, (5,), (-2,), "bf16", None, x, "torch")
    with to_device(read, 0, 0) as buffer:
        assert ctypes.string_at(buffer.pointer, buffer.nbytes) == x[9::-2].tobytes()


def test_a_buffer_as_an_array(gpus):
    with allocate(48, 1, 0) as buffer:
        read = buffer.array((2, 3, 2), "f32")
        assert (read.strides, read.device, read.owner) == ((6, 2, 1), 1, buffer)


def test_release_is_ordered_on_the_stream(gpus):
    buffer = allocate(64, 0, 0x30)
    buffer.close(0x31)
    buffer.close()
    assert gpus.calls("free_async") == [(0x31,)]


def test_without_pools_release_waits_for_the_stream():
    fake = FakeDriver(pools=False)
    devices.install(fake)
    allocate(64, 0, 0x30).close()
    assert fake.calls("sync_stream") == [(0x30,)] and fake.calls("free") == [()]
    devices.install(None)


def test_a_forgotten_buffer_is_freed_with_a_warning(gpus):
    with pytest.warns(ResourceWarning, match="64 bytes was not closed"):
        allocate(64, 0, 0x30)
        gc.collect()
    assert gpus.memory == {}


def test_host_copies_cannot_be_captured(gpus):
    gpus.capturing[0x30] = "active"
    with pytest.raises(LaunchError, match=r"lies on the host(?s:.*)before the capture"):
        to_device(view(np.zeros(3), "A"), 0, 0x30)
    assert gpus.memory == {} and gpus.capturing[0x30] == "active"


def test_results_cannot_be_captured_either(gpus):
    """B7: a copy to the host would only be recorded, and the host array would hold nothing."""
    with allocate(16, 0, 0x30) as buffer:
        gpus.capturing[0x30] = "active"
        with pytest.raises(LaunchError, match="lies on the host"):
            to_host(buffer, view(np.zeros(4, "f4"), "C"), 0x30)
        gpus.capturing.clear()


def test_allocating_inside_a_capture_leaves_it_whole():
    """B7: without pools the driver's own allocation breaks a capture, unless this thread says that it may."""
    fake = FakeDriver(pools=False)
    devices.install(fake)
    fake.capturing[0x30] = "active"
    buffer = allocate(64, 0, 0x30)
    assert fake.capturing[0x30] == "active" and fake.mode == "global"
    fake.capturing.clear()
    buffer.close()
    devices.install(None)
