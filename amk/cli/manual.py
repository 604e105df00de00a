"""`amk describe`, `explain`, `rules`, `schema`, `targets`: what there is to know, as text or as JSON."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from amk.cli.output import clean, paint, say, say_json, table
from amk.errors import InputError

if TYPE_CHECKING:
    from amk.dsl.describe import AccessFact, RoleFact, Summary
    from amk.dsl.kernel import KernelDescriptor
    from amk.dsl.target import Target

__all__ = ["add_describe", "add_explain", "add_rules", "add_schema", "add_targets"]


def add_describe(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk describe`."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--target", action="append", default=[], help="GPU or architecture (default: the descriptor's)")
    parser.add_argument("--builder", action="store_true", help="the Python that builds it, instead")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_describe)


def run_describe(args: Namespace) -> int:
    """The facts of one kernel, on each target."""
    from amk.cli.inputs import find_targets, read_kernel
    from amk.dsl.describe import summary
    from amk.dsl.target import Target

    kernel = read_kernel(args.file)
    if args.builder:
        return _as_builder(kernel, as_json=args.json)
    found = [summary(kernel, t or Target.find(kernel.target)) for t in find_targets(args.target)]
    if args.json:
        say_json([s.to_dict() for s in found] if len(found) > 1 else found[0].to_dict())
    else:
        say("\n\n".join(map(_described, found)))
    return 0


def _as_builder(kernel: KernelDescriptor, *, as_json: bool) -> int:
    from amk.dsl.builder_text import Unprintable, builder_code

    try:
        code = builder_code(kernel)
    except Unprintable as e:
        raise InputError(f"the builder has no method for {e}", hint="read the descriptor itself") from None
    say_json({"name": kernel.name, "builder": code}) if as_json else say(code, end="")
    return 0


def _described(s: Summary) -> str:
    head = [
        ("grid", " x ".join(s.grid) + "  blocks, in parallel"),
        ("block", f"{s.threads} threads" + (f", cluster of {s.cluster}" if s.cluster > 1 else "")),
        ("registers", f"about {s.registers} a thread, at most {s.most_registers}; {s.array_registers} of them arrays"),
        ("shared", f"{s.shared_bytes} bytes a block"),
        ("fits", f"{s.blocks_per_sm} blocks an SM, limited by {s.limited_by}; at least {s.least_blocks_per_sm}"),
    ]
    out = [paint(f"{clean(s.name)} on {clean(s.target)}", "bold"), table(head, indent="  ")]
    out += _section("parameters", [(x,) for x in s.params]) + _section("tensor maps", [(x,) for x in s.maps])
    out += _section("arrays", [(x,) for x in s.buffers]) + _section("mbarriers", [(x,) for x in s.barriers])
    out += _section("roles", [_role(x) for x in s.roles])
    loops = [(x.var, f"{x.trips} trips", f"unroll {x.unroll}", _carries(x.carried), x.pointer) for x in s.loops]
    accesses = [
        (x.what, x.operand, x.space, f"{x.width_bytes} B", "" if x.stride is None else f"stride {x.stride} B",
         _pattern(x), x.pointer)
        for x in s.accesses
    ]  # fmt: skip
    syncs = [(x.what, f"in loop {x.loop}" if x.loop else "", x.pointer) for x in s.syncs]
    out += _section("loops (serial in a thread)", loops) + _section("accesses (of a warp)", _merged(accesses))
    return "\n".join(out + _section("synchronisation", syncs))


def _pattern(x: AccessFact) -> str:
    sectors = f", {x.sectors} sectors" if x.sectors else ""
    return x.pattern + sectors + (f", until {x.completes}" if x.completes else "")


def _role(r: RoleFact) -> tuple[str, str, str]:
    budget = "" if r.registers is None else f"{r.registers} registers a thread"
    return f"warps {r.first_warp} to {r.end_warp - 1}", budget, r.pointer


def _carries(names: tuple[str, ...]) -> str:
    return f"carries {', '.join(names)}" if names else ""


def _section(title: str, rows: Sequence[Sequence[object]]) -> list[str]:
    return [f"\n{title}", table(rows, indent="  ")] if rows else []


def _merged(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Accesses that differ in their index alone, as one row with their number."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault((row[0], row[1].partition("[")[0], *row[2:6]), []).append(row)
    return [
        (f"{len(g)} x" if len(g) > 1 else "", g[0][0], clean(g[0][1], 48), *g[0][2:6], g[0][6]) for g in groups.values()
    ]


def add_explain(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk explain`."""
    parser.add_argument("code", metavar="CODE", help="such as AMK301")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_explain)


def run_explain(args: Namespace) -> int:
    """The manual page of a code."""
    from amk.harness.docs import explain, page, titles

    text, code = explain(args.code), args.code.strip().upper()
    if args.json:
        title, severity = titles()[code]
        say_json({"code": code, "title": title, "severity": severity, "text": text, "markdown": page(code)})
    else:
        say(text, end="")
    return 0


def add_rules(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk rules`."""
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", metavar="FOLDER", help="write a page for each, as in docs/rules/")
    parser.set_defaults(run=run_rules)


def run_rules(args: Namespace) -> int:
    """Every code with its title, or every page."""
    from pathlib import Path

    from amk.harness.docs import titles, write

    if args.write:
        say(f"wrote {len(write(Path(args.write)))} pages")
    elif args.json:
        say_json([{"code": c, "title": t, "severity": s} for c, (t, s) in titles().items()])
    else:
        say(table([(c, s, t) for c, (t, s) in titles().items()]) + "\n\namk explain CODE tells more")
    return 0


def add_schema(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """`amk schema` has no options; --json is accepted, since JSON is all it prints."""
    parser.add_argument("--json", action="store_true", help="the schema is JSON anyway")
    parser.set_defaults(run=run_schema)


def run_schema(args: Namespace) -> int:
    """The JSON Schema of a descriptor."""
    from amk.dsl.schema import schema_text

    say(schema_text(), end="")
    return 0


def add_targets(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk targets`."""
    parser.add_argument("names", nargs="*", metavar="TARGET", help="only these")
    parser.add_argument("--detect", action="store_true", help="the GPU of this machine, as a target file")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="with --detect: which GPU")
    parser.add_argument("--output", "-o", metavar="FILE", help="with --detect: where to write it")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_targets)


def run_targets(args: Namespace) -> int:
    """The known targets, or the one of this machine."""
    from amk.cli.inputs import find_targets
    from amk.dsl.target import Target

    if args.detect:
        return _detected(Target.detect(args.device), args)
    found = [t for t in find_targets(args.names) if t] if args.names else list(Target.all())
    if args.json:
        rows = [t.to_dict() for t in found]
        say_json(rows[0] if len(args.names) == 1 and len(rows) == 1 else rows)
    else:
        heads = ("name", "arch", "SMs", "shared/block", "threads/SM", "GB/s", "features")
        say(table(map(_target_row, found), heads))
    return 0


def _detected(target: Target, args: Namespace) -> int:
    if args.output:
        target.save(args.output)
        say(f"wrote {clean(args.output, 400)}: {clean(target.name)}")
    else:
        say(target.dumps(), end="")
    return 0


def _target_row(t: Target) -> tuple[object, ...]:
    a = t.architecture
    rate = f"{t.bandwidth / 1e9:.0f}" if t.bandwidth else "-"
    return t.name, a.name, t.sms or "-", a.shared_optin, a.threads_per_sm, rate, " ".join(sorted(a.features))
