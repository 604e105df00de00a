"""Correct kernels as JSON, each broken in one way: the check refuses every one with a code of the right family."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from amk import api
from amk.dsl.kernel import KernelDescriptor
from amk.dsl.target import Target
from amk.errors import Refused
from amk.harness.check import check
from amk.ops.gemm import Gemm, GemmSchedule, build

Data = dict[str, Any]
Edit = Callable[[Data], Data]

ORDER = ("AMK2", "AMK3")  # a lost ordering shows as a race or as a read of what is not there yet
EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def source(name: str) -> str:
    """The JSON text of a correct kernel."""
    if name.startswith("gemm"):
        s = GemmSchedule(bm=32, bn=32, bk=16, tm=2, tn=4, stages=int(name[4:]), vec_width=4)
        return build(Gemm(m=64, n=64, k=64), s, Target.find("sm_80")).to_json()
    path = next(EXAMPLES.glob(f"{name}_*.py"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel: KernelDescriptor = module.build()
    return kernel.to_json()


# ---------------------------------------------------------------------------------------------------------------- edits
def statements(body: list[Data]) -> Iterator[tuple[list[Data], int]]:
    """Every statement of JSON data in program order: the list it stands in and its place there."""
    for i, s in enumerate(body):
        yield body, i
        yield from statements(s.get("body", []))


def pick(d: Data, kind: str, n: int) -> tuple[list[Data], int]:
    """The n-th statement of a kind."""
    return [(body, i) for body, i in statements(d["body"]) if body[i]["kind"] == kind][n]


def drop(kind: str, n: int = 0) -> Edit:
    """Without the n-th statement of a kind."""

    def edit(d: Data) -> Data:
        body, i = pick(d, kind, n)
        del body[i]
        return d

    return edit


def unguard(kind: str, n: int = 0) -> Edit:
    """Without the condition of the n-th statement of a kind."""

    def edit(d: Data) -> Data:
        body, i = pick(d, kind, n)
        if kind == "if":
            body[i : i + 1] = body[i]["body"]
        else:
            del (body[i]["args"] if kind == "call" else body[i])["when"]
        return d

    return edit


def wrap(kind: str, cond: str, n: int = 0) -> Edit:
    """The n-th statement of a kind under a condition."""

    def edit(d: Data) -> Data:
        body, i = pick(d, kind, n)
        body[i] = {"kind": "if", "cond": cond, "body": [body[i]]}
        return d

    return edit


def put(kind: str, n: int = 0, **fields: Any) -> Edit:
    """Other fields in the n-th statement of a kind."""

    def edit(d: Data) -> Data:
        body, i = pick(d, kind, n)
        body[i].update(fields)
        return d

    return edit


def swap(old: str, new: str, n: int | None = None) -> Edit:
    """Other text in the JSON: everywhere, or in its n-th place only."""

    def edit(d: Data) -> Data:
        parts = json.dumps(d).split(old)
        assert len(parts) > 1 + (n or 0), f"{old!r} does not stand in the kernel"
        if n is None:
            text = new.join(parts)
        else:
            text = old.join(parts[: n + 1]) + new + old.join(parts[n + 1 :])
        return json.loads(text)  # type: ignore[no-any-return]

    return edit


def shape(buffer: str, *extents: int) -> Edit:
    """Another shape of a buffer."""

    def edit(d: Data) -> Data:
        next(b for b in d["buffers"] if b["name"] == buffer)["shape"] = list(extents)
        return d

    return edit


def field(**values: Any) -> Edit:
    """Other fields of the kernel itself."""
    return lambda d: {**d, **values}


def broken(name: str, edit: Edit) -> KernelDescriptor:
    """The kernel after an edit, read from JSON as an author's file would be."""
    return KernelDescriptor.from_json(json.dumps(edit(json.loads(source(name)))))


