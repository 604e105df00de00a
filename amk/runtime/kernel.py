"""A certified kernel as a callable: `k(x=x, y=y, z=z)` binds sizes from shapes, checks the certificate's facts, runs.

The same descriptor runs on a GPU or on the CPU executor. Facts that a proof used (ranges, divisors, shapes, strides,
alignment, no overlap with what is written) are checked here for every call.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.evaluate import function_of
from amk.dsl.expr import Const, Expr, Var, names
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.nodes import Param
from amk.dsl.target import Target
from amk.dsl.types import DTYPES, ZEROED, nbytes
from amk.errors import AmkError, ArgumentError, EnvironmentProblem, LaunchError
from amk.runtime.arrays import ArrayView, view
from amk.runtime.build import Binary, binary_of, rebuilt
from amk.runtime.extents import as_numpy, overlap, self_overlapping
from amk.runtime.params import as_float32, as_real
from amk.runtime.streams import stream_handle
from amk.synth.logs import RUN, listen

if TYPE_CHECKING:
    from amk.runtime.launch import Loaded

__all__ = ["CompiledKernel", "bind", "check_facts", "check_scalar", "execute_on_cpu"]

CPU_LANE_OPS = 4_000_000_000  # about a minute on two cores
CHECKED_COST = 10  # lane operations that one costs which is looked at for faults: 9 and 13 at GEMMs of 128 and 256


class CompiledKernel:
    """A kernel ready to be called by argument name, on one device (an index) or on the CPU (None).

    `checked` builds it with each access and assumption tested as it runs; a call then waits, and raises KernelFault.
    """

    def __init__(self, kernel: KernelDescriptor, target: Target, device: int | None, *, checked: bool = False) -> None:
        self.kernel, self.target, self.device, self.checked = kernel, target, device, checked
        self._binary: Binary | None = None
        self._rebuilding = threading.Lock()
        listen()
        if device is None:
            self._certify()

    def _certify(self) -> None:
        from amk.harness.certify import certify
        from amk.runtime.meaning import meaning_of

        certify(self.kernel, self.target, reference=meaning_of(self.kernel))

    @property
    def binary(self) -> Binary:
        """The machine code, made at the first use; threads that come at once share the making."""
        if self._binary is None:
            made = binary_of(self.kernel, self.target, checked=self.checked)
            with self._rebuilding:
                self._binary = self._binary or made
        return self._binary

    def load(self) -> Loaded:
        """The kernel on its device. A binary from the cache that the driver refuses is made again, once.

        Raises:  LaunchError, naming both faults where the making fails or its result is refused as well
        """
        found = self.binary
        try:
            return self._loaded(found)
        except LaunchError as fault:
            from amk.runtime.driver import NOT_LOADABLE

            if not found.hit or fault.status not in NOT_LOADABLE:
                raise
            again = self._rebuilt(found, fault)
        return self._loaded(again)

    def _loaded(self, b: Binary) -> Loaded:
        from amk.runtime.launch import load

        assert self.device is not None
        try:
            return load(b.cubin, self.kernel.name, self.device, b.shared_bytes)
        except LaunchError as fault:
            if not b.instead_of:
                raise
            message = f"{fault.message}; it was made again, after the one in the cache: {b.instead_of}"
            raise LaunchError(message, status=fault.status, hint=fault.hint) from fault

    def _rebuilt(self, refused: Binary, fault: LaunchError) -> Binary:
        """The successor of a refused binary: threads that come at once with the same one share it."""
        with self._rebuilding:
            now = self._binary
            if now is None or (now.cubin == refused.cubin and not now.instead_of):
                try:
                    now = self._binary = rebuilt(refused, fault.message)
                except AmkError as second:
                    message = f"{fault.message}; making it again failed: {second.message}"
                    raise LaunchError(message, status=fault.status, hint=second.hint or fault.hint) from second
            return now

    @cached_property
    def _grid(self) -> Any:
        names = tuple(p.name for p in self.kernel.scalars)
        return function_of(self.kernel.grid3, names), names

    @cached_property
    def packer(self) -> Any:
        """Fills the argument block."""
        from amk.runtime.launch import prepare

        plain = ["ptr" if p.shape is not None else p.dtype for p in self.kernel.params]
        turn = ["ptr"] if self.kernel.dispatch == "in_order" else []
        return prepare(plain + ["tmap"] * len(self.kernel.maps) + turn + self._hidden_types())

    def _hidden_types(self) -> list[str]:
        if not self.checked:
            return []
        from amk.runtime.checked import hidden_types

        return hidden_types(self.kernel)

    def grid(self, scalars: Mapping[str, Any]) -> tuple[int, int, int]:
        """Blocks along x, y and z for these sizes."""
        made, names = self._grid
        x, y, z = made(*(scalars[n] for n in names))
        return x, y, z

    def __call__(self, *, stream: object = None, **args: Any) -> None:
        """Runs once. Arrays by parameter name; sizes that stand in shapes or strides are taken from the arrays.

        Raises:  ArgumentError naming the argument that breaks a fact; LaunchError; KernelFault of a checked build
        """
        if stream is not None:
            stream = stream_handle(stream)
        views, scalars = bind(self.kernel, args)
        if self.device is None:
            RUN.info("%s on cpu", self.kernel.name)
            execute_on_cpu(self.kernel, views, scalars, checked=self.checked)
        elif views and all(v.device is None for v in views.values()):
            self._through_gpu(views, scalars, stream)
        else:
            self._launch(views, scalars, stream)

    def _through_gpu(self, views: dict[str, ArrayView], scalars: dict[str, Any], stream: int | None) -> None:
        """Copies host arrays to the GPU, runs there, and copies what was written back; waits for it."""
        from amk.runtime.buffers import to_device, to_host

        assert self.device is not None
        RUN.info("%s on cuda; %s were copied between host and device", self.kernel.name, ", ".join(views))
        handle, written = stream or 0, [p.name for p in self.kernel.tensors if p.access != "read" and p.name in views]
        with ExitStack() as held:
            copies = {n: held.enter_context(to_device(v, self.device, handle, packed=False)) for n, v in views.items()}
            self._launch({n: copies[n].like(v) for n, v in views.items()}, scalars, handle)
            for name in written:
                to_host(copies[name], views[name], handle, packed=False)

    def _launch(self, views: dict[str, ArrayView], scalars: dict[str, Any], stream: object) -> None:
        from amk.runtime.device import ensure_context
        from amk.runtime.launch import launch_stream, release

        assert self.device is not None
        for name, v in views.items():
            if v.device != self.device:
                where = "the host" if v.device is None else f"device {v.device}"
                raise ArgumentError(f"argument {name!r} lies on {where}, and this kernel runs on device {self.device}")
        with ensure_context(self.device):
            loaded = self.load()
            arrays = list(views.values())
            chosen = launch_stream(arrays, stream)
            self.prepare_outputs(views, chosen)
            with self._worked_in(views, scalars, chosen) as (brought, turn), self._watched(brought, chosen) as hidden:
                params = self.packer.pack([*self.values(brought, scalars), *turn, *hidden])
                together = self.kernel.dispatch == "resident"
                loaded.launch(self.grid(scalars), self.kernel.threads, params, chosen, together=together)
                release(arrays, chosen, stream)

    def _worked_in(
        self, views: dict[str, ArrayView], scalars: dict[str, Any], stream: int
    ) -> AbstractContextManager[tuple[dict[str, ArrayView], Sequence[int]]]:
        """All arrays of a launch, those of the workspace brought where the caller gave none, and where blocks count."""
        if self.kernel.dispatch != "in_order" and len(views) == len(self.kernel.tensors):
            return nullcontext((views, ()))
        from amk.runtime.workspace import workspace

        assert self.device is not None
        return workspace(self.kernel, views, scalars, self.device, stream)

    def _watched(self, views: Mapping[str, ArrayView], stream: int) -> AbstractContextManager[Sequence[int]]:
        """The hidden arguments of a launch, and what is done after it."""
        if not self.checked:
            return nullcontext(())
        from amk.runtime.checked import watched

        assert self.device is not None
        return watched(self.kernel, views, self.device, stream)

    def prepare_outputs(self, views: Mapping[str, ArrayView], stream: int) -> None:
        """Zeroes the tensors that the kernel adds to or works in; row by row where rows are apart."""
        from amk.runtime.device import driver

        for p in self.kernel.tensors:
            v = views.get(p.name)
            if p.access not in ZEROED or v is None or 0 in v.shape:
                continue
            rows, pitch, width = _rows(v)
            for r in range(rows):
                driver().fill(v.pointer + r * pitch, 0, width, stream)

    def values(self, views: Mapping[str, ArrayView], scalars: Mapping[str, Any]) -> list[Any]:
        """Arguments in the kernel's order, and after them the tensor maps."""
        plain = [views[p.name].pointer if p.shape is not None else scalars[p.name] for p in self.kernel.params]
        if not self.kernel.maps:
            return plain
        from amk.runtime.tensor_maps import encoded_maps

        return plain + encoded_maps(self.kernel, views)


