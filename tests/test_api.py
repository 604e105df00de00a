"""The library call on the CPU executor: layouts, views, aliasing, zero sizes, refusals (field cases B1 to B4, F3)."""

import threading
import time

import numpy as np
import pytest

import amk
from amk.dsl.evaluate import function_of
from amk.errors import AmkError, ArgumentError, EnvironmentProblem
from amk.harness.samples import vector_add

RNG = np.random.default_rng(5)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def gemm():
    return amk.AutoMegaKernelGEMM(device="cpu")


def close(got, want):
    return np.linalg.norm(got - want) <= 2e-6 * max(np.linalg.norm(want), 1e-30)


def test_it_multiplies_and_says_what_ran(gemm):
    """The result is right, fresh, and `last` names the executor."""
    a, b = normal(17, 33), normal(33, 9)
    c = gemm.run(a, b)
    assert close(c, a.astype(np.float64) @ b) and c.dtype == np.float32
    assert gemm.last.executor == "cpu" and gemm.last.kernel.startswith("gemm") and gemm.last.copies == ()


def views():
    big = normal(40, 60)
    yield "transposed", normal(20, 12).T, normal(16, 20).T
    yield "sliced", big[2:14, 3:23], big[5:25, 7:20]
    yield "odd base", big[:12, 1:21], big[1:21, 3:19]
    yield "negative strides", big[11::-1, :20], big[:20, 19::-1]
    yield "every second", big[:24:2, :40:2], big[:40:2, :26:2]
    yield "broadcast", np.broadcast_to(normal(1, 20), (12, 20)), normal(20, 16)
    yield "column", big[:12, :20], big[:20, 4:5]


@pytest.mark.parametrize(("name", "a", "b"), list(views()), ids=lambda v: v if isinstance(v, str) else "")
def test_views(gemm, name, a, b):
    """Any strides give the contiguous copy's result."""
    assert close(gemm.run(a, b), a.astype(np.float64) @ b)


def test_strided_outputs_leave_their_surroundings_alone(gemm):
    """B4: a column block, a transposed and a strided C are written, and nothing beside them."""
    a, b = normal(12, 20), normal(20, 8)
    for pick in (lambda w: w[3:15, 5:13], lambda w: w.T[4:16, 2:10], lambda w: w[:24:2, :16:2]):
        wide = np.full((40, 40), 7.0, np.float32)
        c = pick(wide)
        assert gemm.run(a, b, c) is c and close(c, a.astype(np.float64) @ b)
        c[...] = 7.0
        assert (wide == 7.0).all()


def test_k_zero_and_beta(gemm):
    """B1, B2: K = 0 gives beta * C; beta = 0 never reads C."""
    a, b = np.empty((2, 0), np.float32), np.empty((0, 2), np.float32)
    c = np.array([[1, 2], [3, 4]], np.float32)
    assert (gemm.run(a, b, c.copy(), beta=2) == 2 * c).all()
    assert (gemm.run(a, b, c.copy(), beta=1) == c).all()
    assert (gemm.run(a, b, np.full((2, 2), np.nan, np.float32)) == 0).all()
    assert gemm.run(np.empty((0, 3), np.float32), normal(3, 4)).shape == (0, 4)
    x, y = normal(9, 9), normal(9, 9)
    for junk in (np.nan, np.inf):
        assert close(gemm.run(x, y, np.full((9, 9), junk, np.float32)), x.astype(np.float64) @ y)


def test_alpha_beta(gemm):
    """C := alpha A B + beta C."""
    a, b, c = normal(10, 6), normal(6, 11), normal(10, 11)
    want = 1.5 * (a.astype(np.float64) @ b) - 0.25 * c
    assert close(gemm.run(a, b, c, alpha=1.5, beta=-0.25), want)


def test_output_aliases_input(gemm):
    """B3: C over A, over B or overlapping by a row gives the product of the old values, by a stated copy."""
    a = normal(9, 9)
    want = a.astype(np.float64) @ a
    assert close(gemm.run(a, a, a), want) and any("overlaps" in c for c in gemm.last.copies)
    store = normal(20, 9)
    x, y = store[:9], store[8:17]
    want = x.astype(np.float64) @ np.eye(9)
    assert close(gemm.run(x, np.eye(9, dtype=np.float32), y), want)
    left, right = store[:9, :4], store[:9, 4:8]
    want = left.astype(np.float64) @ np.eye(4)
    assert close(gemm.run(left, np.eye(4, dtype=np.float32), right), want) and gemm.last.copies == ()


def test_batches(gemm):
    """A batch on both sides, on one side, and of size 1."""
    a, b = normal(3, 7, 5), normal(3, 5, 6)
    assert close(gemm.run(a, b), a.astype(np.float64) @ b)
    assert close(gemm.run(a[0], b), a[0].astype(np.float64) @ b)
    assert close(gemm.run(a[:1], b[:1]), a[:1].astype(np.float64) @ b[:1])


def test_float32_is_exact_where_float32_is(gemm):
    """F3: identity times 1 + 2**-12 comes back bit for bit: no tf32."""
    b = np.full((64, 64), 1 + 2.0**-12, np.float32)
    assert (gemm.run(np.eye(64, dtype=np.float32), b) == b).all()


