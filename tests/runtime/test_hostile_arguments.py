"""Whatever is handed to a call: the right product, or an AmkError that names the argument; never another answer.

On the CPU executor, against float64, with elements around each output that have to stay as they were.
"""

from __future__ import annotations

import decimal
import fractions
import threading

import numpy as np
import pytest

import amk
from amk.dsl.expr import apply, cdiv
from amk.errors import AmkError, ArgumentError, EnvironmentProblem

RNG = np.random.default_rng(11)
M, N, K = 12, 16, 20
MARK = np.float32(7.25)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def strided(store, shape, strides, offset=0):
    """A view by strides in elements."""
    base = np.ascontiguousarray(store).ravel()[offset:]
    return np.lib.stride_tricks.as_strided(base, shape, [s * 4 for s in strides])


@pytest.fixture(scope="module")
def gemm():
    return amk.AutoMegaKernelGEMM(device="cpu")


def close(got, want):
    return np.linalg.norm(np.asarray(got, np.float64) - want) <= 3e-6 * max(np.linalg.norm(want), 1e-30)


# -- layouts that give a product


def reads(rows, cols):
    """Operands of one shape in every layout that may be read."""
    big = normal(4 * (rows + 8), 4 * (cols + 8))
    yield "plain", normal(rows, cols)
    yield "transposed", normal(cols, rows).T
    yield "rows backwards", normal(rows, cols)[::-1]
    yield "columns backwards", normal(rows, cols)[:, ::-1]
    yield "both backwards, transposed", normal(cols, rows).T[::-1, ::-1]
    yield "every third row", big[1 : 1 + 3 * rows : 3, :cols]
    yield "every third column", big[:rows, 2 : 2 + 3 * cols : 3]
    yield "one row many times", np.broadcast_to(normal(1, cols), (rows, cols))
    yield "one column many times", np.broadcast_to(normal(rows, 1), (rows, cols))
    yield "one number", np.broadcast_to(np.float32(-1.5), (rows, cols))
    yield "sliding window", strided(normal(rows + cols), (rows, cols), (1, 1))
    yield "rows that share elements", strided(normal(rows * 2 + cols), (rows, cols), (2, 1))
    yield "columns that share elements", strided(normal(cols * 2 + rows), (rows, cols), (1, 2))
    for pitch in (cols + 1, cols + 2, cols + 3, cols + 13):
        yield f"odd pitch {pitch}", normal(rows, pitch)[:, :cols]
    for offset in (1, 2, 3):
        yield f"base {4 * offset} bytes off", strided(normal(rows * cols + 4), (rows, cols), (cols, 1), offset)
    frozen = normal(rows, cols)
    frozen.flags.writeable = False
    yield "read-only", frozen
    yield "subclass", normal(rows, cols).view(Lying)


class Lying(np.ndarray):
    """A subclass whose attributes say something else than the array."""

    shape = (10**6, 3)
    strides = (2**40, 4)
    __array_interface__ = {"data": (12345, False)}


def real(x):
    """The plain array under a subclass."""
    return np.asarray(x).astype(np.float64)


@pytest.mark.parametrize(("name", "a"), list(reads(M, K)), ids=lambda v: v if isinstance(v, str) else "")
def test_reading_a(gemm, name, a):
    """A in every layout."""
    b = normal(K, N)
    assert close(gemm.run(a, b), real(a) @ b.astype(np.float64))


@pytest.mark.parametrize(("name", "b"), list(reads(K, N)), ids=lambda v: v if isinstance(v, str) else "")
def test_reading_b(gemm, name, b):
    """B in every layout."""
    a = normal(M, K)
    assert close(gemm.run(a, b), a.astype(np.float64) @ real(b))


WRITES = {
    "plain": lambda w: w[:M, :N], "transposed": lambda w: w[:N, :M].T,
    "backwards": lambda w: w[M - 1 :: -1, N - 1 :: -1],
    "every second": lambda w: w[1 : 2 * M : 2, 3 : 2 * N + 3 : 2], "odd pitch": lambda w: w[5 : 5 + M, 7 : 7 + N],
    "transposed backwards": lambda w: w[:N, :M].T[::-1], "last element": lambda w: w[-M:, -N:],
}  # fmt: skip


