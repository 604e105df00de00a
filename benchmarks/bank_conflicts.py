"""Whether the advice counts as the hardware does: small kernels, what is predicted of each, and what ncu counts.

    B=benchmarks/bank_conflicts.py
    ncu --csv --metrics "$(python $B --metrics)" python $B --run > ncu.csv
    python $B --join ncu.csv --out benchmarks/results/bank-conflicts.json

`--run` launches every kernel once in one process, with the driver alone, and compares its output with the CPU executor
(`--run --device cpu` does without a GPU). `--join` needs none: it sets the counters beside what `amk.harness.traffic`
enumerates, under each variant of the rule for banks, and prints the share within 2 %.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import amk
from amk.dsl.builder import Handle, KernelBuilder
from amk.dsl.expr import Expr, apply
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.layout import Layout, Padded, Swizzle
from amk.dsl.traffic import BankRule
from amk.harness.traffic import totals, traffic

T = KernelBuilder.t
NEAR = 0.02
RULES = {"pairs together": BankRule(pairs=True), "pairs apart": BankRule(pairs=False)}
# By the counter's name: the kind of access, and what is counted of it.
METRICS = {
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": ("shared_ld", "passes"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": ("shared_st", "passes"),
    "smsp__inst_executed_op_shared_ld.sum": ("shared_ld", "requests"),
    "smsp__inst_executed_op_shared_st.sum": ("shared_st", "requests"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("global_ld", "sectors"),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("global_st", "sectors"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("global_ld", "requests"),
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": ("global_st", "requests"),
}
JUDGED = ("passes", "sectors")  # requests are shown: how an access of 16 bytes is split into them is ncu's affair

Index = Callable[[Expr], tuple[Expr, Expr]]


class Probe(NamedTuple):
    """A kernel of a few instructions. `inputs` are its arrays that are read."""

    name: str
    kernel: KernelDescriptor
    inputs: dict[str, Any]
    output: tuple[int, ...]


def main() -> None:
    """One of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--metrics", action="store_true")
    step.add_argument("--run", action="store_true")
    step.add_argument("--predict", action="store_true", help="what is expected of each kernel")
    step.add_argument("--join", type=Path, metavar="CSV")
    parser.add_argument("--device", default="0", help='of --run: a GPU\'s index, or "cpu"')
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.metrics:
        print(",".join(METRICS))
    elif args.run:
        run("cpu" if args.device == "cpu" else int(args.device))
    elif args.predict:
        for p in probes():
            print(p.name, json.dumps(totals(traffic(p.kernel))))
    else:
        found = joined(args.join.read_text())
        show(found)
        if args.out:
            args.out.write_text(written(found))


# -------------------------------------------------------------------------------------------------------------- probes
def probes() -> list[Probe]:
    """Every kernel, in the order in which they run."""
    made = [*_loads(), *_stores(), *_globals()]
    return [p(f"p{i:02d}") for i, p in enumerate(made)]


