"""The warm path of a GEMM call, on a driver that runs what it is given: the right values, and every guard of a call."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
import pytest
from fake_driver import ExecutingDriver
from fake_torch import Parameter, Tensor, module

from amk.api import AutoMegaKernelGEMM
from amk.errors import AmkError, ArgumentError, EnvironmentProblem
from amk.runtime import arrays, gemm_plan, streams
from amk.runtime import device as devices
from amk.runtime import kernel as kernels
from amk.runtime.build import Binary
from amk.runtime.device import current_device, ensure_context
from amk.runtime.place import device_target

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs of different models, and torch."""
    fake = ExecutingDriver(("sm_90a", "sm_86"))

    def binary_of(kernel, target, *, checked=False):
        image = fake.image(kernel, target.architecture.name)
        return Binary(kernel, target, image, "", "", "", 64, 0, kernel.shared_bytes, False)

    monkeypatch.setattr(kernels, "binary_of", binary_of)
    monkeypatch.setitem(sys.modules, "torch", module())
    monkeypatch.setattr(streams, "_RAW", {})
    monkeypatch.setattr(arrays, "_READERS", {})
    monkeypatch.setattr(gemm_plan, "_TORCH", gemm_plan._Torch())
    device_target.cache_clear()
    devices.install(fake)
    yield fake
    devices.install(None)
    device_target.cache_clear()


@pytest.fixture
def gemm(gpus):
    return AutoMegaKernelGEMM()


def close(got, want):
    got = got.array if isinstance(got, Tensor) else got
    return np.linalg.norm(got - want) <= 2e-6 * max(np.linalg.norm(want), 1e-30)


def product(a, b):
    return a.array.astype(np.float64) @ b.array


def warmed(gpus):
    """Launches that a plan made."""
    return len(gpus.calls("prepared"))


LAYOUTS = {
    "plain": lambda w: w[:12, :20],
    "transposed": lambda w: w[:20, :12].T,
    "odd pitch": lambda w: w[1:13, 3:23],
    "vector": lambda w: w[4:16, 4:24],
}


@pytest.mark.parametrize("c_layout", LAYOUTS)
@pytest.mark.parametrize("b_layout", LAYOUTS)
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_values(gpus, gemm, a_layout, b_layout, c_layout):
    """Any layout of A, B and C, cold and warm, with new data at other addresses and new alpha and beta."""
    for turn in range(3):
        a = Tensor(LAYOUTS[a_layout](normal(40, 40)))
        b = Tensor(LAYOUTS[b_layout](normal(40, 40)).T)
        c = Tensor(LAYOUTS[c_layout](np.full((40, 40), 7, np.float32))[:, :12])
        alpha, beta = turn + 0.5, turn - 3.25
        want = alpha * product(a, b) + beta * c.array
        assert gemm.run(a, b, c, alpha=alpha, beta=beta) is c and close(c, want)
        base = c.array.base
        c.array[...] = 7
        assert (base == 7).all()
    assert gemm.last.executor == "cuda" and gemm.last.copies == ()
    assert warmed(gpus) == 2 and gemm.last.seconds is None


def warm(gemm, gpus, device=0, n=16):
    """Three square tensors whose call has a plan."""
    a, b, c = (Tensor(normal(n, n), device) for _ in range(3))
    gemm.run(a, b, c)
    before = warmed(gpus)
    gemm.run(a, b, c)
    assert warmed(gpus) == before + 1 and close(c, product(a, b)) and gemm.last.seconds is None
    return a, b, c


def test_a_batch_and_a_result_of_its_own(gpus, gemm):
    """C comes from torch on the warm path too, with the right shape, and is another each time."""
    a, b = Tensor(normal(3, 8, 12)), Tensor(normal(12, 16))
    first, second = gemm.run(a, b), gemm.run(a, b)
    assert warmed(gpus) == 1 and second.shape == (3, 8, 16) and second is not first
    assert close(first, product(a, b)) and close(second, product(a, b))