def _rows(v: ArrayView) -> tuple[int, int, int]:
    """Rows, bytes between rows and bytes of a row of a matrix whose rows are contiguous."""
    size = nbytes(v.dtype)
    if len(v.shape) == 2:
        rows, cols = v.shape
        return (1, 0, rows * cols * size) if v.strides[0] == cols else (rows, v.strides[0] * size, cols * size)
    count = 1
    for n in v.shape:
        count *= n
    return 1, 0, count * size


def bind(kernel: KernelDescriptor, args: Mapping[str, Any]) -> tuple[dict[str, ArrayView], dict[str, Any]]:
    """Views and scalars of a call, every declared fact checked. Raises ArgumentError."""
    known = {p.name for p in kernel.params}
    if unknown := sorted(args.keys() - known):
        raise ArgumentError(f"the kernel has no argument {unknown[0]!r}", hint=f"it takes {', '.join(sorted(known))}")
    views: dict[str, ArrayView] = {}
    scalars = {p.name: args[p.name] for p in kernel.scalars if p.name in args}
    for p in kernel.tensors:
        if p.name not in args:
            if p.access == "workspace":  # the launcher brings it
                continue
            raise ArgumentError(f"argument {p.name!r} is missing")
        views[p.name] = view(args[p.name], p.name)
        _take_sizes(p, views[p.name], scalars, kernel)
    for p in kernel.scalars:
        check_scalar(p, scalars)
    check_facts(kernel, views, scalars)
    return views, scalars


