"""GEMM on a GPU by the library call: shapes, layouts, frameworks, streams, capture, aliasing (cases B1 to B8)."""

import numpy as np
import pytest

import amk
from amk.runtime.device import probe

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not probe().available, reason="no CUDA device")]
torch = pytest.importorskip("torch") if probe().available else None

SHAPES = [
    (1, 1, 1), (17, 1, 33), (256, 256, 256), (1000, 1000, 1000), (1023, 1025, 1027), (3000, 5000, 777),
    (16, 4096, 4096), (4096, 4096, 4096),
]  # fmt: skip


@pytest.fixture(scope="module")
def gemm():
    return amk.AutoMegaKernelGEMM()


def relative(c, want):
    return float((c.double() - want).norm() / want.norm().clamp_min(1e-30))


def tolerance(k):
    return 4 * 2.0**-24 * (4 + 2 * max(k, 1) ** 0.5)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_shapes_and_layouts(gemm, shape, trans_a, trans_b):
    """Random normal input, poisoned output, against float64."""
    m, n, k = shape
    a = torch.randn(k, m, device="cuda").T if trans_a else torch.randn(m, k, device="cuda")
    b = torch.randn(n, k, device="cuda").T if trans_b else torch.randn(k, n, device="cuda")
    c = torch.full((m, n), float("nan"), device="cuda")
    assert gemm.run(a, b, c) is c
    assert relative(c, a.double() @ b.double()) < tolerance(k)
    assert gemm.last.executor == "cuda" and gemm.last.copies == ()


def test_empty_and_batched(gemm):
    """K = 0, M = 0, a batch of 3 and 70,000 tiny ones (B1, B8)."""
    c = torch.full((4, 5), 2.0, device="cuda")
    empty = torch.empty(4, 0, device="cuda"), torch.empty(0, 5, device="cuda")
    assert (gemm.run(*empty, c.clone(), beta=3.0) == 6).all() and (gemm.run(*empty, c * float("nan")) == 0).all()
    assert gemm.run(torch.empty(0, 4, device="cuda"), torch.randn(4, 3, device="cuda")).shape == (0, 3)
    for batch, m, n, k in ((3, 100, 60, 70), (70_000, 8, 8, 8), (65_536, 8, 1, 8)):
        a, b = torch.randn(batch, m, k, device="cuda"), torch.randn(batch, k, n, device="cuda")
        assert relative(gemm.run(a, b), a.double() @ b.double()) < tolerance(k)


def test_alpha_beta_and_views(gemm):
    """alpha, beta, odd leading dimensions, misaligned bases, a strided and a transposed C."""
    big = torch.randn(600, 700, device="cuda")
    a, b = big[1:301, 3:203], big[:200, 5:255]
    c0 = torch.randn(300, 250, device="cuda")
    want = 1.5 * (a.double() @ b.double()) - 0.5 * c0.double()
    for make in (lambda w: w[3:303, 7:257], lambda w: w.T[3:303, 7:257], lambda w: w[:600:2, :500:2]):
        wide = torch.full((700, 700), 7.0, device="cuda")
        c = make(wide)
        c.copy_(c0)
        gemm.run(a, b, c, alpha=1.5, beta=-0.5)
        assert relative(c, want) < tolerance(200)
        c.fill_(7.0)
        assert (wide == 7).all()


def test_aliases(gemm):
    """C over A: 999 everywhere (B3)."""
    a = torch.ones(999, 999, device="cuda")
    assert (gemm.run(a, a, a) == 999).all() and gemm.last.copies


def test_cupy_and_numpy(gemm):
    """CuPy arrays stay CuPy, NumPy arrays go through the GPU and come back."""
    a, b = np.random.default_rng(0).standard_normal((2, 130, 130)).astype(np.float32)
    want = a.astype(np.float64) @ b
    assert np.linalg.norm(gemm.run(a, b) - want) < 1e-5 * np.linalg.norm(want)
    assert gemm.last.executor == "cuda" and "host" in gemm.last.copies[0]
    cupy = pytest.importorskip("cupy")
    c = gemm.run(cupy.asarray(a), cupy.asarray(b)[::-1, ::-1])
    assert isinstance(c, cupy.ndarray)
    want = a.astype(np.float64) @ b[::-1, ::-1]
    assert np.linalg.norm(c.get() - want) < 1e-5 * np.linalg.norm(want)
    with pytest.raises(amk.AmkError, match="device 0"):
        gemm.run(a, cupy.asarray(b))


def test_streams(gemm):
    """A slow fill on a side stream, the call, and a read on the same stream: always the filled values (B6)."""
    a, b = torch.zeros(512, 512, device="cuda"), torch.eye(512, device="cuda")
    gemm.run(a, b)
    side = torch.cuda.Stream()
    for i in range(50):
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            a.fill_(float(i))
            c = gemm.run(a, b)
            assert float(c.sum()) == i * 512 * 512
    handle = side.cuda_stream
    c = torch.empty(512, 512, device="cuda")
    gemm.run(a, b, c, stream=handle)
    side.synchronize()
    assert (c == a).all()