@pytest.mark.parametrize(
    ("args", "kw", "says"),
    [
        ((normal(2, 3), normal(4, 5)), {}, "k is 3 and 4"),
        ((normal(2, 3).astype(np.float64), normal(3, 5)), {}, "supported: f32"),
        ((normal(2, 3), normal(3, 5)), {"beta": 1.0}, "no C is given"),
        ((normal(2, 3), normal(3, 5), normal(2, 4)), {}, "shape"),
        ((normal(2), normal(2, 2)), {}, "dimensions"),
        (("A", normal(2, 2)), {}, "A"),
        ((normal(2, 2, 2), normal(3, 2, 2)), {}, "batch"),
        ((normal(2, 3), normal(3, 2), np.broadcast_to(np.float32(0), (2, 2))), {}, "C"),
    ],
)
def test_bad_arguments(gemm, args, kw, says):
    """Every wrong argument is an ArgumentError that names it, before anything runs."""
    with pytest.raises(ArgumentError, match=says):
        gemm.run(*args, **kw)


def test_the_cpu_budget(gemm):
    """Work above the stated budget is refused with an estimate, not begun."""
    with pytest.raises(EnvironmentProblem, match="minutes"):
        amk.AutoMegaKernelGEMM(device="cpu", cpu_budget=1000).run(normal(64, 64), normal(64, 64))


def at_once(works):
    """What each of the functions gave or raised, all started together."""
    ready, found = threading.Barrier(len(works)), [None] * len(works)

    def run(i, work):
        ready.wait()
        try:
            found[i] = work()
        except BaseException as fault:
            found[i] = fault

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return found


@pytest.fixture
def certified(monkeypatch):
    """The kernels that were certified; a fault in `raises` is raised instead. It takes a while, so that others come."""
    from amk.harness import certify

    real, names, raises = certify.certify, [], []

    def slow(kernel, *args, **kw):
        names.append(kernel.name)
        time.sleep(0.3)
        if raises:
            raise raises[0]
        return real(kernel, *args, **kw)

    monkeypatch.setattr(certify, "certify", slow)
    return names, raises


def test_sixteen_threads(certified):
    """B10: one certification for sixteen first calls; each result is right, each thread has its own `last`."""
    gemm, a, b = amk.AutoMegaKernelGEMM(device="cpu"), normal(20, 20), normal(20, 20)
    want = a.astype(np.float64) @ b
    found = at_once([lambda: close(gemm.run(a, b), want) and gemm.last.executor] * 16)
    assert found == ["cpu"] * 16 and len(certified[0]) == 1


def test_sixteen_keys_do_not_wait_for_each_other(certified):
    """B10: a call that is known runs while another is being made."""
    gemm, a, b = amk.AutoMegaKernelGEMM(device="cpu"), normal(20, 20), normal(20, 20)
    gemm.run(a, b)
    made, hit = [], threading.Event()

    def first():
        gemm.run(a.T, b)
        made.append(hit.is_set())

    def known():
        gemm.run(a, b)
        hit.set()

    at_once([first, known])
    assert made == [True] and len(certified[0]) == 2


def test_a_failing_key_fails_for_all_and_is_tried_again(certified):
    """B10: sixteen threads see one exception, nothing is left half-made, and the next call is free."""
    gemm, a, b = amk.AutoMegaKernelGEMM(device="cpu"), normal(20, 20), normal(20, 20)
    fault = EnvironmentProblem("no prover today")
    certified[1].append(fault)
    assert at_once([lambda: gemm.run(a, b)] * 16) == [fault] * 16 and len(certified[0]) == 1
    certified[1].clear()
    assert close(gemm.run(a, b), a.astype(np.float64) @ b) and len(certified[0]) == 2


@pytest.mark.parametrize("batch", [65_535, 65_536, 100_000])
@pytest.mark.parametrize("n", [8, 1])
def test_batches_beyond_a_grid(batch, n, monkeypatch):
    """B8: more matrices than grid z may count. The batch lies along grid x; blocks around the limits are run."""
    from amk.harness import interpret
    from amk.runtime.launch import MAX_GRID_YZ

    real, some, grids = interpret.run, [0, 1, 65_534, 65_535, 65_536, batch - 1], []

    def picked(kernel, args, **kw):
        if any(kw.values()) or args["batch"] != batch:  # the certificate's own runs
            return real(kernel, args, **kw)
        grids.append(grid_of(kernel, args))
        return real(kernel, args, blocks=[(x, 0, 0) for x in sorted(set(some)) if x < batch])

    monkeypatch.setattr(interpret, "run", picked)
    a, b, c = normal(batch, 8, 8), normal(batch, 8, n), np.full((batch, 8, n), np.nan, np.float32)
    amk.AutoMegaKernelGEMM(device="cpu", cpu_budget=None).run(a, b, c)
    assert grids[-1][0] == batch and max(grids[-1][1:]) <= MAX_GRID_YZ
    ran = [x for x in sorted(set(some)) if x < batch]
    assert close(c[ran], a[ran].astype(np.float64) @ b[ran]) and np.isnan(np.delete(c, ran, 0)).all()


