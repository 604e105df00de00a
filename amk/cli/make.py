"""`amk new`, `certify`, `emit`, `compile`: from an operator to a descriptor, its certificate, CUDA text and a cubin."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amk.cli.output import clean, complain_line, say, say_json, table
from amk.errors import AmkError, ArgumentError, EnvironmentProblem, InputError, Refused

if TYPE_CHECKING:
    from amk.dsl.kernel import KernelDescriptor
    from amk.dsl.target import Target
    from amk.ops.family import OperatorFamily, Problem, Schedule

__all__ = ["Built", "add_certify", "add_compile", "add_emit", "add_new", "build", "built_table", "write_file"]


# ---------------------------------------------------------------------------------------------------------------- new
def add_new(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk new`: those of the operator's problem and schedule."""
    from amk.agents.agent import OBJECTIVES, objective_of
    from amk.cli.options import add_problem, add_schedule, named_family
    from amk.ops import REGISTRY

    parser.add_argument("operator", metavar="OPERATOR", help=f"one of: {', '.join(REGISTRY)}")
    parser.add_argument("--target", default="sm_90a", help="GPU or architecture (default sm_90a)")
    parser.add_argument(
        "--objective", type=objective_of, default="throughput", metavar="{" + ",".join(OBJECTIVES) + "}",
        help="; ".join(f"{name}: {what}" for name, what in OBJECTIVES.items()),
    )  # fmt: skip
    parser.add_argument(
        "--any-order", action="store_false", dest="deterministic",
        help="allow sums in no fixed order, whose last bits differ from run to run, where that is faster",
    )  # fmt: skip
    parser.add_argument("--output", "-o", metavar="FILE", help="where to write it (default: standard output)")
    parser.add_argument("--json", action="store_true", help="a descriptor is JSON anyway")
    if family := named_family(parser, argv):
        add_problem(parser, family)
        add_schedule(parser, family)
    parser.set_defaults(run=run_new)


def run_new(args: Namespace) -> int:
    """Prints the descriptor of the agent's best schedule that goes with the given choices."""
    kernel = propose(args)
    if args.output:
        write_file(args.output, kernel.to_json().encode())
        complain_line(f"wrote {clean(args.output, 400)}")
    else:
        say(kernel.to_json(), end="")
    return 0


def propose(args: Namespace) -> KernelDescriptor:
    """The descriptor that `amk new` prints.

    Raises:  the fault of the first schedule where none makes a kernel: ArgumentError for choices that contradict each
             other, Refused for a block that the target has no room for
    """
    from amk.agents.rules import RuleAgent
    from amk.api import build
    from amk.cli.inputs import find_targets
    from amk.cli.options import find_family, problem_of, schedule_of

    family, (target,) = find_family(args.operator), find_targets([args.target])[:1]
    assert target is not None
    problem, agent = problem_of(args, family), RuleAgent()
    first: AmkError | None = None
    for chosen, name in _schedules(args, family, problem, target):
        schedule = schedule_of(args, family, chosen)
        try:
            kernel = build(problem, schedule, target)
        except (ArgumentError, Refused) as fault:  # given choices may contradict one proposal and suit the next
            first = first or fault
            continue
        return _signed(kernel, name, agent.reasons(problem, schedule, target) if schedule == chosen else {})
    raise first or InputError("the agent proposes nothing for this problem")


def _schedules(
    args: Namespace, family: OperatorFamily, problem: Problem, target: Target
) -> Iterator[tuple[Schedule, str]]:
    """Schedules to try, and who chose each; first those that agree with what is given."""
    from amk.agents.rules import RuleAgent
    from amk.cli.options import agreement, read_schedule, schedule_of

    if args.schedule:
        yield read_schedule(args.schedule, family), "by hand"
        return
    agent = RuleAgent()
    found = agent.propose(problem, target, args.objective, deterministic=args.deterministic)
    for p in sorted(found, key=lambda p: -agreement(args, family, p.schedule)):
        best = schedule_of(args, family, p.schedule) == found[0].schedule
        yield p.schedule, f"{agent.name} {agent.version}" + ("" if best else ", changed by hand")