def test_parameters_are_tensors(gpus, gemm):
    """A weight is an nn.Parameter."""
    a, b, c = warm(gemm, gpus)
    gemm.run(a, Parameter(b.array), c)
    assert warmed(gpus) == 2


def test_a_subclass_takes_the_general_path(gpus, gemm):
    """What a subclass calls its attributes is its own business."""
    a, b, c = warm(gemm, gpus)

    class Odd(Tensor):
        pass

    Odd.__module__ = "elsewhere"
    for args in ((Odd(a.array), b, c), (a, Odd(b.array), c), (a, b, Odd(c.array))):
        taken = []
        general = gemm.plans.run_views
        gemm.plans.run_views = lambda *x, general=general, taken=taken: taken.append(1) or general(*x)
        gemm.run(*args)
        del gemm.plans.run_views
        assert taken == [1]


# -- what a key cannot hold


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["torch.float64", "torch.int32", "torch.float16"])
def test_another_dtype(gpus, gemm, which, dtype):
    """The same shapes, strides and addresses, but other numbers in memory."""
    args = list(warm(gemm, gpus))
    args[which] = Tensor(args[which].array, dtype=dtype)
    launches = len(gpus.calls("launch"))
    with pytest.raises(ArgumentError, match=f"{'ABC'[which]} "):
        gemm.run(*args)
    assert len(gpus.calls("launch")) == launches


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_negative_view(gpus, gemm, which):
    """Memory holds the other sign."""
    args = list(warm(gemm, gpus))
    args[which] = Tensor(args[which].array, neg=True)
    with pytest.raises(ArgumentError, match=f"{'ABC'[which]} is a negative view"):
        gemm.run(*args)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_tensor_without_memory(gpus, gemm, which):
    """Functional tensors say that they lie at address 0."""
    args = list(warm(gemm, gpus))
    launches = len(gpus.calls("launch"))

    args[which] = Tensor(args[which].array)
    args[which].data_ptr = lambda: 0
    with pytest.raises(ArgumentError, match=f"{'ABC'[which]} has elements, but no memory"):
        gemm.run(*args)
    assert len(gpus.calls("launch")) == launches


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("place", [1, None])
def test_another_place(gpus, gemm, which, place):
    """B5: one argument on the other GPU or on the host, everything else as before."""
    args = list(warm(gemm, gpus))
    args[which] = Tensor(args[which].array, place)
    launches = len(gpus.calls("launch"))
    with pytest.raises(ArgumentError, match=f"{'ABC'[which]} on {'device 1' if place else 'the host'}"):
        gemm.run(*args)
    assert len(gpus.calls("launch")) == launches


@pytest.mark.parametrize("shift", [-8, -1, 0, 1, 8])
@pytest.mark.parametrize("over", [0, 1])
def test_c_over_an_input_after_a_call_apart(gpus, gemm, over, shift):
    """B3 with a plan at hand: C over A or B, exactly or by some rows, gives the product of the old values."""
    a, b, _ = warm(gemm, gpus)
    store = normal(32, 16)
    args = [a, b]
    args[over] = Tensor(store[8:24])
    c, want = Tensor(store[8 + shift : 24 + shift]), product(*args)
    gemm.run(*args, c)
    assert close(c, want) and any("overlaps" in text for text in gemm.last.copies)


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("shift", [-255, 255, -256, 256])
def test_c_over_an_input_by_one_element(gpus, gemm, over, shift):
    """The last element of one is the first of the other; one element further they are apart, and warm."""
    store, other = normal(256 * 3 + 4), normal(257)[1:].reshape(16, 16)
    gemm.run(*(Tensor(normal(257)[1:].reshape(16, 16)) for _ in range(3)))
    args = [Tensor(other), Tensor(other)]
    at = 257 if shift > 0 else 256
    args[over] = Tensor(store[at : at + 256].reshape(16, 16))
    c = Tensor(store[at + shift : at + 256 + shift].reshape(16, 16))
    assert (args[0].data_ptr() | args[1].data_ptr() | c.data_ptr()) & 15 == 4  # so there is a plan
    want = product(*args)
    gemm.run(*args, c)
    assert close(c, want) and bool(gemm.last.copies) == (abs(shift) == 255)


