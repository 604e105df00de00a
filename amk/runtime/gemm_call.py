"""One GEMM call: arrays in any layout come in; a problem, a prepared kernel and a result come out.

Operands are taken as they lie where rows or columns are contiguous; a column-major C is computed as the transposed
product. What no kernel addresses (a general stride, an operand that C overlaps) is copied, and the copy is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from amk.dsl.target import Target
from amk.errors import ArgumentError
from amk.ops.gemm import LARGEST, Gemm
from amk.runtime.arrays import ArrayView, view
from amk.runtime.extents import alignment, overlap, self_overlapping
from amk.runtime.frameworks import contiguous, copy_into, empty
from amk.runtime.kernel import CompiledKernel, check_facts, check_scalar, execute_on_cpu
from amk.runtime.params import as_float32
from amk.runtime.place import device_index, target_of
from amk.runtime.streams import stream_handle

if TYPE_CHECKING:
    from amk.api import AutoMegaKernelGEMM

__all__ = ["GemmCall", "execute", "problem_of"]


class GemmCall(CompiledKernel):
    """A compiled GEMM that takes prepared operands."""

    cache_hit = False

    def scalars(self, p: Gemm, o: Operands, alpha: float, beta: float) -> dict[str, Any]:
        """Every scalar parameter of the kernel for this call."""
        lda, ldb, ldc = p.leading
        known: dict[str, Any] = {
            "M": p.m, "N": p.n, "K": p.k, "lda": lda, "ldb": ldb, "ldc": ldc, "alpha": alpha, "beta": beta,
            "batch": p.batch, "batch_a": o.a.strides[0], "batch_b": o.b.strides[0], "batch_c": o.c.strides[0],
        }  # fmt: skip
        values = {s.name: known[s.name] for s in self.kernel.scalars}
        for s in self.kernel.scalars:
            check_scalar(s, values)
        return values


@dataclass(frozen=True, slots=True)
class Operands:
    """The three matrices as the kernel will see them (always with a batch dimension), and what was copied."""

    a: ArrayView
    b: ArrayView
    c: ArrayView
    copies: tuple[str, ...]


def execute(
    owner: AutoMegaKernelGEMM, A: Any, B: Any, C: Any, alpha: Any, beta: Any, stream: Any
) -> tuple[Any, GemmCall | None, tuple[str, ...]]:
    """Runs one call; returns C, the kernel used (None where nothing had to run) and the copies made."""
    alpha, beta = as_float32(alpha, "alpha"), as_float32(beta, "beta")
    if stream is not None:
        stream = stream_handle(stream)
    a, b = view(A, "A"), view(B, "B")
    if C is None:
        _shapes(a, b)
        if beta:
            raise ArgumentError("beta is not 0 and no C is given", hint="pass C, or leave beta at 0")
    out = C if C is not None else empty(a, _result_shape(a, b), stream)
    c = view(out, "C")
    plan = owner.plans.run_views(a, b, c, alpha, beta, stream)
    if plan is not None:
        return out, plan.call, ()
    _shapes(a, b)
    _check(a, b, c)
    if c.device is None and (index := _gpu_for_host(owner)) is not None:
        return _through_gpu(owner, a, b, c, alpha, beta, index, out, stream)
    if 0 in c.shape:
        return out, None, ()
    o, landing = _prepare(a, b, c, stream)
    call, scalars, swap = _run(owner, o, alpha, beta, stream)
    copies = o.copies
    if call.device is not None and landing is None and not copies and not owner.checked:
        owner.plans.add(call, scalars, swap, a, b, c, beta)
    if landing is not None:
        copy_into(out, landing, stream)
        copies += ("C was written through a copy: no row or column of it is contiguous",)
    return out, call, copies


def _run(
    owner: AutoMegaKernelGEMM, o: Operands, alpha: float, beta: float, stream: object
) -> tuple[GemmCall, dict[str, Any], bool]:
    """Runs prepared operands; returns the kernel used, its scalars, and whether A and B changed places."""
    swap = o.c.strides[2] != 1 and o.c.shape[2] > 1
    if swap:  # a column-major C: its transpose is row-major and is the product of the transposes, in turn
        o = Operands(_transposed(o.b), _transposed(o.a), _transposed(o.c), o.copies)
    problem = _problem(o, beta)
    call = owner.call_for(problem, o.c.device)
    scalars = call.scalars(problem, o, alpha, beta)
    views = {"A": _stored(o.a, problem.trans_a), "B": _stored(o.b, problem.trans_b), "C": _row_major(o.c)}
    if problem.batch == 1:
        views = {n: replace(v, shape=v.shape[1:], strides=v.strides[1:]) for n, v in views.items()}
    check_facts(call.kernel, views, scalars)
    if call.device is None:
        execute_on_cpu(call.kernel, views, scalars, owner.cpu_budget, checked=owner.checked)
    else:
        call._launch(views, scalars, stream)
        call.cache_hit = call.binary.hit
    return call, scalars, swap


def problem_of(owner: AutoMegaKernelGEMM, A: Any, B: Any, C: Any, beta: Any) -> tuple[Gemm, Target]:
    """The problem and the target of a call, without running it: what would be copied is taken as packed."""
    beta = as_float32(beta, "beta")
    a, b = view(A, "A"), view(B, "B")
    _shapes(a, b)
    c = view(C, "C") if C is not None else _packed(a, _result_shape(a, b))
    _check(a, b, c)
    a, b, c = (v if _addressable(_three(v)) else _packed(v, v.shape) for v in (a, b, c))
    device = a.device if a.device is not None else _gpu_for_host(owner)
    return _problem(Operands(_three(a), _three(b), _three(c), ()), beta), target_of(device)


# -------------------------------------------------------------------------------------------------------------- checks
def _shapes(a: ArrayView, b: ArrayView) -> None:
    for name, v in (("A", a), ("B", b)):
        if v.dtype != "f32":
            raise ArgumentError(f"{name} is {v.dtype}; supported: f32", hint=f"convert {name} to float32")
        if len(v.shape) not in (2, 3):
            raise ArgumentError(f"{name} has {len(v.shape)} dimensions; it takes 2, or 3 with a batch")
        if max(v.shape) > LARGEST:
            raise ArgumentError(f"{name} has shape {v.shape}; sizes go up to {LARGEST}")
    if a.shape[-1] != b.shape[-2]:
        raise ArgumentError(f"A {a.shape} and B {b.shape} do not multiply: k is {a.shape[-1]} and {b.shape[-2]}")
    batches = {v.shape[0] for v in (a, b) if len(v.shape) == 3} - {1}
    if len(batches) > 1:
        raise ArgumentError(f"A {a.shape} and B {b.shape} have different batches")


def _result_shape(a: ArrayView, b: ArrayView) -> tuple[int, ...]:
    batch = max((v.shape[0] for v in (a, b) if len(v.shape) == 3), default=None, key=lambda n: (n != 1, n))
    return (() if batch is None else (batch,)) + (a.shape[-2], b.shape[-1])


def _check(a: ArrayView, b: ArrayView, c: ArrayView) -> None:
    if c.dtype != "f32":
        raise ArgumentError(f"C is {c.dtype}; supported: f32", hint="pass a float32 C")
    if c.shape != _result_shape(a, b):
        raise ArgumentError(f"C has shape {c.shape}; A {a.shape} times B {b.shape} is {_result_shape(a, b)}")
    if c.readonly:
        raise ArgumentError("C is read-only, and run() writes it")
    if self_overlapping(c):
        raise ArgumentError(f"C has elements that share memory (strides {c.strides})", hint="pass a C of its own")
    places = {n: "the host" if v.device is None else f"device {v.device}" for n, v in (("A", a), ("B", b), ("C", c))}
    if len(set(places.values())) > 1:
        where = ", ".join(f"{n} on {p}" for n, p in places.items())
        raise ArgumentError(f"arguments lie in different places: {where}", hint="move them to one device")


# ------------------------------------------------------------------------------------------------------------- layouts
def _three(v: ArrayView) -> ArrayView:
    return v if len(v.shape) == 3 else replace(v, shape=(1, *v.shape), strides=(0, *v.strides))


def _transposed(v: ArrayView) -> ArrayView:
    b, r, c = v.shape
    sb, sr, sc = v.strides
    return replace(v, shape=(b, c, r), strides=(sb, sc, sr))


def _packed(like: ArrayView, shape: tuple[int, ...]) -> ArrayView:
    return replace(like, shape=shape, strides=tuple(prod(shape[i + 1 :]) for i in range(len(shape))), pointer=256)


def _prepare(a: ArrayView, b: ArrayView, c: ArrayView, stream: object) -> tuple[Operands, Any]:
    """Operands the kernels can address; and where C has to be written through a copy, that copy."""
    copies: list[str] = []
    landing = None
    if not _addressable(_three(c)):
        landing = contiguous(c, stream)
        c = view(landing, "C")
    made = []
    for name, v in (("A", a), ("B", b)):
        if overlap(v, c):
            copies.append(f"{name} was copied: C overlaps it")
            v = view(contiguous(v, stream), name)
        elif not _addressable(_three(v)):
            copies.append(f"{name} was copied: no row or column of it is contiguous")
            v = view(contiguous(v, stream), name)
        made.append(_batched(_three(v), _three(c).shape[0]))
    return Operands(made[0], made[1], _three(c), tuple(copies)), landing


def _batched(v: ArrayView, batch: int) -> ArrayView:
    """The operand with a batch of 1 repeated by a stride of 0."""
    return v if v.shape[0] == batch else replace(v, shape=(batch, *v.shape[1:]), strides=(0, *v.strides[1:]))


def _addressable(v: ArrayView) -> bool:
    """Rows or columns are contiguous, the other stride and the batch's go forward and fit."""
    _, r, c = v.shape
    sb, sr, sc = v.strides
    if sb < 0 or sb > 2**40:
        return False
    row = (c <= 1 or sc == 1) and (r <= 1 or max(c, 1) <= sr <= LARGEST)
    column = (r <= 1 or sr == 1) and (c <= 1 or max(r, 1) <= sc <= LARGEST)
    return row or column


