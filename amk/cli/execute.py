"""`amk run` and `amk bench`: an operator on random data against its float64 reference, a descriptor on given arrays,
and an operator against a peer."""

from __future__ import annotations

import math
import os
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amk.cli.output import clean, say, say_json, table
from amk.errors import ArgumentError, EnvironmentProblem, InputError

if TYPE_CHECKING:
    from amk.dsl.kernel import KernelDescriptor
    from amk.ops.family import Problem

__all__ = ["add_bench", "add_run", "run_operator"]


# ---------------------------------------------------------------------------------------------------------------- run
def add_run(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk run`: those of an operator's problem, or the arguments of a descriptor."""
    from amk.cli.options import add_problem
    from amk.ops import REGISTRY

    parser.add_argument("what", metavar="OPERATOR|FILE")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--seed", type=_natural, default=0, metavar="N", help="of random data")
    parser.add_argument("--checked", action="store_true", help="test each access and assumption as the kernel runs")
    parser.add_argument("--json", action="store_true")
    if name := next((a for a in argv if a in REGISTRY), None):
        add_problem(parser, REGISTRY[name])
        parser.set_defaults(run=run_operator_command)
        return
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="a .npy file or a number")
    parser.add_argument("--out", action="append", default=[], metavar="NAME=FILE", help="where to write an array")
    parser.set_defaults(run=run_file)
    _refuse_unknown_operator(parser, argv)


def _refuse_unknown_operator(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Options that no descriptor takes, after a name that is no file: meant as an operator."""
    from amk.cli.options import find_family

    words = [a for a in argv if a not in ("-h", "--help")]
    if any(not a.startswith("-") for a in words):
        known, left = parser.parse_known_args(words)
        if left and known.what != "-" and not os.path.exists(known.what):
            find_family(known.what)


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ArgumentTypeError(f"{clean(text, 40)!r} is no number from 0 on")
    return int(text)


def run_operator_command(args: Namespace) -> int:
    """Runs an operator on random data; 1 if the result is outside the tolerance."""
    from amk.cli.options import find_family, problem_of

    problem = problem_of(args, find_family(args.what))
    facts = run_operator(args.what, problem, device=args.device, seed=args.seed, checked=args.checked)
    if args.json:
        say_json(facts)
    else:
        say(table([(k, _short(v)) for k, v in facts.items()]))
    return 0 if facts["right"] else 1


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else ", ".join(value) if isinstance(value, list) else str(value)


def run_operator(
    name: str, problem: Problem, *, device: str = "auto", seed: int = 0, checked: bool = False
) -> dict[str, Any]:
    """What one run of an operator on random data did: executor, kernel, seconds of the call (not of what comes before
    it), and the relative error against float64 with its limit.

    Raises:  EnvironmentProblem, before anything is allocated, for more than the CPU executor does in about a minute;
             KernelFault of a `checked` run
    """
    from amk import api
    from amk.cli.options import find_family
    from amk.runtime.place import device_index, target_of

    family, index = find_family(name), device_index(_device(device))
    kernel, sizes = api.proposed(problem, target_of(index)), family.sizes(problem)
    if index is None:
        _refuse_hours(kernel, sizes, checked)
    values = _random(kernel, sizes, seed)
    before = _copy(values)
    call = api.compile(kernel, device="cpu" if index is None else index, checked=checked)
    start = time.perf_counter()
    call(**values)
    facts = {"operator": name, "executor": "cpu" if index is None else "cuda", "kernel": kernel.name}
    return facts | {"seconds": time.perf_counter() - start} | _compared(kernel, before, values)


def _refuse_hours(kernel: KernelDescriptor, sizes: dict[str, int], checked: bool) -> None:
    """Refuses what the CPU executor would refuse, before its arrays are made."""
    from amk.harness.interpret import estimate_lane_ops
    from amk.runtime.kernel import CHECKED_COST, CPU_LANE_OPS

    minutes = estimate_lane_ops(kernel, sizes) / CPU_LANE_OPS * (CHECKED_COST if checked else 1)
    if minutes > 1:
        long = f"{minutes:,.0f} minutes" if minutes < 120 else f"{minutes / 60:,.0f} hours"
        said = f"the CPU executor would take about {long} for this problem"
        raise EnvironmentProblem(said, hint="a GPU, or smaller sizes")


def _random(kernel: KernelDescriptor, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    """Every argument: random data at the declared strides, and multiples of 1/8 for scalars that are no sizes."""
    import numpy as np

    from amk.harness.interpret import arguments

    random = np.random.default_rng(seed)
    own = {p.name: sizes[p.name] for p in kernel.scalars if p.name in sizes}
    try:
        values = arguments(kernel, own, random)
    except MemoryError:
        raise EnvironmentProblem("this machine has not the memory for the arrays", hint="smaller sizes") from None
    factors = {p.name: float(random.integers(4, 13)) / 8 for p in kernel.scalars if p.dtype in ("f32", "f64")}
    return {**values, **factors}


def _copy(values: dict[str, Any]) -> dict[str, Any]:
    return {n: v.copy() if hasattr(v, "shape") else v for n, v in values.items()}


def _finite(error: float) -> float | None:
    """JSON has no NaN and no infinity; None is as wrong as they are."""
    return error if math.isfinite(error) else None


def _device(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def _gemm_data(problem: Any, seed: int) -> dict[str, Any]:
    """Random operands as they are stored, seen as op(A) and op(B)."""
    import numpy as np

    random = np.random.default_rng(seed)

    def operand(rows: int, cols: int, lead: int, turned: bool) -> Any:
        stored = (cols, rows) if turned else (rows, cols)
        whole = random.standard_normal((problem.batch, stored[0], max(lead, stored[1])), dtype=np.float32)
        part = whole[:, :, : stored[1]] if problem.batch > 1 else whole[0, :, : stored[1]]
        return np.swapaxes(part, -1, -2) if turned else part

    p = problem
    data = {"A": operand(p.m, p.k, p.lda, p.trans_a), "B": operand(p.k, p.n, p.ldb, p.trans_b), "alpha": 1.0}
    if p.beta == "any" or p.ldc:
        data["C"] = operand(p.m, p.n, p.ldc, False)
    return data | {"beta": 0.5 if p.beta == "any" else 0.0}


# ------------------------------------------------------------------------------------------------- run: a descriptor
def run_file(args: Namespace) -> int:
    """Runs a descriptor on the given arguments; an operator's descriptor is compared with its reference."""
    import amk
    from amk.cli.inputs import read_kernel

    kernel = read_kernel(args.what)
    given = dict(map(_pair, args.arg))
    values = {name: _value(name, text) for name, text in given.items()}
    outputs = dict(map(_pair, args.out))
    _fill(kernel, values, outputs)
    call = amk.compile(kernel, device=_device(args.device), checked=args.checked)
    before = _copy(values)
    start = time.perf_counter()
    call(**values)
    facts: dict[str, Any] = {"kernel": kernel.name, "executor": "cpu" if call.device is None else "cuda"}
    facts |= {"seconds": time.perf_counter() - start, "wrote": _save(values, outputs)}
    facts |= _compared(kernel, before, values)
    if args.json:
        say_json(facts)
    else:
        say(table([(k, _short(v)) for k, v in facts.items()]))
    return 0 if facts["right"] in (True, None) else 1


def _compared(kernel: Any, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Largest relative error against the operator's float64 reference; `right` is None where there is none."""
    import numpy as np

    from amk.ops import REGISTRY

    if kernel.origin is None or kernel.origin.operator not in REGISTRY:
        return {"right": None, "compared": "no: the descriptor names no operator"}
    family = REGISTRY[kernel.origin.operator]
    try:
        problem = family.problem.model_validate(kernel.origin.problem)
        want = family.reference({**kernel.origin.problem, **before})
    except (KeyError, TypeError, ValueError):  # anybody can write an operator's name into a file
        said = f"no: these are not the arguments of {kernel.origin.operator}"
        return {"right": None, "compared": said}
    errors = [
        float(np.linalg.norm(np.asarray(after[n], np.float64) - w)) / (float(np.linalg.norm(w)) or 1.0)
        for n, w in want.items()
    ]
    limit = family.tolerance.relative(problem.model_copy(update=_actual(problem, kernel, before)))
    error = max(errors, default=0.0)
    return {"error": _finite(error), "tolerance": limit, "right": bool(error <= limit)}


def _actual(problem: Problem, kernel: KernelDescriptor, given: dict[str, Any]) -> dict[str, int]:
    """The problem's sizes as this run had them (they are parameters of a symbolic kernel), by name."""
    sizes = _sizes(kernel, {n: v.shape for n, v in given.items() if hasattr(v, "shape")})
    sizes |= {n: v for n, v in given.items() if type(v) is int}
    return {n.lower(): v for n, v in sizes.items() if n.lower() in type(problem).model_fields}


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name or not value:
        raise InputError(f"{clean(text, 60)!r} is no NAME=VALUE", hint="as in --arg x=a.npy --arg n=5")
    return name, value


def _value(name: str, text: str) -> Any:
    """A number, or the array of a .npy file (never a pickle)."""
    import numpy as np

    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    try:
        if os.path.exists(text) and not os.path.isfile(text):  # a pipe would be waited for, a device never ends
            raise ValueError("it is no plain file")
        found = np.load(text, allow_pickle=False)
    except Exception as fault:  # a damaged file comes out of NumPy and zipfile as many kinds, MemoryError among them
        why = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault) or type(fault).__name__
        raise InputError(f"--arg {name}: cannot read {text}: {why}", hint="give a number or a .npy file") from None
    if not isinstance(found, np.ndarray):
        found.close()
        raise InputError(f"--arg {name}: {text} holds several arrays", hint="save the one that is meant as .npy")
    return found


def _fill(kernel: Any, values: dict[str, Any], outputs: dict[str, str]) -> None:
    """Arrays that are only written and were not given are made, where the given sizes tell their shape."""
    import numpy as np

    from amk.dsl.evaluate import function_of
    from amk.dsl.types import DTYPES
    from amk.runtime.arrays import view

    known = {p.name for p in kernel.params}
    for name in (*values, *outputs):
        if name not in known:
            raise InputError(f"the kernel has no argument {clean(name, 60)!r}", hint=f"it has: {', '.join(known)}")
    sizes = _sizes(kernel, {n: view(v, n).shape for n, v in values.items() if hasattr(v, "shape")})
    sizes |= {n: v for n, v in values.items() if isinstance(v, int)}
    for p in kernel.tensors:
        if p.name in values or p.access not in ("write", "add") or p.strides is not None:
            continue
        try:
            shape = function_of(tuple(p.shape), tuple(sizes))(*sizes.values())
            values[p.name] = np.zeros(shape, DTYPES[p.dtype].numpy)
        except (ValueError, ZeroDivisionError, OverflowError, MemoryError) as fault:
            why = f"the shape of {p.name} is not known or too large: {fault or type(fault).__name__}"
            raise InputError(why, hint=f"--arg {p.name}=FILE.npy, or other sizes") from None


def _sizes(kernel: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """Sizes that stand alone in the shape of a given array."""
    out: dict[str, int] = {}
    for p in kernel.tensors:
        for term, extent in zip(p.shape, shapes.get(p.name, ()), strict=False):
            if getattr(term, "name", None):
                out.setdefault(term.name, extent)
    return out


def _save(values: dict[str, Any], outputs: dict[str, str]) -> list[str]:
    import io

    import numpy as np

    from amk.cli.make import write_file

    for name, path in outputs.items():
        if not hasattr(values.get(name), "shape"):
            raise ArgumentError(f"--out {name}: that is no array of this run", hint=f"--arg {name}=FILE.npy")
        buffer = io.BytesIO()
        np.save(buffer, values[name], allow_pickle=False)
        write_file(path, buffer.getvalue())
    return [clean(path, 300) for path in outputs.values()]


# -------------------------------------------------------------------------------------------------------------- bench
def add_bench(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk bench`."""
    from amk.cli.options import add_problem, named_family
    from amk.ops import REGISTRY

    parser.add_argument("operator", metavar="OPERATOR", help=f"one of: {', '.join(REGISTRY)}")
    parser.add_argument("--against", choices=("cublas",), default="cublas")
    parser.add_argument("--rounds", type=int, default=30, metavar="N")
    parser.add_argument("--cold", action="store_true", help="flush the caches before every call")
    parser.add_argument("--json", action="store_true")
    if family := named_family(parser, argv):
        add_problem(parser, family)
    parser.set_defaults(run=run_bench)


def run_bench(args: Namespace) -> int:
    """Measures ours against the peer, paired and interleaved."""
    from amk.cli.options import find_family, problem_of

    family = find_family(args.operator)
    problem = problem_of(args, family)
    if args.operator != "gemm":
        raise InputError(f"there is nothing to measure {args.operator} against", hint="amk bench gemm")
    facts = _bench(problem, args)
    if args.json:
        say_json(facts)
        return 0
    a, b, ratio = facts["a_us"], facts["b_us"], facts["speedup"]
    work = family.flops(problem)
    rows = [
        (args.against, f"{a['median']:.1f}", f"{work / a['median'] / 1e6:.2f}"),
        ("amk", f"{b['median']:.1f}", f"{work / b['median'] / 1e6:.2f}"),
    ]
    say(f"{facts['device']}, driver {facts['driver']}, SM clock {facts['sm_clock_mhz']} MHz, {facts['rounds']} rounds")
    say(table(rows, ("", "us", "TFLOP/s")))
    say(f"amk is {ratio['median']:.3f} x as fast (95 %: {ratio['low']:.3f} to {ratio['high']:.3f})")
    return 0


def _bench(problem: Any, args: Namespace) -> dict[str, Any]:
    from amk.runtime.device import probe

    status = probe()
    if not status.available:
        raise EnvironmentProblem(f"amk bench needs a GPU: {status.reason}", hint=status.hint or "amk doctor")
    try:
        import torch
    except ImportError:
        raise EnvironmentProblem("cuBLAS is called through torch here", hint='pip install "amk[torch]"') from None
    from amk import AutoMegaKernelGEMM
    from amk.agents.measure import measure_pair, summarise
    from amk.runtime.device import current_device

    torch.backends.cuda.matmul.allow_tf32 = False
    data = _gemm_data(problem, 0)
    a, b = (torch.from_numpy(data[n]).cuda() for n in "AB")
    c = torch.empty((*a.shape[:-1], b.shape[-1]), device=a.device)
    gemm = AutoMegaKernelGEMM()
    with _clock(current_device(), torch.cuda.current_stream().cuda_stream) as clock:
        timing = measure_pair(
            lambda: torch.matmul(a, b, out=c), lambda: gemm.run(a, b, c), clock=clock, rounds=args.rounds,
            cold=args.cold,
        )  # fmt: skip
        facts = summarise(timing, clock)
    return {"problem": problem.model_dump(), "against": args.against, "kernel": gemm.last.kernel, **facts}


def _clock(index: int, stream: int) -> Any:
    from amk.agents.clocks import CudaEventClock

    return CudaEventClock(index, stream)