@pytest.mark.parametrize("first", ["C", "A"])
def test_neighbours_in_one_store_stay_on_the_warm_path(gpus, gemm, first):
    """C ends where A begins, or the other way round: that is no overlap."""
    _, b, _ = warm(gemm, gpus)
    store = normal(32, 16)
    low, high = Tensor(store[:16]), Tensor(store[16:])
    a, c = (high, low) if first == "C" else (low, high)
    want = product(a, b)
    gemm.run(a, b, c)
    assert warmed(gpus) == 2 and close(c, want)


def test_another_alignment(gpus, gemm):
    """The same shapes and strides one element further: another kernel, since this one needs 16 bytes."""
    warm(gemm, gpus)
    for which in range(3):
        a, b, c = (Tensor(np.zeros(16 * 16 + 4, np.float32)[i == which :][:256].reshape(16, 16)) for i in range(3))
        a.array[...], b.array[...] = normal(16, 16), normal(16, 16)
        assert (a.data_ptr() | b.data_ptr() | c.data_ptr()) & 15 == 4
        gemm.run(a, b, c)
        assert close(c, product(a, b))
    assert warmed(gpus) == 3  # one alignment of all three decides, so the second and third had a plan


def test_beta_zero_never_reads_c(gpus, gemm):
    """B2 on the warm path, in both orders."""
    a, b, c = warm(gemm, gpus)
    for beta in (1.0, 0.0, -0.0, 2.0, 0.0):
        c.array[...] = np.nan if not beta else 1
        gemm.run(a, b, c, beta=beta)
        assert close(c, product(a, b) + beta)


# -- where and when


def test_the_current_stream_is_asked_each_time(gpus, gemm):
    """B6: torch's current stream of the arrays' device, or the given one."""
    a, b, c = warm(gemm, gpus)
    torch = sys.modules["torch"]
    for handle in (0x500, 0x600):
        torch.streams[0] = handle
        gemm.run(a, b, c)
        assert gpus.calls("launch")[-1][4] == handle
    gemm.run(a, b, c, stream=0x700)
    assert gpus.calls("launch")[-1][4] == 0x700 and warmed(gpus) == 4
    with pytest.raises(ArgumentError, match="not a CUDA stream"):
        gemm.run(a, b, c, stream="1")


@pytest.mark.parametrize("current", [None, 0, 1])
def test_tensors_on_gpu_1_whatever_is_current(gpus, gemm, current):
    """B5: cold and warm, the result is right, the launch is in context 1, and the caller's context is as it was."""
    a, b, c = (Tensor(normal(16, 16), 1) for _ in range(3))

    def calls():
        for _ in range(3):
            c.array[...] = np.nan
            gemm.run(a, b, c)
            assert close(c, product(a, b)) and gpus.calls("launch")[-1][-1] == 1

    if current is None:
        calls()
        assert gpus.stack == []
        return
    with ensure_context(current):
        calls()
        assert gpus.context_device() == current


def test_two_models_in_one_machine(gpus, gemm):
    """C7: the same call on both GPUs gives two kernels, each for its own target; the warm path keeps them apart."""
    for turn in range(3):
        for device in (0, 1):
            a, b, c = (Tensor(normal(16, 16), device) for _ in range(3))
            gemm.run(a, b, c)
            assert close(c, product(a, b)) and gpus.calls("launch")[-1][-1] == device
            assert warmed(gpus) == (2 * turn - 1 + device if turn else 0)
    loaded = gpus.calls("load")
    assert sorted(index for index, _ in loaded) == [0, 1]
    targets = {call.target.architecture.name for call in gemm._calls.values()}
    assert targets == {"sm_90a", "sm_86"}


