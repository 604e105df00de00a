"""The library calls: agent → certify → synthesise → run, for callers who have only tensors.

gemm = AutoMegaKernelGEMM()          # the GPU if there is one, else the CPU executor
C = gemm.run(A, B)                   # NumPy, torch, CuPy, anything with DLPack or __cuda_array_interface__
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from amk.dsl.kernel import KernelDescriptor, Origin
from amk.dsl.target import Target
from amk.errors import ArgumentError
from amk.runtime.place import checked_device, device_index, target_of

if TYPE_CHECKING:
    from amk.agents.agent import Objective, Proposal
    from amk.harness.certify import Certificate
    from amk.ops.family import Problem, Schedule
    from amk.runtime.gemm_call import GemmCall
    from amk.runtime.gemm_plan import Plan
    from amk.runtime.kernel import CompiledKernel
    from amk.synth.cache_flights import Flights

__all__ = ["AutoMegaKernelGEMM", "Last", "build", "certify", "compile", "propose"]


def build(problem: Problem, schedule: Schedule, target: Target | str) -> KernelDescriptor:
    """The descriptor of a problem under a schedule, with both as its origin. Nothing is proved yet: see `certify`.

    Args:    `target` is an architecture ("sm_90a"), a known device ("h200") or a Target
    Raises:  ArgumentError for choices that contradict each other or the problem, and for a problem that no registered
             operator has; Refused, naming the limit, for a block that the target has no room for; InputError for an
             unknown target
    """
    from amk.agents.rules import refuse_misfit
    from amk.ops import family_of

    place = _target(target)
    kernel = family_of(problem).kernel(problem, schedule, place)
    refuse_misfit(kernel, place)
    return kernel


def propose(
    problem: Problem, target: Target | str, objective: Objective = "throughput", *, deterministic: bool = True
) -> list[Proposal]:
    """The rule agent's schedules, the best first by a model (seconds and joules of a call; nothing is measured here).

    Args:    `objective` is "throughput", "latency" or "energy" (`amk.agents.agent.OBJECTIVES` says what each means);
             `deterministic` puts schedules whose last bits can differ from run to run behind all others
    Raises:  ArgumentError for an unknown objective or problem; Refused, naming the limit, where nothing fits the target
    """
    from amk.agents.rules import RuleAgent

    return RuleAgent().propose(problem, _target(target), objective, deterministic=deterministic)


def _target(target: Target | str) -> Target:
    return Target.find(target) if isinstance(target, str) else target


def proposed(
    problem: Problem, target: Target, objective: Objective = "throughput", rank: int = 0, deterministic: bool = True
) -> KernelDescriptor:
    """The descriptor of the agent's proposal number `rank`, with the agent and its reasons as its origin."""
    from amk.agents.rules import RuleAgent

    p = propose(problem, target, objective, deterministic=deterministic)[rank]
    kernel = build(problem, p.schedule, target)
    origin = (kernel.origin or Origin()).model_copy(
        update={"agent": f"{RuleAgent.name} {RuleAgent.version}", "reasons": p.reasons}
    )
    return kernel.model_copy(update={"origin": origin})


def certify(kernel: KernelDescriptor, target: Target | str | None = None) -> Certificate:
    """The certificate of a kernel for a target (by default its own), its meaning checked where it names an operator.

    Raises:  Refused with the report; Undecided where only a solver's limit stands in the way
    """
    from amk.harness.certify import certify as prove
    from amk.runtime.meaning import meaning_of

    return prove(kernel, target, reference=meaning_of(kernel))


def compile(
    kernel: KernelDescriptor | Certificate, *, device: str | int = "auto", checked: bool = False
) -> CompiledKernel:
    """A callable of a kernel: `k(x=x, y=y)` writes its outputs in place; sizes are taken from the arrays' shapes.

    Args:    `device` is "auto" (a GPU if there is one), "cpu", "cuda", "cuda:N", or the index of a GPU; `checked` tests
             each access and assumption as the kernel runs: a call then waits for it, and raises KernelFault
    Raises:  Refused for a kernel that does not pass (on a GPU with the first call); ArgumentError for an unknown
             device; EnvironmentProblem for a GPU that is not there
    """
    from amk.runtime.kernel import CompiledKernel

    descriptor = kernel if isinstance(kernel, KernelDescriptor) else kernel.kernel
    index = device_index(device)
    target = Target.find(descriptor.target) if index is None else target_of(index)
    return CompiledKernel(descriptor, target, index, checked=checked)


@dataclass(frozen=True, slots=True)
class Last:
    """What the last call of a thread did."""

    executor: Literal["cuda", "cpu", "none"]
    kernel: str
    copies: tuple[str, ...]
    seconds: float | None  # None: a prepared launch, which is not timed
    cache_hit: bool