def test_capture(gemm):
    """A first call under capture works, and so does the replay (B7)."""
    a, b = torch.randn(96, 72, device="cuda"), torch.randn(72, 88, device="cuda")
    c = torch.full((96, 88), float("nan"), device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        amk.AutoMegaKernelGEMM().run(a, b, c)
    assert torch.isnan(c).all()
    graph.replay()
    torch.cuda.synchronize()
    assert relative(c, a.double() @ b.double()) < tolerance(72)


@pytest.mark.parametrize("new_shape", [False, True])
def test_capture_after_a_warm_call(gemm, new_shape):
    """A known call is captured by its plan, and replays with what its inputs then hold; so is a new shape (B7)."""
    n = 112 if new_shape else 104
    a, b, c = (torch.randn(n, n, device="cuda") for _ in range(3))
    if not new_shape:
        gemm.run(a, b, c)
        gemm.run(a, b, c)
        assert gemm.last.seconds is None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gemm.run(a, b, c)
    for _ in range(2):
        a.normal_()
        c.fill_(float("nan"))
        graph.replay()
        assert relative(c, a.double() @ b.double()) < tolerance(n)


@pytest.mark.parametrize("layout", ["plain", "transposed", "odd pitch", "transposed C"])
def test_warm_calls(gemm, layout):
    """The prepared launch gives the right values with other data, addresses, alpha and beta, and for no C."""
    for turn in range(4):
        wide = torch.randn(3, 131, 133, device="cuda")
        a, b, c = wide[0, :100, :120], wide[1, :120, :80], torch.randn(100, 80, device="cuda")
        if layout == "plain":
            a, b = a.contiguous(), b.contiguous()
        elif layout == "transposed":
            a, b = torch.randn(120, 100, device="cuda").T, torch.randn(80, 120, device="cuda").T
        elif layout == "transposed C":
            c = torch.randn(80, 100, device="cuda").T
        want = (turn + 0.5) * (a.double() @ b.double()) - 2 * c.double()
        gemm.run(a, b, c, alpha=turn + 0.5, beta=-2.0)
        assert relative(c, want) < 4 * tolerance(120) and gemm.last.copies == ()
        assert relative(gemm.run(a, b), a.double() @ b.double()) < tolerance(120)
    assert gemm.last.seconds is None


def test_warm_guards(gemm):
    """After a warm call: C over A, another dtype, a negative view, and an argument on the host."""
    a, b, c = (torch.randn(64, 64, device="cuda") for _ in range(3))
    gemm.run(a, b, c)
    gemm.run(a, b, c)
    want = a.double() @ b.double()
    gemm.run(a, b, a)
    assert relative(a, want) < tolerance(64) and gemm.last.copies
    for bad in (b.double(), b.to(torch.int32), torch._neg_view(b), b.cpu(), b.to_sparse()):
        with pytest.raises(amk.AmkError, match="B |B on"):
            gemm.run(c, bad, a)


def test_the_other_gpu(gemm):
    """Arrays on GPU 1 while GPU 0 is current: cold, warm and in another thread's first call (B5)."""
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    import threading

    torch.cuda.set_device(0)
    a, b = torch.randn(96, 96, device="cuda:1"), torch.randn(96, 96, device="cuda:1")
    want, faults = a.double() @ b.double(), []

    def work() -> None:
        try:
            for _ in range(3):
                c = torch.full((96, 96), float("nan"), device="cuda:1")
                gemm.run(a, b, c)
                assert relative(c, want) < tolerance(96) and torch.cuda.current_device() == 0
        except BaseException as fault:
            faults.append(fault)

    work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not faults, faults
    with pytest.raises(amk.AmkError, match="device 1"):
        gemm.run(a, b.to("cuda:0"))


def test_a_forked_child(gemm):
    """The child is told to use spawn, on the warm path too, and can still check kernels (B9)."""
    import os

    a, b, c = (torch.randn(64, 64, device="cuda") for _ in range(3))
    gemm.run(a, b, c)
    gemm.run(a, b, c)
    torch.cuda.synchronize()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            gemm.run(a, b, c)
            text = "ran"
        except BaseException as fault:
            text = f"{type(fault).__name__}: {fault}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    assert "forked after CUDA had started" in text, text
    gemm.run(a, b, c)
    assert relative(c, a.double() @ b.double()) < tolerance(64)


def test_identity_is_exact(gemm):
    """No tf32: identity times 1 + 2**-12 is bit for bit the same (F3)."""
    b = torch.full((64, 64), 1 + 2.0**-12, device="cuda")
    assert torch.equal(gemm.run(torch.eye(64, device="cuda"), b), b)


def test_the_examples_run():
    """Examples 01 to 03 on the device against NumPy."""
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    import ex01_vector_add
    import ex02_transpose
    import ex03_block_reduction

    x, y = torch.randn(100_003, device="cuda"), torch.randn(100_003, device="cuda")
    z = torch.full_like(x, float("nan"))
    amk.compile(ex01_vector_add.build())(x=x, y=y, z=z)
    assert torch.equal(z, x + y)
    m, out = torch.randn(333, 517, device="cuda"), torch.full((517, 333), float("nan"), device="cuda")
    amk.compile(ex02_transpose.build())(source=m, out=out)
    assert torch.equal(out, m.T)
    sums = torch.full((98,), float("nan"), device="cuda")
    amk.compile(ex03_block_reduction.build())(x=x, sums=sums)
    want = torch.nn.functional.pad(x, (0, 98 * 1024 - 100_003)).double().view(98, 1024).sum(1)
    assert torch.allclose(sums.double(), want, atol=1e-3)