def test_a_limit_follows_the_device_of_the_arguments(gpus, gemm):
    """C7: the schedule for the smaller GPU fits the smaller GPU's shared memory."""
    for device, limit in ((0, 232448), (1, 101376)):
        a, b = (Tensor(normal(256, 256), device) for _ in range(2))
        told = gemm.explain(a, b)
        assert told["target"].startswith(("sm_90a", "Fake sm_90a") if device == 0 else ("sm_86", "Fake sm_86"))
        assert gemm.explain(a, b)["ok"] and limit >= 101376


def test_a_fork_after_a_warm_call(gpus, gemm):
    """B9: the child is told, on the warm path as on the other; the parent goes on."""
    a, b, c = warm(gemm, gpus)

    def child():
        launches = len(gpus.calls("launch"))
        try:
            gemm.run(a, b, c)
        except EnvironmentProblem as fault:
            return f"{fault} {len(gpus.calls('launch')) - launches}"
        return "ran"

    assert in_child(child).endswith(" 0")
    with ensure_context(0):  # inherited by the child's thread: only the runtime tells that it is another process
        text = in_child(child)
    assert "forked after CUDA had started" in text and text.endswith(" 0")
    gemm.run(a, b, c)
    assert warmed(gpus) == 2


def test_a_fork_that_python_does_not_see(gpus, gemm, monkeypatch):
    """B9: a fork made in C runs no hook of Python's; the process id tells, where the driver would only refuse."""
    args = [Exposed(normal(16, 16)) for _ in range(3)]
    gemm.run(*args)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(EnvironmentProblem, match="forked"):
        gemm.run(*args)


def test_checking_in_a_forked_child(gpus, gemm):
    """B9: a child that only checks needs no GPU."""
    warm(gemm, gpus)
    kernel = next(iter(gemm._calls.values())).kernel

    def child():
        from amk.harness.check import check

        return str(check(kernel).ok)

    assert in_child(child) == "True"


def in_child(work) -> str:
    """What `work` returns in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = work()
        except BaseException as fault:
            text = f"{type(fault).__name__}: {fault}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text


def test_another_driver(gpus, gemm):
    """A plan of a runtime that is gone is not used."""
    a, b, c = warm(gemm, gpus)
    other = ExecutingDriver(("sm_90a", "sm_86"))
    other.kernels = gpus.kernels
    devices.install(other)
    gemm.run(a, b, c)
    assert len(other.calls("launch")) == 1 and close(c, product(a, b))


@pytest.mark.parametrize("first", ["cold", "warm", "new shape"])
def test_inside_a_capture(gpus, gemm, first):
    """B7: a call inside a capture is recorded on the captured stream and breaks nothing, known or not."""
    a, b, c = (Tensor(normal(16, 16)) for _ in range(3))
    if first != "cold":
        gemm.run(a, b, c)
    if first == "new shape":
        a, b, c = (Tensor(normal(24, 24)) for _ in range(3))
    gpus.capturing[0x100] = "active"
    c.array[...] = np.nan
    gemm.run(a, b, c)
    assert gpus.capturing[0x100] == "active" and gpus.calls("launch")[-1][4] == 0x100
    assert np.isnan(c.array).all() and gpus.mode == "global"
    assert not [e for e in gpus.log if e[0] in ("synchronize", "sync_stream", "record", "wait")]


def test_threads(gpus, gemm):
    """B10: eight threads on one plan, each with its own numbers, streams and `last`."""
    warm(gemm, gpus)
    faults, gate = [], threading.Barrier(8)

    def work(number):
        rng = np.random.default_rng(number)
        gate.wait()
        try:
            for turn in range(20):
                a, b, c = (Tensor(rng.standard_normal((16, 16)).astype(np.float32)) for _ in range(3))
                gemm.run(a, b, c, alpha=float(number), stream=0x1000 + number)
                assert close(c, number * product(a, b)), turn
                assert gemm.last.executor == "cuda"
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


def test_a_call_inside_a_call(gpus, gemm, monkeypatch):
    """A signal handler that multiplies between packing and launching does not change what is launched."""
    a, b, c = warm(gemm, gpus)
    x, y, z = (Tensor(normal(16, 16)) for _ in range(3))
    launch, inside = gpus.launch_prepared, []

    def interrupted(*args):
        if not inside:
            inside.append(1)
            gemm.run(x, y, z, alpha=3.0)
        launch(*args)

    monkeypatch.setattr(gpus, "launch_prepared", interrupted)
    c.array[...] = np.nan
    gemm.run(a, b, c)
    assert close(c, product(a, b)) and close(z, 3 * product(x, y))


def test_a_refused_launch(gpus, gemm, monkeypatch):
    """The driver's answer is an error, and the next call is whole."""
    a, b, c = warm(gemm, gpus)
    with monkeypatch.context() as patch:

        def refuse(*_):
            raise gpus.fail("CUDA_ERROR_ILLEGAL_ADDRESS")

        patch.setattr(gpus, "launch_prepared", refuse)
        with pytest.raises(AmkError, match="ILLEGAL_ADDRESS"):
            gemm.run(a, b, c)
    gemm.run(a, b, c)
    assert close(c, product(a, b))