@pytest.mark.parametrize("beta", [0.0, -0.75])
@pytest.mark.parametrize("layout", WRITES)
def test_writing_c(gemm, layout, beta):
    """C in every layout that can be written; the elements between and around stay."""
    a, b, store = normal(M, K), normal(K, N), np.full((41, 43), MARK)
    c, old = WRITES[layout](store), normal(M, N)
    c[...] = old
    gemm.run(a, b, c, alpha=1.25, beta=beta)
    assert close(c, 1.25 * (a.astype(np.float64) @ b) + beta * old)
    c[...] = MARK
    assert (store == MARK).all()


@pytest.mark.parametrize(
    ("strides", "says"),
    [((0, 1), "share memory"), ((N, 0), "share memory"), ((0, 0), "share memory"), ((1, 1), "share memory"),
     ((N - 1, 1), "share memory"), ((2, 3), "share memory")],
)  # fmt: skip
def test_outputs_that_cannot_be_written(gemm, strides, says):
    """Two elements of C at one address: refused, and nothing is written."""
    store = np.full(1000, MARK)
    with pytest.raises(ArgumentError, match=f"C .*{says}"):
        gemm.run(normal(M, K), normal(K, N), strided(store, (M, N), strides))
    assert (store == MARK).all()


@pytest.mark.parametrize("which", "ABC")
@pytest.mark.parametrize("offset", [1, 2, 3])
def test_elements_that_straddle(gemm, which, offset):
    """A base that is no multiple of 4 bytes."""
    args = {"A": normal(M, K), "B": normal(K, N), "C": normal(M, N)}
    raw = np.zeros(args[which].nbytes + 8, np.uint8)
    args[which] = raw[offset : offset + args[which].nbytes].view(np.float32).reshape(args[which].shape)
    with pytest.raises(ArgumentError, match=f"{which} starts at .*4-byte"):
        gemm.run(*args.values())
    assert not raw.any()


@pytest.mark.parametrize("which", "ABC")
@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "i1", "?", "c8", ">f4", "O", "U3", "M8[s]", "V4"])
def test_other_dtypes(gemm, which, dtype):
    """float32 of this machine only; the argument is named."""
    args = {"A": normal(M, K), "B": normal(K, N), "C": normal(M, N)}
    args[which] = np.zeros(args[which].shape, dtype)
    with pytest.raises(ArgumentError, match=f"^{which} "):
        gemm.run(*args.values())


@pytest.mark.parametrize(
    ("a", "b"), [((), (K, N)), ((K,), (K, N)), ((M, K), (K,)), ((1, 1, M, K), (K, N)), ((M, K), (K + 1, N)),
                 ((2, M, K), (3, K, N))],
)  # fmt: skip
def test_shapes_that_do_not_multiply(gemm, a, b):
    """Too few or too many dimensions, other k, other batches."""
    with pytest.raises(ArgumentError, match="dimensions|multiply|batches"):
        gemm.run(np.asarray(normal(*a)), normal(*b))


@pytest.mark.parametrize("batch", [(), (0,), (1,), (3,)])
@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (2, 3, 1), (1, 1, 1)])
def test_empty_and_small(gemm, batch, shape):
    """M, N, K or the batch 0 or 1, with and without beta."""
    m, n, k = shape
    a, b, c = normal(*batch, m, k), normal(*batch, k, n), normal(*batch, m, n)
    want = a.astype(np.float64) @ b
    assert close(gemm.run(a, b), want) and gemm.run(a, b).shape == (*batch, m, n)
    assert close(gemm.run(a, b, c.copy(), beta=2.0), want + 2 * c.astype(np.float64))
    assert close(gemm.run(a, b, np.full_like(c, np.nan)), want)


def test_sizes_beyond_the_index(gemm):
    """A size above the largest is refused before anything is allocated; work above the budget likewise."""
    one = normal(1)
    for shape in ((2**31 + 5, 3), (3, 2**31 + 5), (2**40, 1, 1)):
        with pytest.raises(ArgumentError, match=f"{'B' if shape[0] == 3 else 'A'} has shape .*sizes go up to"):
            huge = strided(one, shape, (0,) * len(shape))
            gemm.run(*((normal(2, 3), huge) if shape[0] == 3 else (huge, normal(shape[-1], 2))))
    with pytest.raises(EnvironmentProblem, match="minutes"):
        gemm.run(strided(one, (1, 2**30), (0, 0)), strided(one, (2**30, 1), (0, 0)))