def _loads() -> Iterator[Callable[[str], Probe]]:
    """Loads from shared memory: 2, 4, 8 and 16 bytes a lane; strides, pads, swizzles, equal words, lanes left out."""

    def flat(stride: int) -> Index:
        return lambda t: (t * 0, t * stride)

    def row(f: Callable[[Expr], Expr], g: Callable[[Expr], Expr] | None = None) -> Index:
        return lambda t: (f(t), g(t) if g else t * 0)

    load = shared_load
    for stride in (1, 2, 3, 8, 32):
        yield partial(load, index=flat(stride), shape=(1, 128 * stride), tag=f"ld4_stride{stride}")
    yield partial(load, index=row(lambda t: t % 32, lambda t: t // 32), shape=(32, 32), tag="ld4_column")
    yield partial(load, index=row(lambda t: t % 32, lambda t: t // 32), shape=(32, 32), layout=Padded(pad=1),
                  tag="ld4_column_padded")  # fmt: skip
    yield partial(load, index=row(lambda t: t % 32, lambda t: t // 32), shape=(32, 32),
                  layout=Swizzle(bits=5, base=0, shift=5), tag="ld4_column_swizzled")  # fmt: skip
    yield partial(load, index=flat(0), shape=(1, 128), tag="ld4_broadcast")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 2 * 32), shape=(1, 2048), tag="ld4_pairs_of_column")
    yield partial(load, index=flat(32), shape=(1, 4096), when=lambda t: apply("<", t % 32, 5), tag="ld4_five_lanes")
    yield partial(load, index=flat(2), shape=(1, 96), threads=48, tag="ld4_half_a_warp_more")
    yield partial(load, index=flat(1), shape=(1, 128), dtype="f16", tag="ld2_stride1")
    for stride in (2, 4, 16, 34):
        yield partial(load, index=flat(stride), shape=(1, 128 * stride), width=2, tag=f"ld8_stride{stride}")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 2 * 2), shape=(1, 128), width=2, tag="ld8_pairs")
    yield partial(load, index=row(lambda t: t * 0, lambda t: (t % 2 + t // 4 * 2) * 2), shape=(1, 128), width=2,
                  tag="ld8_pairs_of_two")  # fmt: skip
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 4 * 2), shape=(1, 128), width=2, tag="ld8_fours")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 2 * 2), shape=(1, 128), width=2,
                  when=lambda t: apply("<", t % 2, 1), tag="ld8_even_lanes")  # fmt: skip
    for stride in (4, 8, 32, 36):
        yield partial(load, index=flat(stride), shape=(1, 128 * stride), width=4, tag=f"ld16_stride{stride}")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 2 * 4), shape=(1, 256), width=4, tag="ld16_pairs")
    yield partial(load, index=row(lambda t: t * 0, lambda t: (t % 2 + t // 4 * 2) * 4), shape=(1, 256), width=4,
                  tag="ld16_pairs_of_two")  # fmt: skip
    yield partial(load, index=row(lambda t: t * 0, lambda t: t // 8 * 4), shape=(1, 128), width=4, tag="ld16_eights")
    yield partial(load, index=row(lambda t: t * 0, lambda t: t % 16 * 4), shape=(1, 128), width=4, tag="ld16_halves")
    lane_rows = row(lambda t: t % 2 + t % 32 // 16 * 2)  # as a GEMM reads a fragment of A: four rows a warp
    yield partial(load, index=lane_rows, shape=(32, 32), width=4, tag="ld16_fragment")
    yield partial(load, index=lane_rows, shape=(32, 32), layout=Padded(pad=4), width=4, tag="ld16_fragment_padded")
    yield partial(load, index=row(lambda t: t % 32), shape=(32, 32), width=4, layout=Swizzle(bits=3, base=2, shift=3),
                  tag="ld16_column_swizzled")  # fmt: skip
    yield partial(load, index=row(lambda t: t % 32), shape=(32, 32), width=4, tag="ld16_column")


def _stores() -> Iterator[Callable[[str], Probe]]:
    """Stores to shared memory, each thread to its own place, and the same places read back."""
    for stride in (1, 2, 32, 33):
        yield partial(shared_store, stride=stride, width=1, tag=f"st4_stride{stride}")
    for stride in (2, 4, 34):
        yield partial(shared_store, stride=stride, width=2, tag=f"st8_stride{stride}")
    for stride in (4, 8, 36):
        yield partial(shared_store, stride=stride, width=4, tag=f"st16_stride{stride}")


def _globals() -> Iterator[Callable[[str], Probe]]:
    """Global memory: strides, an offset, equal addresses, lanes left out, columns; 4, 8 and 16 bytes a lane."""
    for stride in (1, 2, 8, 16):
        yield partial(global_load, index=lambda t, s=stride: t * s, size=128 * stride, tag=f"gl4_stride{stride}")
    yield partial(global_load, index=lambda t: t + 3, size=160, tag="gl4_offset3")
    yield partial(global_load, index=lambda t: t // 32, size=32, tag="gl4_broadcast")
    yield partial(global_load, index=lambda t: t % 32 * 40 + t // 32, size=2048, tag="gl4_pitch40")
    yield partial(global_load, index=lambda t: t // 8 * 41 + t % 8, size=1024, tag="gl4_rows_of_8_pitch41")
    yield partial(global_load, index=lambda t: t, size=128, when=lambda t: apply("<", t % 4, 1), tag="gl4_every_fourth")
    yield partial(global_load, index=lambda t: t * 2, size=256, width=2, tag="gl8_stride2")
    yield partial(global_load, index=lambda t: t * 8, size=1024, width=2, tag="gl8_stride8")
    yield partial(global_load, index=lambda t: t * 4, size=512, width=4, tag="gl16_stride4")
    yield partial(global_load, index=lambda t: t * 8, size=1024, width=4, tag="gl16_stride8")
    yield partial(global_load, index=lambda t: t // 8 * 4, size=64, width=4, tag="gl16_eights")
    for columns in (1, 2, 8):
        yield partial(global_store, columns=columns, tag=f"gs4_columns{columns}")


def shared_load(
    name: str, *, index: Index, shape: tuple[int, int], tag: str, layout: Layout | None = None, width: int = 1,
    dtype: str = "i32", threads: int = 128, when: Callable[[Expr], Expr] | None = None,
) -> Probe:  # fmt: skip
    """Fills an array, waits, and loads from it once: only the load's addresses matter."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=threads)
    s, r = k.shared("s", dtype, shape, layout=layout), k.registers("r", dtype, (width,))
    x = k.tensor("x", dtype, (shape[0] * shape[1],))
    z = k.tensor("z", dtype, (threads, width), access="write", align=16)
    for first in range(0, shape[0] * shape[1], threads):
        at = k.t + first
        k.load(r[0], x[at])
        k.store(s[at // shape[1], at % shape[1]], r[0])
    k.sync()
    other: dict[str, Any] = {"when": when(k.t), "other": 0} if when else {}
    k.load(r[0], s[index(k.t)], width=width, **other)
    k.store(z[k.t, 0], *(r[i] for i in range(width)))
    values = np.arange(shape[0] * shape[1]).astype(np.float16 if dtype == "f16" else np.int32)
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {"x": values}, (threads, width))


def shared_store(name: str, *, stride: int, width: int, tag: str) -> Probe:
    """Each thread stores `width` values at its multiple of `stride`, waits, and reads them back."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=128)
    s, r = k.shared("s", "i32", (128 * stride,)), k.registers("r", "i32", (width,))
    z = k.tensor("z", "i32", (128, width), access="write", align=16)
    k.store(s[k.t * stride], *(k.t * width + i for i in range(width)))
    k.sync()
    k.load(r[0], s[k.t * stride], width=width)
    k.store(z[k.t, 0], *(r[i] for i in range(width)))
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {}, (128, width))


def global_load(
    name: str, *, index: Callable[[Expr], Expr], size: int, tag: str, width: int = 1,
    when: Callable[[Expr], Expr] | None = None,
) -> Probe:  # fmt: skip
    """Loads from global memory once."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=128)
    x, r = k.tensor("x", "i32", (size,), align=16), k.registers("r", "i32", (width,))
    z = k.tensor("z", "i32", (128, width), access="write", align=16)
    other: dict[str, Any] = {"when": when(k.t), "other": 0} if when else {}
    k.load(r[0], x[index(k.t)], width=width, **other)
    k.store(z[k.t, 0], *(r[i] for i in range(width)))
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {"x": np.arange(size, dtype=np.int32)}, (128, width))


def global_store(name: str, *, columns: int, tag: str) -> Probe:
    """Stores a row of `columns` elements a thread, one column after the other."""
    k = KernelBuilder(f"{name}_{tag}", target="sm_80", threads=128)
    z: Handle = k.tensor("z", "i32", (128, columns), access="write")
    for c in range(columns):
        k.store(z[k.t, c], k.t + c)
        k.sync()  # else the compiler joins neighbours to one wide store
    return Probe(f"{name}_{tag}", k.finish(grid=(1,)), {}, (128, columns))


# ----------------------------------------------------------------------------------------------------------------- run
def run(device: int | str) -> None:
    """Launches every kernel once, and holds its output against the CPU executor's."""
    for p in probes():
        got, want = launched(p, device), launched(p, "cpu")
        assert (got == want).all(), f"{p.name} computed something else"
        print(f"{p.name} ran", file=sys.stderr)


def launched(p: Probe, device: int | str) -> Any:
    """The output of one launch."""
    z = np.full(p.output, 7, p.inputs["x"].dtype if "x" in p.inputs else np.int32)
    amk.compile(p.kernel, device=device)(**p.inputs, z=z)
    return z


# ---------------------------------------------------------------------------------------------------------------- join
def joined(text: str) -> dict[str, list[dict[str, Any]]]:
    """For each variant of the rule: kernel, counter, what was predicted, what was counted, and the difference."""
    counted = counters(text)
    out: dict[str, list[dict[str, Any]]] = {}
    for variant, rule in RULES.items():
        rows = out[variant] = []
        for p in probes():
            expected = totals(traffic(p.kernel, rule=rule))
            for metric, (kind, what) in METRICS.items():
                want, got = expected.get(kind, {}).get(what, 0), counted.get(p.name, {}).get(metric)
                if got is not None and (want or got):
                    off = abs(got - want) / max(want, got)
                    rows.append({"kernel": p.name, "kind": kind, "what": what, "predicted": want, "counted": got,
                                 "off": round(off, 4)})  # fmt: skip
    return out


def counters(text: str) -> dict[str, dict[str, float]]:
    """Values by kernel and metric of ncu's CSV, one metric a line or one a column; other lines are skipped."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise SystemExit('no line begins with "ID": this is not what ncu --csv prints')
    out: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(line for line in lines[start:] if line.startswith('"')):
        mine = out.setdefault(row["Kernel Name"].split("(")[0].strip(), {})
        named = {row["Metric Name"]: row["Metric Value"]} if "Metric Name" in row else row
        mine |= {m: float(v.replace(",", "")) for m, v in named.items() if m in METRICS and _number(v)}
    return out


def _number(text: str | None) -> bool:
    return bool(text) and text.replace(",", "").replace(".", "", 1).isdigit()  # type: ignore[union-attr]


def judged(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Kernels whose passes and sectors all lie within 2 %, and kernels that were counted."""
    of: dict[str, list[bool]] = {}
    for r in rows:
        if r["what"] in JUDGED:
            of.setdefault(r["kernel"], []).append(r["off"] <= NEAR)
    return sum(map(all, of.values())), len(of)


def show(found: dict[str, list[dict[str, Any]]]) -> None:
    """The share of each variant, and every difference."""
    for variant, rows in found.items():
        near, kernels = judged(rows)
        print(f"{variant}: {near} of {kernels} kernels within {NEAR:.0%}")
        for r in rows:
            if r["off"] > NEAR:
                note = "" if r["what"] in JUDGED else "  (not judged)"
                numbers = f"{r['predicted']} predicted, {r['counted']:g} counted"
                print(f"  {r['kernel']:<28} {r['kind']} {r['what']}: {numbers}{note}")


def written(found: dict[str, list[dict[str, Any]]]) -> str:
    """The results file."""
    facts: dict[str, Any] = {"command": "python " + " ".join(sys.argv), "commit": commit(), "within": NEAR}
    facts["variants"] = {v: dict(zip(("near", "kernels"), judged(rows), strict=True)) for v, rows in found.items()}
    head = json.dumps(facts, indent=1)[:-2]
    lines = [json.dumps({"variant": v, **r}) for v, rows in found.items() for r in rows]
    return head + ',\n "rows": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def commit() -> str:
    """The commit of this checkout; with `+` where files differ from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=40"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    main()