# ---------------------------------------------------------------------------------------------------------------- cases
def gemm_cases(g: str) -> list[tuple[str, str, Edit, tuple[str, ...]]]:
    """Faults that a ring of either depth shows."""
    deep = g == "gemm3"
    steps = 2 if deep else 1  # tiles copied before the loop
    pending = {"pending": 2 if deep else 1}
    inside_a, inside_b = 2 * steps, 2 * steps + 1  # copies in the loop
    k_tail = f"(step + {steps}) * 16 + t % 4 * 4 < K"
    return [
        ("barrier dropped", g, drop("sync"), ORDER),
        ("barrier of a warp only", g, put("sync", scope="warp"), ORDER),
        ("barrier under a thread condition", g, wrap("sync", "t < 64"), ("AMK302",)),
        ("wait dropped", g, drop("wait"), ORDER),
        ("wait too weak", g, put("wait", **pending), ORDER),
        ("first commit dropped", g, drop("commit"), ORDER),
        ("commit of the loop dropped", g, drop("commit", steps), ORDER),
        ("slots of a short", g, shape("a", steps, 32, 16), ORDER),
        ("slots of b short", g, shape("b", steps, 16, 32), ORDER),
        ("rows of a short", g, shape("a", steps + 1, 31, 16), ("AMK202",)),
        ("columns of b short", g, shape("b", steps + 1, 16, 28), ("AMK202",)),
        ("first copy of a unguarded", g, unguard("call", 0), ("AMK201",)),
        ("first copy of b unguarded", g, unguard("call", 1), ("AMK201",)),
        ("copy of a unguarded", g, unguard("call", inside_a), ("AMK201",)),
        ("copy of b unguarded", g, unguard("call", inside_b), ("AMK201",)),
        ("k tail unguarded", g, swap(f" and {k_tail}", ""), ("AMK201",)),
        ("k tail off by one", g, swap(k_tail, k_tail.replace("<", "<=")), ("AMK201",)),
        ("rows off by one", g, swap("m0 + t // 4 < M", "m0 + t // 4 <= M"), ("AMK201",)),
        ("columns off by one", g, swap("n0 + t % 8 * 4 < N", "n0 + t % 8 * 4 <= N"), ("AMK201",)),
        ("store unguarded", g, unguard("if", 1), ("AMK201",)),
        ("last store unguarded", g, unguard("if", 2), ("AMK201",)),
        ("store rows off by one", g, swap("m0 + (wm + lm) < M", "m0 + (wm + lm) <= M"), ("AMK201",)),
        ("store columns off by one", g, swap("n0 + (wn + ln * 4) < N", "n0 + (wn + ln * 4) <= N"), ("AMK201",)),
        ("store shifted by a row", g, swap("C[m0 + (wm + lm),", "C[m0 + (wm + lm) + 1,"), ("AMK201", "AMK4")),
        ("store shifted by a column", g, swap("n0 + (wn + ln * 4)]", "n0 + (wn + ln * 4) + 1]"), ("AMK2",)),
        ("store dropped", g, drop("if", 2), ("AMK401",)),
        ("copy on an odd base", g, swap("A[m0 + t // 4, t % 4 * 4]", "A[m0 + t // 4, t % 4 * 4 + 1]"), ("AMK2",)),
        ("copy to an odd slot", g, swap("a[fill, t // 4, t % 4 * 4]", "a[fill, t // 4, t % 4 * 4 + 1]"), ("AMK2",)),
        ("read on an odd base", g, swap("b[slot, q * 4, wn + ln * 4]", "b[slot, q * 4, wn + ln * 4 + 1]"), ("AMK2",)),
        ("read a row too far", g, swap("b[slot, q * 4 + 3,", "b[slot, q * 4 + 4,"), ("AMK202",)),
        ("read of the slot being filled", g, swap("a[slot,", "a[fill,"), ORDER),
        ("slots never turn", g, swap(f"select(slot == {steps}, 0, slot + 1)", "slot"), ORDER),
        ("slots turn one late", g, swap(f"select(fill == {steps},", f"select(fill == {steps + 1},"), ("AMK202",)),
        ("sums never zeroed", g, drop("for"), ("AMK207",)),
        ("grid short by a column of tiles", g, swap('"cdiv(N, 32)"', '"N // 32"'), ("AMK401", "AMK1")),
        ("grid short by a row of tiles", g, swap('"cdiv(M, 32)"', '"M // 32"'), ("AMK401", "AMK1")),
        ("rows beyond grid y", g, swap('"max": 2097120', '"max": 2097184'), ("AMK102",)),
        ("pitch not a multiple", g, swap('"ldb", "dtype": "i64", "min": 1, "multiple_of": 4', '"ldb", "dtype": "i64", '
            '"min": 1, "multiple_of": 2'), ("AMK205",)),
        ("base aligned to 8 bytes", g, swap('"align": 16', '"align": 8', 0), ("AMK205",)),
        ("offsets in 32 bits", g, swap('"align": 16', '"align": 16, "offsets": "i32"', 0), ("AMK204",)),
        ("output declared read", g, swap('"access": "write"', '"access": "read"'), ("AMK404",)),
        ("2,048 threads", g, field(threads=2048), ("AMK101",)),
        ("half the threads", g, field(threads=64), ("AMK2", "AMK4")),
        ("twice the threads", g, field(threads=256), ("AMK2", "AMK3", "AMK4")),
        ("shared memory over the limit", g, shape("a", 96, 32, 16), ("AMK103",)),
        ("more blocks than fit", g, field(min_blocks=17), ("AMK1",)),
    ]  # fmt: skip