class AutoMegaKernelGEMM:
    """C = alpha * op(A) op(B) + beta * C in fp32, by kernels that come with a proof.

    device:         where host arrays are computed (others stay where they lie): "auto" (a GPU if there is one), "cpu",
                    "cuda", "cuda:N", or the index of a GPU; EnvironmentProblem for a GPU that is not there
    objective:      "throughput", "latency" or "energy"; ArgumentError for another
    cpu_budget:     lane operations that a call on the CPU executor may cost (4e9: about a minute); None: no limit
    deterministic:  False allows kernels that add partial sums in no fixed order: faster where k is long and C small
    checked:        True tests each access and assumption as the kernel runs; a call waits, and raises KernelFault
    """

    def __init__(
        self, device: str | int = "auto", *, objective: Objective = "throughput",
        cpu_budget: float | None = 4_000_000_000, deterministic: bool = True, checked: bool = False,
    ) -> None:  # fmt: skip
        from amk.agents.agent import objective_of
        from amk.runtime.gemm_plan import Plans
        from amk.synth.cache_flights import Flights

        self.device, self.objective, self.cpu_budget = checked_device(device), objective_of(objective), cpu_budget
        if self.device not in ("auto", "cpu"):
            device_index(self.device)
        if cpu_budget is not None and (
            isinstance(cpu_budget, bool) or not isinstance(cpu_budget, (int, float)) or not cpu_budget >= 0
        ):
            raise ArgumentError(f"cpu_budget is {cpu_budget!r:.60}", hint="a number of lane operations, or None")
        self.deterministic, self.checked = deterministic, checked
        self._calls: dict[Any, GemmCall] = {}
        self._flights: Flights[GemmCall] = Flights()
        self.plans = Plans()
        self._local = threading.local()

    @property
    def last(self) -> Last:
        """What this thread's last `run` did: executor, kernel, copies made, seconds on the host."""
        found: Last | Plan | None = getattr(self._local, "last", None)
        if found is None:
            raise ArgumentError("this thread has not called run() yet")
        if isinstance(found, Last):
            return found
        return Last("cuda", found.call.kernel.name, (), None, found.call.cache_hit)

    def run(
        self, A: Any, B: Any, C: Any = None, *, alpha: float = 1.0, beta: float = 0.0, stream: object = None
    ) -> Any:
        """The product. With C given it is written and returned; with `beta` = 0 it is never read.

        Shapes:  A (m, k), B (k, n), C (m, n), each with an optional leading batch dimension, any strides
        Dtype:   float32        Stream: torch's or CuPy's current one, or `stream`; the call does not wait on a GPU
        Raises:  ArgumentError, before anything runs, naming the argument and what is wrong with it
        """
        ran = self.plans.run(A, B, C, alpha, beta, stream)
        if ran is not None:
            out, self._local.last = ran
            return out
        from amk.runtime.gemm_call import execute
        from amk.synth.logs import RUN

        started = time.perf_counter()
        out, call, copies = execute(self, A, B, C, alpha, beta, stream)
        executor: Literal["cuda", "cpu", "none"] = "none" if call is None else "cpu" if call.device is None else "cuda"
        name, hit = ("", True) if call is None else (call.kernel.name, call.cache_hit)
        self._local.last = Last(executor, name, copies, time.perf_counter() - started, hit)
        RUN.info("%s on %s%s", name or "nothing to run", executor, "".join(f"; {c}" for c in copies))
        return out

    def call_for(self, problem: Problem, device: int | None) -> GemmCall:
        """The prepared call of a problem on a device, made once: threads that come at once wait for the first.

        They see its exception too, and nothing is kept of it: the next call tries again.
        """
        key = (problem, device)
        found = self._calls.get(key)
        return found or self._flights.share(key, lambda: self._made(problem, device))[0]

    def _made(self, problem: Problem, device: int | None) -> GemmCall:
        from amk.runtime.gemm_call import GemmCall

        key = (problem, device)
        if key not in self._calls:  # else an earlier flight has landed since the caller looked
            target = target_of(device)
            kernel = proposed(problem, target, self.objective, 0, self.deterministic)
            self._calls[key] = GemmCall(kernel, target, device, checked=self.checked)
        return self._calls[key]

    def explain(self, A: Any, B: Any, C: Any = None, *, beta: float = 0.0) -> dict[str, Any]:
        """Which kernel a call would use, why, what is proved of it, and what it is predicted to cost. Nothing runs.

        Shapes:   as of `run`        Raises: ArgumentError as `run` does, Refused where no schedule fits
        Returns:  kernel, target, problem, schedule, reasons (one a field), predicted_seconds and _joules, proved (how
                  many obligations), ok, facts (that a launch checks), alternatives (the next three schedules)
        """
        from amk.harness.check import check
        from amk.runtime.gemm_call import problem_of

        problem, target = problem_of(self, A, B, C, beta)
        proposals = propose(problem, target, self.objective, deterministic=self.deterministic)
        kernel = proposed(problem, target, self.objective, 0, self.deterministic)
        report = check(kernel, target)
        return {
            "kernel": kernel.name, "target": target.name, "problem": problem.model_dump(),
            "schedule": proposals[0].schedule.model_dump(), "reasons": proposals[0].reasons,
            "predicted_seconds": proposals[0].seconds, "predicted_joules": proposals[0].joules,
            "proved": len(report.obligations), "ok": report.ok,
            "facts": list(report.facts), "alternatives": [p.schedule.model_dump() for p in proposals[1:4]],
        }  # fmt: skip