# -- what is left to the general path


def test_no_c_and_a_stream_or_beta(gpus, gemm):
    """Memory for C comes from the stream that fills it; beta needs a C."""
    a, b, c = warm(gemm, gpus)
    gemm.run(a, b, c, beta=1.0)
    gemm.run(a, b)
    assert gemm.last.seconds is None
    launches = len(gpus.calls("launch"))
    for beta in (1.0, float("nan")):
        with pytest.raises(ArgumentError, match="no C is given"):
            gemm.run(a, b, beta=beta)
    assert len(gpus.calls("launch")) == launches
    gemm.run(a, b, stream=0x500)
    assert gemm.last.seconds is not None and gpus.calls("launch")[-1][4] == 0x500
    assert sys.modules["torch"].made_on[-1] == 0x500


@pytest.mark.parametrize("value", [1e39, -1e300, 10**400, "1", None, 1j, [1.0], np.zeros(1), np.ones((1, 1))])
def test_alpha_and_beta_that_are_no_float32(gpus, gemm, value):
    """Named, cold and warm, before anything is launched."""
    cold = Tensor(normal(8, 8))
    for args in (warm(gemm, gpus), (cold, cold, Tensor(normal(8, 8)))):
        launches = len(gpus.calls("launch"))
        for name in ("alpha", "beta"):
            with pytest.raises(ArgumentError, match=name):
                gemm.run(*args, **{name: value})
        assert len(gpus.calls("launch")) == launches


@pytest.mark.parametrize("value", [2, np.float32(2), np.int8(2), np.float64(2), np.array(2.0), np.array(2), True])
def test_alpha_of_another_kind_of_number(gpus, gemm, value):
    """Integers and NumPy's scalars are numbers."""
    a, b, c = warm(gemm, gpus)
    gemm.run(a, b, c, alpha=value)
    assert close(c, float(value) * product(a, b)) and warmed(gpus) == 2


def test_shapes_that_have_no_plan(gpus, gemm):
    """A wrong shape with a plan for the right one at hand."""
    a, b, c = warm(gemm, gpus)
    for args in ((a, Tensor(normal(15, 16)), c), (a, b, Tensor(normal(16, 15))), (a, b, Tensor(normal(1, 16, 16)))):
        with pytest.raises(ArgumentError, match="A .*B|shape"):
            gemm.run(*args)