def test_explaining_what_would_be_copied(gemm):
    """explain() takes what run() takes, also a pitch that no kernel addresses, and refuses what run() refuses."""
    far = strided(np.zeros(4, np.float32), (2, 2), (2**31 - 100, 1))
    assert gemm.explain(far, normal(2, 2))["problem"]["lda"] == 2
    assert gemm.explain(normal(9, 9)[::3, ::3], normal(3, 3))["ok"]
    with pytest.raises(ArgumentError, match="C has shape"):
        gemm.explain(normal(2, 2), normal(2, 2), normal(1, 1))
    with pytest.raises(ArgumentError, match="beta is str"):
        gemm.explain(normal(2, 2), normal(2, 2), beta="1")


# -- aliases


@pytest.mark.parametrize("rows", range(-13, 14, 2))
@pytest.mark.parametrize("cols", [-5, 0, 3])
def test_c_anywhere_near_a(gemm, rows, cols):
    """B3: C slides over A in one store; the product is that of the old A, and the rest of the store stays."""
    store, b = normal(48, 48), normal(K, N)
    a, c = store[16 : 16 + M, 10 : 10 + K], store[16 + rows : 16 + rows + M, 10 + cols : 10 + cols + N]
    want, before = a.astype(np.float64) @ b, store.copy()
    gemm.run(a, b, c)
    assert close(c, want)
    c[...] = before[16 + rows : 16 + rows + M, 10 + cols : 10 + cols + N]
    assert (store == before).all()


@pytest.mark.parametrize("pick", [lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::-1].T])
def test_c_is_an_input_seen_otherwise(gemm, pick):
    """C over A and B, transposed or backwards."""
    x = normal(9, 9)
    want = x.astype(np.float64) @ x
    c = pick(x)
    gemm.run(x, x, c)
    assert close(c, want)


def test_interleaved_columns_share_no_element(gemm):
    """Even columns in, odd columns out: A is copied since no row is contiguous, not since it overlaps."""
    x = normal(9, 18)
    want = x[:, ::2].astype(np.float64)
    gemm.run(x[:, ::2], np.eye(9, dtype=np.float32), x[:, 1::2])
    assert close(x[:, 1::2], want) and not any("overlaps" in text for text in gemm.last.copies)


def test_threads_with_their_own_layouts(gemm):
    """B10: sixteen threads, four layouts, one object, one store for all outputs."""
    store, b, faults = np.zeros((16 * M, N), np.float32), normal(K, N), []
    inputs = [[a for _, a in reads(M, K)][i % 8] for i in range(16)]

    def work(i):
        try:
            for _ in range(3):
                gemm.run(inputs[i], b, store[i * M : (i + 1) * M], alpha=float(i))
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    for i in range(16):
        assert close(store[i * M : (i + 1) * M], i * (real(inputs[i]) @ b))


# -- alpha and beta


class Float(float):
    pass


class Convertible:
    def __float__(self):
        return 1.5


NUMBERS = [
    0, 2, -3, 1.5, True, np.True_, np.float32(1.5), np.float64(1.5), np.float16(0.5), np.int64(2), np.uint8(3),
    np.array(1.5), np.array(2), fractions.Fraction(3, 2), Float(1.5), -0.0, 1e-46, 1e-40, 3.4e38,
]  # fmt: skip


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_numbers(gemm, value):
    """Every kind of real number, rounded to float32."""
    a, b, c = normal(M, K), normal(K, N), normal(M, N)
    with np.errstate(over="ignore"):
        exact, single = a.astype(np.float64) @ b, float(np.float32(value))
        for name, want in (("alpha", single * exact), ("beta", exact + single * c.astype(np.float64))):
            got, want = gemm.run(a, b, c.copy(), **{name: value}), want.astype(np.float32)
            assert np.allclose(got, want, rtol=1e-5, atol=1e-5 * max(abs(single), float(name == "beta")))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -np.inf, np.float32("nan")], ids=repr)