def _signed(kernel: KernelDescriptor, agent: str, reasons: dict[str, str]) -> KernelDescriptor:
    """The kernel with who chose it and why; where a choice was overridden, the agent's reasons no longer hold."""
    from amk.dsl.kernel import Origin

    origin = (kernel.origin or Origin()).model_copy(update={"agent": agent, "reasons": reasons})
    return kernel.model_copy(update={"origin": origin})


# ------------------------------------------------------------------------------------------------------------ certify
def add_certify(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk certify`."""
    _add_file(parser)
    parser.add_argument("--output", "-o", metavar="CERT", help="where to write it (default: standard output)")
    parser.set_defaults(run=run_certify)


def run_certify(args: Namespace) -> int:
    """The certificate of one kernel, as `amk verify` reads it; without --output, on standard output."""
    from amk import certify
    from amk.cli.inputs import find_targets, read_kernel

    (target,) = _only(find_targets(args.target))
    certificate = certify(read_kernel(args.file), target)
    if not args.output:
        say(certificate.to_json(), end="")
        return 0
    write_file(args.output, certificate.to_json().encode())
    facts = {"digest": certificate.digest, "meaning": certificate.meaning, "hash": certificate.kernel.hash}
    if args.json:
        said = {"output": args.output, "obligations": len(certificate.data["obligations"])}
        say_json({"kernel": certificate.kernel.name, "target": certificate.target.name, **facts, **said})
    else:
        complain_line(f"wrote {clean(args.output, 400)}: {certificate.kernel.name}, meaning: {certificate.meaning}")
    return 0


# --------------------------------------------------------------------------------------------------------------- emit
def add_emit(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk emit`."""
    _add_file(parser)
    parser.add_argument("--output", "-o", metavar="FILE", help="where to write it (default: standard output)")
    parser.set_defaults(run=run_emit)


def run_emit(args: Namespace) -> int:
    """The CUDA text of one kernel, certified first."""
    from amk import certify
    from amk.cli.inputs import find_targets, read_kernel
    from amk.synth.render import render

    (target,) = _only(find_targets(args.target))
    certificate = certify(read_kernel(args.file), target)
    source = render(certificate, checked=args.checked)
    if args.output:
        write_file(args.output, source.text.encode())
    if args.json:
        facts: dict[str, Any] = {"name": source.name, "threads": source.threads, "shared_bytes": source.shared_bytes}
        text = {} if args.output else {"text": source.text}
        facts |= {"checked": args.checked, "certificate": certificate.digest, "meaning": certificate.meaning}
        say_json({**facts, **text})
    elif not args.output:
        say(source.text, end="" if source.text.endswith("\n") else "\n")
    return 0


def _add_file(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a descriptor, or - for stdin")
    parser.add_argument("--target", action="append", default=[], help="GPU or architecture (default: the descriptor's)")
    parser.add_argument("--checked", action="store_true", help="put each access and assumption behind a test")
    parser.add_argument("--json", action="store_true")


def _only(targets: tuple[Target | None, ...]) -> tuple[Target | None]:
    if len(targets) > 1:
        raise InputError("one file holds the text for one target", hint="give --target once")
    return (targets[0],)


# ------------------------------------------------------------------------------------------------------------ compile
@dataclass(frozen=True, slots=True)
class Built:
    """One kernel compiled for one target. Bytes; `spill_bytes` stores and loads of a thread; seconds with proof.

    Registers of a thread: compiled, estimated before, and at most what the certificate assumes.
    """

    kernel: str
    target: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    threads: int
    blocks_per_sm: int
    occupancy: float
    limited_by: str
    cubin_bytes: int
    seconds: float
    cached: bool
    certificate: str
    meaning: str
    cubin: bytes
    source: str
    estimated_registers: int
    assumed_registers: int
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON data, without the binary and the text."""
        return {n: getattr(self, n) for n in self.__slots__ if n not in ("cubin", "source")}


def add_compile(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk compile`."""
    _add_file(parser)
    parser.add_argument("--output", "-o", metavar="FILE", help="where to write the cubin (one target)")
    parser.add_argument("--measured", action="store_true", help="findings about the binary, and what limits occupancy")
    parser.set_defaults(run=run_compile)


def run_compile(args: Namespace) -> int:
    """Compiles one kernel for each target; the real binary must keep what the certificate assumed."""
    from amk.cli.inputs import find_targets, read_kernel

    kernel, targets = read_kernel(args.file), find_targets(args.target)
    if args.output:
        _only(targets)
    if args.measured and args.checked:
        raise InputError("a checked build is not the binary to measure", hint="give --measured or --checked")
    if args.measured:
        return _measured(kernel, targets, args)
    found = [build(kernel, target, checked=args.checked) for target in targets]
    if args.output:
        write_file(args.output, found[0].cubin)
    if args.json:
        say_json([b.to_dict() for b in found])
    else:
        say(built_table(found))
    return 0


def _measured(kernel: KernelDescriptor, targets: Sequence[Target | None], args: Namespace) -> int:
    """What each binary takes, with its findings; 1 where one is refused."""
    from amk.dsl.target import Target
    from amk.runtime.measured import measured

    found = [measured(kernel, target or Target.find(kernel.target)) for target in targets]
    if args.output and found[0].ok:
        write_file(args.output, found[0].cubin)
    if args.json:
        say_json([m.to_dict() for m in found])
    else:
        for m in found:
            say(f"{m.target}: {m}")
            for d in m.diagnostics:
                say(f"  {d.code} {d.title} ({d.severity}): {clean(d.message)}")
                say(f"    try  {clean(d.hint)}" if d.hint else "")
    return 0 if all(m.ok for m in found) else 1


def build(kernel: KernelDescriptor, target: Target | None, *, checked: bool = False) -> Built:
    """Certify, render, compile, and hold the binary to its certificate; or take it from the cache."""
    import json
    import time

    from amk.dsl.occupancy import occupancy
    from amk.dsl.target import Target
    from amk.runtime.build import binary_of

    target, start = target or Target.find(kernel.target), time.perf_counter()
    made = binary_of(kernel, target, checked=checked)
    fits = occupancy(target, kernel.threads, made.registers, made.shared_bytes)
    proof = json.loads(made.certificate)
    return Built(
        kernel.name, target.name, made.registers, made.spill_bytes, made.shared_bytes, kernel.threads,
        fits.blocks_per_sm, fits.fraction, fits.limited_by, len(made.cubin), round(time.perf_counter() - start, 3),
        made.hit, str(proof.get("digest", "")), str(proof.get("meaning", "")), made.cubin, made.source,
        made.estimated_registers, made.assumed_registers, made.warnings,
    )  # fmt: skip


def built_table(found: Sequence[Built]) -> str:
    """What was built, a line a target; then where a binary falls behind its certificate."""
    heads = (
        "target", "registers", "estimate", "at most", "spill B", "shared B", "threads", "blocks/SM", "occupancy",
        "limit", "cubin B",
    )  # fmt: skip
    rows = [
        (b.target, b.registers, min(b.estimated_registers, b.assumed_registers), b.assumed_registers, b.spill_bytes,
         b.shared_bytes, b.threads, b.blocks_per_sm, f"{b.occupancy:.0%}", b.limited_by, b.cubin_bytes)
        for b in found
    ]  # fmt: skip
    return "\n".join([table(rows, heads), *(f"{b.target}: warning: {w}" for b in found for w in b.warnings)])


def write_file(path: str, data: bytes) -> None:
    """Writes a file, or says why it cannot."""
    from amk.dsl.files import write_bytes

    try:
        write_bytes(path, data)
    except (OSError, ValueError) as e:
        why = e.strerror if isinstance(e, OSError) else str(e)
        hint = "choose a folder that exists and can be written"
        raise EnvironmentProblem(f"cannot write {path}: {why}", hint=hint) from None
