"""The runtime on a real GPU: what a fake driver cannot show. Needs NVRTC; some tests need torch, CuPy or two GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from amk.agents.measure import CudaEventClock, measure_pair, summarise
from amk.errors import LaunchError
from amk.runtime.arrays import view
from amk.runtime.device import device, driver, ensure_context, probe
from amk.runtime.launch import is_capturing, launch_stream, load, prepare, release, to_device, to_host

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def needs_a_gpu():
    """Asked here and not while collecting, since asking starts CUDA."""
    status = probe()
    if not status.available:
        pytest.skip(f"no GPU: {status.reason}")


SCALE = """
extern "C" __global__ void scale(float* x, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
extern "C" __global__ void spin(float* x, int n, long long cycles, float value) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = value;
}
extern "C" __global__ void large(float* x) {
    extern __shared__ float s[];
    s[threadIdx.x + 50000] = 3.0f;
    x[threadIdx.x] = s[threadIdx.x + 50000];
}
"""
ARGS = prepare(("ptr", "i32", "f32"))
SPIN = prepare(("ptr", "i32", "i64", "f32"))


def compile_for(index: int) -> bytes:
    from cuda.bindings import nvrtc

    def check(result):
        assert int(result[0]) == 0, result[0]
        return result[1] if len(result) == 2 else None

    program = check(nvrtc.nvrtcCreateProgram(SCALE.encode(), b"scale.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={device(index).target}".encode()]))
    cubin = b" " * check(nvrtc.nvrtcGetCUBINSize(program))
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    return cubin


@pytest.fixture(scope="module")
def cubin(needs_a_gpu) -> bytes:
    return compile_for(0)


def torch_or_skip():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return torch


def test_facts_and_functions(cubin):
    facts, kernel = device(0), load(cubin, "scale", 0, 0)
    assert facts.sm_count > 0 and facts.l2_bytes > 1 << 20 and facts.clock_mhz > 500 and facts.uuid.startswith("GPU-")
    assert 0 < kernel.registers <= 255 and kernel.max_threads == 1024 and kernel.local == 0


def test_host_round_trip(cubin):
    kernel, x = load(cubin, "scale", 0, 0), np.arange(1000, dtype="f4").reshape(20, 50)
    part, whole = x[3:17, ::2], x.copy()
    with to_device(view(part, "x"), 0, 0) as buffer:
        kernel.launch((6, 1, 1), 64, ARGS.pack([buffer.pointer, part.size, 3.0]), 0)
        to_host(buffer, view(part, "x"), 0)
    whole[3:17, ::2] *= 3
    assert np.array_equal(x, whole)


def test_more_than_48_kib_of_shared_memory(cubin):
    kernel, x = load(cubin, "large", 0, 4 * 50256), np.zeros(256, "f4")
    with to_device(view(x, "x"), 0, 0) as buffer:
        packer = prepare(("ptr",))  # owns what `pack` points to
        kernel.launch((1, 1, 1), 256, packer.pack([buffer.pointer]), 0)
        to_host(buffer, view(x, "x"), 0)
    assert (x == 3).all()


def test_faults_of_the_driver_are_errors(cubin):
    with pytest.raises(LaunchError, match="NOT_FOUND"):
        load(cubin, "absent", 0, 0)
    with pytest.raises(LaunchError, match="does not load") as caught:
        load(b"this is no cubin", "scale", 0, 0)
    assert caught.value.status and caught.value.hint
    with pytest.raises(LaunchError, match="OUT_OF_MEMORY"):
        from amk.runtime.launch import allocate

        allocate(1 << 45, 0, 0)


def test_side_stream_sees_filled_values(cubin):
    torch = torch_or_skip()
    spin, scale = load(cubin, "spin", 0, 0), load(cubin, "scale", 0, 0)
    side, x = torch.cuda.Stream(), torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()
    for value in range(1, 21):
        with torch.cuda.stream(side):
            read = view(x, "x")
            stream = launch_stream([read])
            assert stream == side.cuda_stream
            spin.launch((1, 1, 1), 256, SPIN.pack([read.pointer, 1024, 1_000_000, float(value)]), stream)
            scale.launch((4, 1, 1), 256, ARGS.pack([read.pointer, 1024, 2.0]), stream)
            assert (x == 2 * value).all()


def test_array_interface_producer_is_waited_for(cubin):
    torch = torch_or_skip()
    spin, scale = load(cubin, "spin", 0, 0), load(cubin, "scale", 0, 0)
    producer, consumer, x = torch.cuda.Stream(), torch.cuda.Stream(), torch.zeros(1024, device="cuda")
    torch.cuda.synchronize()

    class Exposed:
        __cuda_array_interface__ = {
            "shape": (1024,), "typestr": "<f4", "data": (x.data_ptr(), False), "version": 3,
            "stream": producer.cuda_stream,
        }  # fmt: skip

    spin.launch((1, 1, 1), 256, SPIN.pack([x.data_ptr(), 1024, 20_000_000, 5.0]), producer.cuda_stream)
    read = view(Exposed(), "x")
    assert read.device == 0
    with ensure_context(0):
        stream = launch_stream([read], consumer)
        scale.launch((4, 1, 1), 256, ARGS.pack([read.pointer, 1024, 2.0]), stream)
        release([read], stream, consumer)
    producer.synchronize()
    assert (x == 10).all()


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_first_load_inside_a_capture(mode):
    torch = torch_or_skip()
    fresh = compile_for(0) + bytes([len(mode)])  # other bytes, so another module
    x, graph = torch.ones(1024, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        kernel, stream = load(fresh, "scale", 0, 0), launch_stream([view(x, "x")])
        assert is_capturing(stream)
        kernel.launch((4, 1, 1), 256, ARGS.pack([x.data_ptr(), 1024, 2.0]), stream)
    assert (x == 1).all()
    graph.replay()
    graph.replay()
    assert (x == 4).all()


def test_capture_refuses_host_copies_and_stays_whole():
    torch = torch_or_skip()
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        with pytest.raises(LaunchError, match="lies on the host"):
            to_device(view(np.zeros(3), "A"), 0, torch.cuda.current_stream().cuda_stream)
        x.mul_(2)
    graph.replay()
    assert (x == 2).all()


def test_the_other_gpu_and_the_callers_device():
    torch = torch_or_skip()
    if probe().count < 2:
        pytest.skip("one GPU only")
    x = torch.ones(1024, device="cuda:1")
    torch.cuda.set_device(0)
    kernel, read = load(compile_for(1), "scale", 1, 0), view(x, "x")
    with ensure_context(1):
        stream = launch_stream([read])
    kernel.launch((4, 1, 1), 256, ARGS.pack([read.pointer, 1024, 2.0]), stream)
    assert torch.cuda.current_device() == 0 and (x == 2).all()


def test_torch_views():
    torch = torch_or_skip()
    x = torch.zeros(4, 6, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    read = view(x.T[1:], "x")
    assert (read.shape, read.strides, read.dtype, read.device) == ((5, 4), (1, 6), "bf16", 0)
    assert read.pointer == x.data_ptr() + 2
    for bad in (torch.zeros(3, device="meta"), torch.eye(3).to_sparse(), torch.zeros(2, dtype=torch.complex64).conj()):
        with pytest.raises(Exception, match="^B is"):
            view(bad, "B")
    with pytest.raises(Exception, match="negative view"):
        view(torch.zeros(2, dtype=torch.complex64).conj().imag, "B")


def test_cupy_views_and_stream():
    cupy = pytest.importorskip("cupy")
    x = cupy.zeros((4, 6), "f4")
    read = view(x.T[1:], "x")
    assert (read.shape, read.strides, read.dtype, read.device, read.framework) == ((5, 4), (1, 6), "f32", 0, "cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        assert launch_stream([read]) == stream.ptr


def test_dlpack_only_producer():
    torch = torch_or_skip()

    class Capsule:
        def __init__(self, x):
            self.x = x

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

        def __dlpack__(self, **options):
            return self.x.__dlpack__(**options)

    x = torch.zeros(4, 6, device="cuda")
    read = view(Capsule(x.T), "x")
    assert (read.pointer, read.shape, read.strides, read.device) == (x.data_ptr(), (6, 4), (1, 6), 0)
    assert read.framework == "dlpack" and read.stream == 1


def test_measure(cubin):
    spin = load(cubin, "spin", 0, 0)
    with to_device(view(np.zeros(64, "f4"), "x"), 0, 0) as buffer, CudaEventClock(0, 0) as clock:

        def run(cycles):
            return lambda: spin.launch((1, 1, 1), 64, SPIN.pack([buffer.pointer, 64, cycles, 0.0]), 0)

        for cold in (False, True):
            timing = measure_pair(run(220_000), run(200_000), clock=clock, cold=cold, rounds=12)
            assert timing.faster == "b" and timing.speedup.median == pytest.approx(1.1, abs=0.05)
            assert timing.control.median == pytest.approx(1, abs=0.03)
        assert summarise(timing, clock)["device"] == device(0).name


def test_no_context_is_left_behind(cubin):
    api, before = driver(), driver().current()
    load(cubin, "scale", 0, 0).launch((0, 1, 1), 64, 0, 0)
    assert api.current() == before