def test_numbers_without_a_value(gemm, value):
    """NaN and infinity follow IEEE 754, as in any product; beta that is NaN is not 0, so C is read."""
    a, b, c = normal(M, K), normal(K, N), normal(M, N)
    with np.errstate(all="ignore"):
        exact, f = a.astype(np.float64) @ b, float(value)
        assert np.array_equal(gemm.run(a, b, c.copy(), alpha=value), (f * exact).astype("f4"), equal_nan=True)
        assert np.array_equal(gemm.run(a, b, c.copy(), beta=value), (exact + f * c).astype("f4"), equal_nan=True)


NO_NUMBERS = [
    None, "1.5", b"1", 1j, np.complex64(1), [1.0], (1.0,), np.zeros(1), np.zeros((1, 1)), 1e39, -4e38, 10**400,
    np.longdouble("1e4000"), fractions.Fraction(10**400), decimal.Decimal("1.5"), np.datetime64(1, "s"), object(),
    float, np.array("1"), np.array(1j), Convertible(),
]  # fmt: skip


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: f"{type(v).__name__}-{v!r:.20}")
def test_what_is_no_number(gemm, name, value):
    """Refused by name before C is touched: strings, complex numbers, arrays, what float32 cannot hold."""
    c = np.full((M, N), MARK)
    with pytest.raises(ArgumentError, match=name):
        gemm.run(normal(M, K), normal(K, N), c, **{name: value})
    assert (c == MARK).all()


# -- objects with protocols of their own


class Made:
    """An object with the attributes it is given."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


GOOD = {"shape": (M, K), "typestr": "<f4", "data": (1 << 30, False), "version": 3, "strides": None}


@pytest.mark.parametrize(
    "changes",
    [{"shape": None}, {"shape": (M, -1)}, {"shape": "ab"}, {"shape": (1.5, 2)}, {"shape": 5}, {"typestr": "xyz"},
     {"typestr": None}, {"typestr": "|O8"}, {"typestr": "f4,f4"}, {"data": None}, {"data": (-4, False)},
     {"data": ("x", False)}, {"data": (2**70, False)}, {"data": (1 << 30,)}, {"version": "3"}, {"version": None},
     {"strides": (4,)}, {"strides": (80, "4")}, {"strides": (4.0, 4)}, {"stream": "x"}, {"stream": -1}, {"stream": 1.5},
     {"mask": 0}],
    ids=str,
)  # fmt: skip
def test_array_interfaces_that_do_not_read(gemm, changes):
    """Every field of the wrong kind or outside its range."""
    with pytest.raises(ArgumentError, match="^A "):
        gemm.run(Made(__cuda_array_interface__=GOOD | changes), normal(K, N))


@pytest.mark.parametrize("interface", [None, 5, "x", [], {}], ids=repr)
def test_array_interfaces_that_are_none(gemm, interface):
    """The attribute is there and holds something else."""
    with pytest.raises(ArgumentError, match="^A "):
        gemm.run(Made(__cuda_array_interface__=interface), normal(K, N))


def test_attributes_that_raise(gemm):
    """The producer's own error becomes one that names the argument."""

    class Raises:
        @property
        def __cuda_array_interface__(self):
            raise ValueError("not now")

    with pytest.raises(ArgumentError, match="B .*not now"):
        gemm.run(normal(M, K), Raises())


class Capsule:
    def __init__(self, where, made):
        self.where, self.made = where, made

    def __dlpack_device__(self):
        if isinstance(self.where, Exception):
            raise self.where
        return self.where

    def __dlpack__(self, **options):
        if isinstance(self.made, Exception):
            raise self.made
        return self.made(**options) if callable(self.made) else self.made


@pytest.mark.parametrize(
    ("where", "made"),
    [((1, 0), None), ((1, 0), 5), ((1, 0), ValueError("x")), ((1, 0), KeyError("x")), (None, None), ((1,), None),
     ("ab", None), (("x", "y"), None), ((2, 0), None), ((99, 0), None), (RuntimeError("r"), None), ((1, 0, 3), None),
     ((1.5, 0), None)],
    ids=repr,
)  # fmt: skip
def test_dlpack_producers_that_fail(gemm, where, made):
    """A capsule that is none, a device that is none, errors of every kind."""
    with pytest.raises(ArgumentError, match="^A "):
        gemm.run(Capsule(where, made), normal(K, N))