CASES: list[tuple[str, str, Edit, tuple[str, ...]]] = [
    *gemm_cases("gemm2"),
    *gemm_cases("gemm3"),
    ("barrier dropped", "ex02", drop("sync"), ORDER),
    ("barrier under a thread condition", "ex02", wrap("sync", "ty < 4"), ("AMK302",)),
    ("load unguarded", "ex02", unguard("load"), ("AMK201",)),
    ("last load unguarded", "ex02", unguard("load", 3), ("AMK201",)),
    ("rows off by one", "ex02", swap("< m", "<= m", 0), ("AMK201",)),
    ("columns off by one", "ex02", swap("< n", "<= n", 0), ("AMK201",)),
    ("store unguarded", "ex02", unguard("if"), ("AMK201",)),
    ("last store unguarded", "ex02", unguard("if", 3), ("AMK201",)),
    ("store rows off by one", "ex02", swap("ty < n", "ty <= n"), ("AMK201",)),
    ("store dropped", "ex02", drop("if", 2), ("AMK401",)),
    ("tile short of rows", "ex02", shape("tile", 31, 32), ("AMK202",)),
    ("tile short of columns", "ex02", shape("tile", 32, 31), ("AMK202",)),
    ("a row of the tile not filled", "ex02", drop("store", 1), ORDER),
    ("grid short in x", "ex02", swap('"cdiv(n, 32)"', '"cdiv(n, 32) - 1"'), ("AMK1", "AMK4")),
    ("grid short in y", "ex02", swap('"cdiv(m, 32)"', '"m // 32"'), ("AMK1", "AMK4")),
    ("rows beyond grid y", "ex02", swap('"max": 2097120', '"max": 2097152'), ("AMK102",)),
    ("2,048 threads", "ex02", field(threads=2048), ("AMK101",)),
    ("half the threads", "ex02", field(threads=128), ("AMK2", "AMK4")),
    ("tile over the limit", "ex02", shape("tile", 2048, 32), ("AMK103",)),
    ("barrier dropped", "ex03", drop("sync"), ORDER),
    ("barrier of a warp only", "ex03", put("sync", scope="warp"), ORDER),
    ("barrier under a thread condition", "ex03", wrap("sync", "t < 32"), ("AMK302",)),
    ("load unguarded", "ex03", unguard("load"), ("AMK201",)),
    ("load off by one", "ex03", swap("+ t < n", "+ t <= n"), ("AMK201",)),
    ("sum never zeroed", "ex03", drop("store"), ("AMK207",)),
    ("partial sums of one warp short", "ex03", shape("partial", 7), ("AMK202",)),
    ("read of slots nobody fills", "ex03", swap("lane < 8", "lane < 9"), ("AMK2",)),
    ("read of slots unguarded", "ex03", unguard("load", 4), ("AMK2",)),
    ("every lane writes its warp's sum", "ex03", unguard("if"), ("AMK3",)),
    ("every lane writes the block's sum", "ex03", unguard("if", 2), ("AMK3", "AMK4")),
    ("every warp reads the sums", "ex03", unguard("if", 1), ("AMK3", "AMK4")),
    ("half a warp in the last shuffles", "ex03", swap('"t < 32"', '"t < 16"'), ("AMK305",)),
    ("grid short by one", "ex03", swap('"grid": ["cdiv(n, 1024)"]', '"grid": ["n // 1024"]'), ("AMK1", "AMK4")),
    ("grid long by one", "ex03", swap('"grid": ["cdiv(n, 1024)"]', '"grid": ["cdiv(n, 1024) + 1"]'), ("AMK201",)),
    ("sum written one further", "ex03", swap("sums[bx]", "sums[bx + 1]"), ("AMK201",)),
    ("2,048 threads", "ex03", field(threads=2048), ("AMK101",)),
    ("half the threads", "ex03", field(threads=128), ("AMK2", "AMK4")),
]  # fmt: skip


@pytest.mark.parametrize("name", ["gemm2", "gemm3", "ex02", "ex03"])
def test_unbroken_kernels_are_accepted(name: str) -> None:
    """What is broken below is right as it stands, also after a round through JSON."""
    report = check(broken(name, lambda d: d))
    assert report.ok and report.exit_code() == 0, report.diagnostics


@pytest.mark.parametrize(
    ("name", "edit", "family"), [pytest.param(*case[1:], id=f"{case[1]}: {case[0]}") for case in CASES]
)
def test_broken_kernels_are_refused(name: str, edit: Edit, family: tuple[str, ...]) -> None:
    """One fault, and an error of its family; never a crash, never 'undecided' alone, never exit code 0."""
    report = check(broken(name, edit))
    assert report.errors and report.exit_code() == 1, (report.exit_code(), report.diagnostics)
    assert any(d.code.startswith(family) for d in report.errors), [(d.code, d.message) for d in report.errors]
    assert not any(d.code.startswith("AMK9") for d in report.diagnostics), report.diagnostics


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a[fill, t // 4, t % 4 * 4]", "a[fill, t // 4, (t % 4 ^ t // 4 % 4) * 4]"),
        ("a[slot, wm + lm, q * 4]", "a[slot, wm + lm, (q ^ lm) * 4]"),
        ("ra[0, i1, 0]", "ra[0, i1, 1]"),
    ],
    ids=["swizzle on the writing side", "swizzle on the reading side", "k out of step"],
)
def test_safe_and_wrong_kernels_get_no_certificate(old: str, new: str) -> None:
    """A swizzle on one side only breaks no rule of memory: the result shows it, so no certificate is made."""
    with pytest.raises(Refused) as refusal:
        api.certify(broken("gemm2", swap(old, new)))
    assert any(d.code == "AMK403" for d in refusal.value.report.errors)