def grid_of(kernel, args):
    """Blocks along x, y and z of a call."""
    names = tuple(p.name for p in kernel.scalars)
    return function_of(kernel.grid3, names)(*(args[n] for n in names))


def test_explain(gemm):
    """explain() names the kernel, its reasons, the number of proved obligations and the launch facts."""
    told = gemm.explain(normal(128, 64), normal(64, 128))
    assert told["ok"] and told["proved"] > 100 and told["reasons"] and told["facts"] and told["predicted_seconds"] > 0


def test_the_objective_is_one_of_three():
    """An unknown one is refused when the object is made, not ignored."""
    with pytest.raises(ArgumentError, match="there is no objective 'speed'"):
        amk.AutoMegaKernelGEMM(device="cpu", objective="speed")


def test_sums_in_any_order_are_the_callers_choice(gemm):
    """Only with deterministic=False a long k is shared out between blocks; explain says so, and the result is right."""
    free = amk.AutoMegaKernelGEMM(device="cpu", deterministic=False)
    a, b = normal(16, 4096), normal(4096, 16)
    assert gemm.explain(a, b)["schedule"]["split_k"] == 1
    told = free.explain(a, b)
    assert told["schedule"]["split_k"] > 1 and "last bits" in told["reasons"]["split_k"]
    assert close(free.run(a, b), a.astype(np.float64) @ b)


def test_any_certified_kernel_is_callable():
    """amk.compile makes a callable of a kernel from the builder; sizes come from the arrays."""
    from amk.dsl.expr import cdiv

    k = amk.KernelBuilder("double_it", target="sm_80", threads=64)
    n = k.size("n", min=0)
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a = k.registers("a", "f32", (1,))
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        k.load(a[0], x[i])
        k.store(z[i], a[0] + a[0])
    f = amk.compile(k.finish(grid=(cdiv(n, 64),)), device="cpu")
    data, out = normal(1000), np.empty(1000, np.float32)
    f(x=data, z=out)
    assert (out == 2 * data).all()
    with pytest.raises(AmkError, match="overlaps"):
        f(x=data, z=data)
    with pytest.raises(AmkError, match="shape"):
        f(x=data, z=out[:10])
    with pytest.raises(AmkError, match="no argument"):
        f(x=data, z=out, y=1)


@pytest.mark.parametrize("device", [
    1.5, None, True, -1, "", "cuda:", "cuda:x", "cuda:-1", "cuda:\u0661", "cudax", "CUDA", "gpu", "-1", b"cpu",
    "cuda:" + "9" * 30, np.ones(1), np.True_,
])  # fmt: skip
@pytest.mark.parametrize("backend", ["", "cpu"])
def test_a_device_that_is_none(device, backend, monkeypatch):
    """Refused when the object is made, with the words that are known; AMK_BACKEND=cpu excuses no misspelling."""
    monkeypatch.setenv("AMK_BACKEND", backend)
    makes = (lambda: amk.AutoMegaKernelGEMM(device=device), lambda: amk.compile(vector_add(), device=device))
    for make in makes:
        with pytest.raises(ArgumentError, match=r"unknown device(?s:.*)'auto', 'cpu', 'cuda'"):
            make()


@pytest.mark.parametrize("device", [7, np.int64(7), "cuda:7"])
@pytest.mark.parametrize("count", [None, 2])
def test_a_gpu_that_is_not_there(device, count, monkeypatch):
    """Named when the object is made, on a machine with fewer GPUs and on one with none."""
    from amk.runtime import device as devices

    monkeypatch.delenv("AMK_BACKEND", raising=False)
    monkeypatch.setattr(devices, "Driver", lambda: Gpus(count))
    devices.install(None)
    says = "no CUDA device: no driver" if count is None else "no GPU 7(?s:.*)0 to 1"
    for make in (lambda: amk.AutoMegaKernelGEMM(device=device), lambda: amk.compile(vector_add(), device=device)):
        with pytest.raises(EnvironmentProblem, match=says):
            make()
    assert amk.AutoMegaKernelGEMM().device == "auto"
    devices.install(None)


class Gpus:
    """A driver that only counts its devices; None: there is no driver."""

    def __init__(self, count):
        self.count = count

    def start(self):
        if self.count is None:
            raise EnvironmentProblem("no driver")

    def device_count(self):
        return self.count

    def device_name(self, index):
        return f"fake {index}"

    def release(self):
        return None

    def version(self):
        return 13000


@pytest.mark.parametrize("budget", ["x", -1, float("nan"), True, (1,)])
def test_a_budget_that_is_none(budget):
    """A number of lane operations, or None."""
    with pytest.raises(ArgumentError, match="cpu_budget"):
        amk.AutoMegaKernelGEMM(device="cpu", cpu_budget=budget)


@pytest.mark.parametrize("budget", [None, 0, 4e9, float("inf")])
def test_budgets(budget):
    """None and infinity are no limit, and a float is a number."""
    amk.AutoMegaKernelGEMM(device="cpu", cpu_budget=budget)