def check_facts(kernel: KernelDescriptor, views: Mapping[str, ArrayView], scalars: Mapping[str, Any]) -> None:
    """Refuses arrays and sizes outside what the proofs rest on: tensors, overlap, assumptions. Raises ArgumentError."""
    for p in kernel.tensors:
        if p.name in views:
            _check_tensor(p, views[p.name], scalars, kernel)
    _check_overlap(kernel, views)
    for fact in _assumptions(kernel):
        used = tuple(sorted(names(fact)))
        if not function_of((fact,), used)(*(scalars[n] for n in used))[0]:
            given = ", ".join(f"{n} = {scalars[n]}" for n in used)
            raise ArgumentError(f"{given} breaks the assumption {fact}, which the proof of this kernel rests on")


@lru_cache(maxsize=256)
def _assumptions(kernel: KernelDescriptor) -> tuple[Expr, ...]:
    """Every assumption, wherever it stands: the checker takes each for the whole kernel."""
    return tuple(s.fact for _, s in walk(kernel.body) if s.kind == "assume")


def _take_sizes(p: Param, v: ArrayView, scalars: dict[str, Any], kernel: KernelDescriptor) -> None:
    """Gives a value to every size that stands alone in the shape or the strides."""
    if len(v.shape) != len(p.shape or ()):
        raise ArgumentError(f"argument {p.name!r} has {len(v.shape)} dimensions; the kernel takes {len(p.shape or ())}")
    for e, n in (*zip(p.shape or (), v.shape, strict=True), *zip(kernel.strides_of(p), v.strides, strict=True)):
        if isinstance(e, Var) and e.name not in scalars:
            scalars[e.name] = n


