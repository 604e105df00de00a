"""`amk selftest soundness`: mutants of known kernels, the checker's verdict against the interpreter's."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amk.cli.output import clean, paint, say, say_json, table
from amk.errors import InputError

if TYPE_CHECKING:
    from amk.harness.mutate import Campaign, Subject

__all__ = ["add_selftest", "subjects"]

MOST_SHOWN = 3  # false rejects of one reason in text


def add_selftest(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk selftest`."""
    parser.add_argument("what", choices=("soundness",), help="soundness: is what the checker accepts free of faults?")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed draws the same mutants")
    parser.add_argument("--mutants", type=int, default=200, metavar="N", help="how many (default: 200)")
    parser.add_argument("--seconds", type=float, metavar="T", help="stop after this long, with what there is")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_selftest)


def run_selftest(args: Namespace) -> int:
    """0, or 1 for a false accept, or 4 for a checker that failed."""
    from amk.harness.mutate import campaign

    if args.mutants < 0:
        raise InputError("--mutants is not negative", hint="amk selftest soundness --mutants 200")
    found = campaign(subjects(), seed=args.seed, mutants=args.mutants, seconds=args.seconds)
    if args.json:
        say_json({**found.to_dict(), "exit_code": found.exit_code})
    else:
        _show(found)
    return found.exit_code


def subjects() -> list[Subject]:
    """The kernels that are mutated: those of the four examples, two of other forms, and GEMM in three small tiles.

    Sizes that show the most stand first: most mutants that fault do so in the first run.
    """
    from amk.api import proposed
    from amk.dsl.target import Target
    from amk.harness import samples
    from amk.harness.mutate import Subject
    from amk.ops.gemm import Gemm

    line = tuple({"n": n} for n in (700, 255, 64, 1, 0))
    sums = tuple({"n": n} for n in (2500, 1024, 31, 1, 0))
    plane = tuple({"m": m, "n": n} for m, n in ((17, 40), (5, 70), (32, 32), (1, 1), (0, 3)))
    large = tuple({"M": m, "N": n, "K": k} for m, n, k in ((7, 132, 68), (133, 4, 4), (4, 4, 0)))
    agents = proposed(Gemm(m=1024, n=1024, k=1024), Target.find("sm_80"))
    return [
        Subject("vector_add", samples.vector_add(), line),
        Subject("transpose", samples.transpose(), plane),
        Subject("block_sum", samples.block_sum(), sums),
        Subject("reversed_copy", samples.reversed_copy(), line),
        Subject("doubled", samples.doubled(), line),
        Subject("simt_gemm", agents, large),
        *_gemms(),
    ]


def _gemms() -> list[Subject]:
    """Three rings in both layouts of each operand, with a batch and with partial sums."""
    from amk.dsl.target import Target
    from amk.harness.mutate import Subject
    from amk.ops.gemm import Gemm, GemmSchedule, build

    shapes = ((33, 37, 27), (7, 70, 8), (40, 5, 45), (32, 32, 16), (1, 1, 1), (32, 32, 0))
    space = tuple({"M": m, "N": n, "K": k, "batch": 2} for m, n, k in shapes)
    narrow = GemmSchedule(bm=32, bn=32, bk=8, tm=2, tn=4, stages=2, vec_width=1)
    wide = GemmSchedule(bm=32, bn=32, bk=8, tm=4, tn=4, stages=3, vec_width=4)
    split = GemmSchedule(bm=16, bn=32, bk=8, tm=2, tn=4, stages=2, vec_width=1, split_k=2)
    chosen = {
        "gemm_nn": (Gemm(m=64, n=64, k=64), wide),
        "gemm_tt_batch": (Gemm(m=33, n=37, k=19, batch=2, trans_a=True, trans_b=True), narrow),
        "gemm_split": (Gemm(m=33, n=37, k=19), split),
    }
    target = Target.find("sm_80")
    return [Subject(name, build(problem, schedule, target), space) for name, (problem, schedule) in chosen.items()]


def _show(c: Campaign) -> None:
    heads = ("kernel", "mutants", "faulty", "refused", "false accepts", "false rejects", "wrong result")
    rows = [
        (n, t.mutants, t.faulty, t.refused, t.false_accepts, t.false_rejects, t.wrong_result)
        for n, t in (*c.by_kernel.items(), ("all", c.total))
    ]
    say(table(rows, heads))
    for e in c.false_accepts:
        say(f"{paint('false accept', 'red')} {e['kernel']}: {clean(e['mutation'])}\n  {clean(e['fault'])} {e['sizes']}")
    for e in c.crashes:
        say(f"{paint('the checker failed', 'red')} {e['kernel']}: {clean(e['mutation'])}\n  {clean(e['error'])}")
    for reason, found in c.rejects_by_reason():
        say(f"{paint('false reject', 'yellow')} x{len(found)}: {clean(reason)}")
        for e in found[:MOST_SHOWN]:
            ran = "; ".join(", ".join(f"{n}={v}" for n, v in sizes.items()) for sizes in e["sizes"])
            say(f"  {e['kernel']}: {clean(e['mutation'])}\n    {e['saw']} at {clean(ran)}")
        if len(found) > MOST_SHOWN:
            say(f"  and {len(found) - MOST_SHOWN} more: --json lists all")
    say(f"seed {c.seed}, {c.seconds:.1f} s")