def test_dlpack_in_and_out(gemm):
    """A producer that works is read and written in place; a read-only one is not written."""
    a, b, c = normal(M, K), normal(K, N), normal(M, N)
    out = Capsule((1, 0), c.__dlpack__)
    assert gemm.run(Capsule((1, 0), a.__dlpack__), b, out) is out and close(c, a.astype(np.float64) @ b)
    c.flags.writeable = False
    with pytest.raises(ArgumentError, match="C is read-only"):
        gemm.run(a, b, out)


@pytest.mark.parametrize("value", [None, 3, 2.5, "A", [[1.0]], object(), np.ndarray, np.float32])
@pytest.mark.parametrize("which", [0, 1])
def test_what_is_no_array(gemm, which, value):
    """Lists, numbers, types: named."""
    args = [normal(M, K), normal(K, N)]
    args[which] = value
    with pytest.raises(ArgumentError, match=f"^{'AB'[which]} "):
        gemm.run(*args)


def test_a_stream_that_is_none(gemm):
    """Also where no stream is used."""
    for stream in ("x", 1.5, -1, True, object()):
        with pytest.raises(ArgumentError, match="not a CUDA stream"):
            gemm.run(normal(M, K), normal(K, N), stream=stream)


# -- any compiled kernel


def scaled(assume=None):
    """z = s * x."""
    k = amk.KernelBuilder("scaled", target="sm_80", threads=64)
    n, s = k.size("n", min=0), k.scalar("s", "f32")
    x, z = k.tensor("x", "f32", (n,)), k.tensor("z", "f32", (n,), access="write")
    a, i = k.registers("a", "f32", (1,)), k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        if assume is not None:
            k.assume(assume(n))
        k.load(a[0], x[i])
        k.store(z[i], a[0] * s)
    return k.finish(grid=(cdiv(n, 64),))


@pytest.fixture(scope="module")
def double():
    return amk.compile(scaled(), device="cpu")


@pytest.mark.parametrize("s", ["2", 1j, [2], 1e39, np.zeros(1), decimal.Decimal(2)], ids=repr)
def test_scalars_of_a_kernel(double, s):
    """As alpha and beta."""
    z = np.full(10, MARK)
    with pytest.raises(ArgumentError, match="s is"):
        double(x=normal(10), z=z, s=s)
    assert (z == MARK).all()


@pytest.mark.parametrize("n", [9, 11, -1, 10.0, "10", True, 2**40], ids=repr)
def test_sizes_of_a_kernel(double, n):
    """A size that the arrays do not have, or that is no integer; NumPy's integers are."""
    x, z = normal(10), np.full(10, MARK)
    with pytest.raises(ArgumentError, match="n = |shape"):
        double(x=x, z=z, s=2.0, n=n)
    assert (z == MARK).all()
    double(x=x, z=z, s=np.float64(2), n=np.int64(10))
    assert (z == 2 * x).all()


@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_assumptions_are_checked_before_a_launch(where, monkeypatch):
    """What a proof assumes of sizes is looked at in each call, on a GPU too, wherever the statement stands."""
    from amk.runtime.kernel import CompiledKernel

    compiled = amk.compile(scaled(lambda n: apply("==", n % 2, 0)), device="cpu")
    ran = []
    if where == "gpu":
        compiled.device = 0
        monkeypatch.setattr(CompiledKernel, "_through_gpu", lambda *args: ran.append(1))
    x, z = normal(11), np.full(11, MARK)
    with pytest.raises(ArgumentError, match=r"n = 11 breaks the assumption"):
        compiled(x=x, z=z, s=1.0)
    assert (z == MARK).all() and not ran
    compiled(x=x[:10], z=z[:10], s=1.0)
    assert ran == [1] if where == "gpu" else (z[:10] == x[:10]).all()


@pytest.mark.parametrize(
    "args",
    [{"x": normal(5, 2)}, {"x": normal(10)[::-1]}, {"z": normal(10)[::-1]}, {"x": None}, {"q": 1},
     {"x": np.broadcast_to(np.float32(1), (10,))}, {"z": normal(10).astype("f8")}],
    ids=lambda args: next(iter(args)),
)  # fmt: skip
def test_arrays_of_a_kernel(double, args):
    """Rank, strides, dtype, names: refused before anything runs."""
    with pytest.raises(AmkError):
        double(**({"x": normal(10), "z": normal(10), "s": 1.0} | args))