def check_scalar(p: Param, scalars: dict[str, Any]) -> None:
    """Refuses a scalar outside the range and divisor that were proved; makes floats of float arguments."""
    value = scalars.get(p.name)
    if value is None:
        raise ArgumentError(f"argument {p.name!r} is missing and stands in no shape")
    if p.dtype in ("f32", "f64"):
        scalars[p.name] = as_float32(value, p.name) if p.dtype == "f32" else as_real(value, p.name)
        return
    if isinstance(value, np.integer):
        value = scalars[p.name] = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not p.min <= value <= p.max or value % p.multiple_of:
        raise ArgumentError(
            f"{p.name} = {value!r} is outside what was proved: a multiple of {p.multiple_of} in [{p.min}, {p.max}]"
        )


def _check_tensor(p: Param, v: ArrayView, scalars: Mapping[str, Any], kernel: KernelDescriptor) -> None:
    if v.dtype != p.dtype:
        raise ArgumentError(f"argument {p.name!r} is {v.dtype}; the kernel takes {p.dtype}")
    want = tuple(_value(e, scalars) for e in p.shape or ())
    if want != v.shape:
        raise ArgumentError(f"argument {p.name!r} has shape {v.shape}; the kernel takes {want}")
    steps = tuple(_value(e, scalars) for e in kernel.strides_of(p))
    if 0 not in v.shape and any(n > 1 and a != b for n, a, b in zip(v.shape, steps, v.strides, strict=True)):
        raise ArgumentError(f"argument {p.name!r} has strides {v.strides}; the kernel takes {steps}")
    if v.pointer % p.align and 0 not in v.shape:
        found = v.pointer & -v.pointer
        raise ArgumentError(f"argument {p.name!r} is aligned to {found} bytes; the kernel needs {p.align}")
    if p.access != "read" and v.readonly:
        raise ArgumentError(f"argument {p.name!r} is read-only, and the kernel writes it")
    if p.access != "read" and self_overlapping(v):
        raise ArgumentError(f"argument {p.name!r} has elements that share memory (strides {v.strides})")


def _value(e: Expr, scalars: Mapping[str, Any]) -> int:
    if isinstance(e, Const):
        return int(e.value)
    if isinstance(e, Var):
        return int(scalars[e.name])
    names = tuple(n for n, x in scalars.items() if isinstance(x, int))
    return int(function_of((e,), names)(*(scalars[n] for n in names))[0])


def _check_overlap(kernel: KernelDescriptor, views: Mapping[str, ArrayView]) -> None:
    for w in kernel.tensors:
        if w.access == "read" or w.name not in views:
            continue
        for other in kernel.tensors:
            if other.name in views and other.name != w.name and overlap(views[w.name], views[other.name]):
                message = f"{w.name!r} is written and overlaps {other.name!r}"
                raise ArgumentError(message, hint="pass a copy of one of them")


def execute_on_cpu(
    kernel: KernelDescriptor, views: Mapping[str, ArrayView], scalars: Mapping[str, Any],
    budget: float | None = CPU_LANE_OPS, *, checked: bool = False,
) -> None:  # fmt: skip
    """Runs the kernel on the CPU executor; `checked` looks for faults as it runs.

    Raises:  EnvironmentProblem above the budget of lane operations; KernelFault of a checked run
    """
    from amk.harness.interpret import Fault, estimate_lane_ops, run

    for name, v in views.items():
        if v.device is not None:
            raise ArgumentError(f"argument {name!r} lies on device {v.device}, and this kernel runs on the CPU")
    sizes = {n: x for n, x in scalars.items() if isinstance(x, int)}
    cost = estimate_lane_ops(kernel, sizes) * (CHECKED_COST if checked else 1)
    if budget is not None and cost > budget:
        raise EnvironmentProblem(
            f"the CPU executor would take about {cost / CPU_LANE_OPS:.0f} minutes for this call",
            hint="use a GPU, a smaller problem, or AutoMegaKernelGEMM(cpu_budget=None)",
        )
    arrays = {name: as_numpy(v) for name, v in views.items()}
    for p in kernel.tensors:
        if p.name not in arrays:
            shape = [_value(e, scalars) for e in p.shape or ()]
            arrays[p.name] = np.zeros(shape, DTYPES[p.dtype].numpy)
        elif p.access in ZEROED:
            arrays[p.name][...] = 0
    try:
        run(kernel, {**arrays, **scalars}, detect=checked)
    except Fault as fault:
        from amk.runtime.checked import kernel_fault

        raise kernel_fault(kernel, fault) from None