def _is_row_major(v: ArrayView) -> bool:
    _, r, c = v.shape
    return (c <= 1 or v.strides[2] == 1) and (r <= 1 or v.strides[1] >= max(c, 1))


def _row_major(v: ArrayView) -> ArrayView:
    """The view with the strides of extents 1 made canonical: last 1, row pitch as the leading dimension."""
    return replace(v, strides=(v.strides[0], _pitch(v), 1))


def _pitch(v: ArrayView) -> int:
    return v.strides[1] if v.shape[1] > 1 else max(v.shape[2], 1)


def _stored(v: ArrayView, trans: bool) -> ArrayView:
    return _row_major(_transposed(v) if trans else v)


def _problem(o: Operands, beta: float) -> Gemm:
    ta, tb = not _is_row_major(o.a), not _is_row_major(o.b)
    sa, sb = _stored(o.a, ta), _stored(o.b, tb)
    batch, m, k = o.a.shape
    strided = [v for v in (o.a, o.b, o.c) if batch > 1 and v.strides[0] % 4]
    align = min(16, *(alignment(v) for v in (o.a, o.b, o.c)), 4 if strided else 16)
    return Gemm(
        m=m, n=o.b.shape[2], k=k, batch=batch, trans_a=ta, trans_b=tb, lda=_pitch(sa), ldb=_pitch(sb),
        ldc=_pitch(o.c), beta="any" if beta else "zero", align=align,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------- host arrays through a GPU
def _gpu_for_host(owner: AutoMegaKernelGEMM) -> int | None:
    return device_index(owner.device)


def _through_gpu(
    owner: AutoMegaKernelGEMM, a: ArrayView, b: ArrayView, c: ArrayView, alpha: float, beta: float, index: int,
    out: Any, stream: int | None,
) -> tuple[Any, GemmCall | None, tuple[str, ...]]:  # fmt: skip
    """Copies host arguments to a GPU, runs there, copies C back; waits for it."""
    from amk.runtime.launch import allocate, to_device, to_host

    if 0 in c.shape:
        return out, None, ()
    handle = stream or 0
    with to_device(a, index, handle) as da, to_device(b, index, handle) as db:
        made = to_device(c, index, handle) if beta else allocate(prod(c.shape) * 4, index, handle)
        with made as dc:
            views = [buffer.array(v.shape, "f32") for buffer, v in ((da, a), (db, b), (dc, c))]
            o, _ = _prepare(views[0], views[1], views[2], handle)
            call, _, _ = _run(owner, o, alpha, beta, handle)
            to_host(dc, c, handle)
    return out, call, ("A, B and C were copied between host and device", *o.copies)