def test_no_end_of_plans(gpus, gemm, monkeypatch):
    """A program with ever new shapes does not keep them all."""
    monkeypatch.setattr(gemm_plan, "KEPT", 6)
    for n in range(1, 12):
        a, b, c = (Tensor(normal(n, n)) for _ in range(3))
        gemm.run(a, b, c)
        assert len(gemm.plans._plans) <= 7
    gemm.run(a, b, c)
    assert warmed(gpus) == 1 and close(c, product(a, b))


def test_a_kernel_that_adds(gpus, gemm, monkeypatch):
    """Split-k adds into a zeroed C: each warm call zeroes it, and where C has gaps there is no plan."""
    from amk import api
    from amk.ops.gemm import GemmSchedule

    made = GemmSchedule(bm=32, bn=32, bk=8, tm=4, tn=4, stages=2, split_k=2)
    monkeypatch.setattr(api, "proposed", lambda problem, target, *_: api.build(problem, made, target))
    a, b, c = (Tensor(normal(16, 16)) for _ in range(3))
    for _ in range(3):
        gemm.run(a, b, c)
        assert close(c, product(a, b))
    assert warmed(gpus) == 2
    wide = np.full((16, 20), 7, np.float32)
    c = Tensor(wide[:, :16])
    for _ in range(3):
        gemm.run(a, b, c)
        assert close(c, product(a, b)) and (wide[:, 16:] == 7).all()
    assert warmed(gpus) == 2


# -- other frameworks


class Exposed:
    """A producer with the CUDA array interface only."""

    def __init__(self, array, stream=None, readonly=False):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": "<f4", "data": (array.ctypes.data, readonly), "version": 3,
            "strides": array.strides, "stream": stream,
        }  # fmt: skip


def test_array_interface_plans_wait_for_their_producers(gpus, gemm):
    """B11 with a plan: the stream of each producer is waited for, and waits for the launch, every time."""
    a, b, c = Exposed(normal(16, 16), 0x77), Exposed(normal(16, 16)), Exposed(normal(16, 16))
    for turn in range(3):
        gemm.run(a, b, c, stream=0x55)
        assert close(c.array, product(a, b)) and warmed(gpus) == turn
        assert [e[1] for e in gpus.calls("record")] == [0x77, 0x55] * (turn + 1)


def test_a_read_only_c_with_a_plan_at_hand(gpus, gemm):
    """The same addresses, but C must not be written."""
    a, b, c = (Exposed(normal(16, 16)) for _ in range(3))
    gemm.run(a, b, c)
    with pytest.raises(ArgumentError, match="C is read-only"):
        gemm.run(a, b, Exposed(c.array, readonly=True))


def test_torch_and_others_mixed(gpus, gemm):
    """A plan of tensors serves no array of another framework without the waits that it needs."""
    a, b, c = warm(gemm, gpus)
    gemm.run(a, Exposed(b.array, 0x99), c)
    assert close(c, product(a, b)) and [e[1] for e in gpus.calls("record")] == [0x99, 0x100]


def test_last_belongs_to_the_thread(gpus, gemm):
    """A warm call's record is made when it is asked for."""
    warm(gemm, gpus)
    assert gemm.last.kernel.startswith("gemm") and gemm.last.seconds is None and gemm.last.executor == "cuda"
    seen = []

    def ask():
        with pytest.raises(ArgumentError, match="has not called run"):
            _ = gemm.last
        seen.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert seen
    assert current_device() == 0


# -- what the general path checks of itself


def test_a_kernel_that_does_not_suit_the_call(gpus, gemm, monkeypatch):
    """A kernel proved for 16-byte bases is not launched on another base, whoever chose it."""
    from amk import api

    monkeypatch.setattr(
        api,
        "proposed",
        lambda problem, target, *rest, made=api.proposed: made(problem.model_copy(update={"align": 16}), target, *rest),
    )
    a = Tensor(normal(16 * 16 + 1).ravel()[1:].reshape(16, 16))
    with pytest.raises(ArgumentError, match="'A' is aligned to 4 bytes; the kernel needs 16"):
        gemm.run(a, Tensor(normal(16, 16)), Tensor(normal(16, 16)))
    assert gpus.calls("launch") == []


