"""`amk selftest soundness`: mutants of kernels of many families, the checker's verdict against the interpreter's.

`amk selftest fuzz` stands in `selftest_fuzz`.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from amk.cli.output import clean, paint, say, say_json, table
from amk.errors import InputError

if TYPE_CHECKING:
    from amk.dsl.kernel import KernelDescriptor
    from amk.harness.families import Maker, Sizes

__all__ = ["add_selftest", "families"]

_WHAT = "soundness: is what the checker accepts free of faults? fuzz: what do inputs lead to that nobody meant?"
MOST_SHOWN = 8  # seeds of one reason in text
MOST_SEEDS = 10_000_000


def add_selftest(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """The options of `amk selftest`."""
    parser.add_argument("what", choices=("soundness", "fuzz"), help=_WHAT)
    parser.add_argument(
        "--seeds", default="0:200", metavar="A:B", help="a mutant or an input for each of A to B - 1 (0:200)"
    )
    parser.add_argument("--families", default="", metavar="F,…", help="only seeds whose turn one of these has")
    parser.add_argument("--ledger", metavar="FILE", help="keep each record in FILE, and skip the seeds that it has")
    parser.add_argument("--seconds", type=float, metavar="T", help="stop after this long, with what there is")
    parser.add_argument("--commands", type=int, default=5, metavar="N", help="fuzz: so many through `amk check` (5)")
    parser.add_argument(
        "--memory", type=int, default=2048, metavar="MIB", help="fuzz: what this process may take (2048)"
    )
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run_selftest)


def run_selftest(args: Namespace) -> int:
    """0, or 1 for a false accept, or 4 for a checker that failed."""
    first, end = _range(args.seeds)
    if args.what == "fuzz":
        from amk.cli.selftest_fuzz import run_fuzz

        return run_fuzz(args, first, end)
    found = _campaign(first, end, args)
    if args.json:
        say_json({"seeds": [first, end], **found})
    else:
        _show(found, f"{first}:{end}")
    return int(found["exit_code"])


def _range(text: str) -> tuple[int, int]:
    a, colon, b = text.partition(":")
    if not colon or not (a.isdecimal() and b.isdecimal() and a.isascii() and b.isascii() and len(text) < 40):
        raise InputError(f"--seeds is A:B, and not {text[:40]!r}", hint="amk selftest soundness --seeds 0:200")
    first, end = int(a), int(b)
    if not first <= end <= MOST_SEEDS:
        raise InputError(f"--seeds goes up, to at most {MOST_SEEDS:,}", hint="amk selftest soundness --seeds 0:200")
    return first, end


def _campaign(first: int, end: int, args: Namespace) -> dict[str, Any]:
    """The summary of the seeds of a range: those of the ledger, and those that are judged now."""
    from amk.cli.ledger import Ledger
    from amk.harness.soundness import Soundness
    from amk.harness.summary import summary
    from amk.synth.fingerprint import harness_hash

    known = families()
    only = [name for name in args.families.split(",") if name]
    if unknown := [name for name in only if name not in known]:
        raise InputError(f"there is no family {clean(unknown[0][:40])!r}", hint=f"families: {', '.join(sorted(known))}")
    ledger = Ledger(args.ledger, harness_hash(), known) if args.ledger else None
    had = ledger.records if ledger else {}
    records = [r for seed, r in had.items() if first <= seed < end and (not only or r["family"] in only)]
    options: dict[str, Any] = {"keep": ledger.keep} if ledger else {}
    records += Soundness(known).run(first, end, done=set(had), only=only, seconds=args.seconds, **options)
    return summary(sorted(records, key=lambda r: int(r["seed"])))


def families() -> dict[str, Maker]:
    """The families of the harness, and GEMM as the operator builds it, in small tiles."""
    from amk.harness.families import FAMILIES

    return {**FAMILIES, "library_gemm": _library_gemm}


def _library_gemm(rng: Random) -> tuple[KernelDescriptor, Sequence[Sizes]]:
    """Both layouts of each operand, a batch, partial sums; rings of two or three slots."""
    from amk.dsl.target import Target
    from amk.ops.gemm import Gemm, GemmSchedule, build

    wide: Literal[1, 4] = rng.choice((1, 4))
    split = rng.choice((1, 1, 2))
    trans_a, trans_b = rng.random() < 0.5, rng.random() < 0.5
    problem = Gemm(m=40, n=40, k=24, batch=1 if split > 1 else rng.choice((1, 2)), trans_a=trans_a, trans_b=trans_b)
    schedule = GemmSchedule(
        bm=16, bn=32, bk=8, tm=4, tn=4, stages=rng.choice((2, 3)), vec_width=wide, split_k=split,
        pad=0 if trans_a and not trans_b else rng.choice((0, 4)), serpentine=rng.random() < 0.5,
    )  # fmt: skip
    shapes = ((17, 36, 28), (3, 5, 9), (16, 32, 0))
    return build(problem, schedule, Target.find("sm_80")), [{"M": m, "N": n, "K": k, "batch": 2} for m, n, k in shapes]


# --------------------------------------------------------------------------------------------------------------- text
def _show(c: dict[str, Any], seeds: str) -> None:
    columns = ("mutants", "faulty", "caught", "accepted", "false_accept", "false_reject", "undecided", "outside",
               "unjudged", "timed_out")  # fmt: skip
    rows = [(name, *(t[n] for n in columns)) for name, t in (*c["families"].items(), ("all", c))]
    say(table(rows, ("family", *(n.replace("_", " ") for n in columns))))
    found = c["findings"]
    for e in found["false_accept"]:
        sizes = ", ".join(f"{n}={v}" for n, v in e.get("sizes", {}).items())
        say(f"{paint('false accept', 'red')} {_name(e)}\n  {clean(e['fault'])} ({clean(sizes)})")
    for e in (*found["checker_failed"], *found["interpreter_failed"], *found["timed_out"]):
        say(f"{paint(e['outcome'], 'red')} {_name(e)}\n  {clean(e.get('message', ''))}")
    for what in ("false_reject", "undecided", "outside"):
        for group in found[what]["by_reason"]:
            name = paint(what.replace("_", " "), "yellow")
            say(f"{name} x{group['count']}: {group['rule']} {clean(group['reason'])}")
            more = ", …" if group["count"] > MOST_SHOWN else ""
            some = ", ".join(map(str, group["seeds"][:MOST_SHOWN]))
            say(f"  {clean(group['why']) or 'no explanation is known'}; seeds {some}{more}")
    upper = c["rates"]["false_accepts_of_faulty"]["wilson_95"][1]
    say(f"seeds {seeds}: {c['mutants']} mutants ({c['distinct']} different), {c['faulty']} faulty, "
        f"{c['false_accept']} false accepts (at 95 % below {100 * upper:.3f} % of the faulty), "
        f"{c['seconds']['all']:.1f} s")  # fmt: skip


def _name(e: dict[str, Any]) -> str:
    return f"{e['family']}, seed {e['seed']}: {clean(e['mutation'])}"