@pytest.mark.parametrize("place", [0, 1])
def test_a_compiled_kernel_and_the_place_of_its_arguments(gpus, place):
    """B5 for any kernel: arguments on its device run there, others are refused by name."""
    from amk.dsl.builder import KernelBuilder
    from amk.dsl.target import Target
    from amk.runtime.kernel import CompiledKernel

    k = KernelBuilder("copy_it", target="sm_80", threads=32)
    x, z, r = k.tensor("x", "f32", (32,)), k.tensor("z", "f32", (32,), access="write"), k.registers("r", "f32", (1,))
    k.load(r[0], x[k.t])
    k.store(z[k.t], r[0])
    kernel = CompiledKernel(k.finish(grid=(1,)), Target.find("sm_86"), 1)
    source, result = Tensor(normal(32), place), Tensor(np.zeros(32, np.float32), 1)
    if place == 1:
        kernel(x=source, z=result)
        assert (result.array == source.array).all() and gpus.calls("launch")[-1][-1] == 1 and gpus.stack == []
        return
    with pytest.raises(ArgumentError, match="'x' lies on device 0, and this kernel runs on device 1"):
        kernel(x=source, z=result)
    assert gpus.calls("launch") == []


def copies(name: str = "copy_it"):
    """Copies 32 elements, by a kernel for device 1."""
    from amk.dsl.builder import KernelBuilder
    from amk.dsl.target import Target
    from amk.runtime.kernel import CompiledKernel

    k = KernelBuilder(name, target="sm_80", threads=32)
    x, z, r = k.tensor("x", "f32", (1, 32)), k.tensor("z", "f32", (32,), access="write"), k.registers("r", "f32", (1,))
    k.load(r[0], x[0, k.t])
    k.store(z[k.t], r[0])
    return CompiledKernel(k.finish(grid=(1,)), Target.find("sm_86"), 1)


def test_host_arguments_of_a_compiled_kernel_are_copied_to_its_device_and_back(gpus):
    source, result = normal(32), np.full(32, np.nan, np.float32)
    copies()(x=source.reshape(1, 32), z=result)
    assert (result == source).all() and gpus.calls("launch")[-1][-1] == 1 and gpus.stack == []


def test_host_and_device_arguments_together_are_refused_by_name(gpus):
    result = np.full(32, np.nan, np.float32)
    with pytest.raises(ArgumentError, match="'x' lies on the host, and this kernel runs on device 1"):
        copies()(x=normal(32).reshape(1, 32), z=Tensor(result, 1))
    assert gpus.calls("launch") == [] and np.isnan(result).all()


def test_host_arguments_keep_their_distances_and_what_lies_between(gpus):
    """A pitch is the caller's: elements go where it says, and nothing else of the host is written."""
    from amk.dsl.builder import KernelBuilder
    from amk.dsl.target import Target
    from amk.runtime.kernel import CompiledKernel

    k = KernelBuilder("pitched", target="sm_80", threads=32)
    ld = k.scalar("ld", "i64", min=1, max=4096)
    x, r = k.tensor("x", "f32", (3, 32), strides=(ld, 1)), k.registers("r", "f32", (1,))
    z = k.tensor("z", "f32", (3, 32), access="write", strides=(ld, 1))
    k.load(r[0], x[k.bx, k.t])
    k.store(z[k.bx, k.t], r[0])
    wide, out = normal(3, 50), np.full((3, 50), -7, np.float32)
    CompiledKernel(k.finish(grid=(3,)), Target.find("sm_86"), 1)(x=wide[:, 9:41], z=out[:, 4:36])
    assert (out[:, 4:36] == wide[:, 9:41]).all()
    assert (out[:, :4] == -7).all() and (out[:, 36:] == -7).all()
