"""Repairs: what a rule promises it does, nothing new comes, nothing right changes, the rest of the text stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor, walk
from amk.dsl.patch import Edit
from amk.dsl.target import Target
from amk.harness import samples
from amk.harness.check import check
from amk.harness.diagnostics import Fix, Report
from amk.harness.interp_args import complete
from amk.harness.interpret import Fault, arguments, run
from amk.harness.mend import Mended, applied, mend
from amk.harness.mutations import mutate
from amk.harness.proposed import proposed
from amk.harness.repair import barriers_between, divergent, uniform
from amk.harness.rules import RULES
from amk.harness.rules.examples import example, mirrored, scattered, small
from amk.ops.gemm import Gemm, GemmSchedule, build


def greedy() -> KernelDescriptor:
    """More registers than two blocks an SM leave a thread, and no more than one does."""
    body = [{"kind": "store", "dst": "r[0]", "values": ["0.0"]}, {"kind": "store", "dst": "a[0]", "values": ["r[0]"]}]
    tile = {"kind": "buffer", "name": "r", "space": "register", "dtype": "f32", "shape": [80]}
    return example(threads=512, min_blocks=2, buffers=[*small()["buffers"], tile], body=body)


def aligned() -> KernelDescriptor:
    """A vector store to a shared array that is declared for single elements."""
    k = KernelBuilder("aligned", target="sm_80", threads=32)
    s = k.shared("s", "f32", (128,), align=4)
    k.store(s[k.t * 4], 0.0, 1.0, 2.0, 3.0)
    return k.finish(grid=(1,))


# Rules whose bad example is not what their repair is about.
FAULTY = {"AMK104": greedy, "AMK205": aligned}


def promising() -> list[Any]:
    return [r for r in RULES if "Fix:" in (r.__doc__ or "")]


def codes(report: Report) -> set[str]:
    return {d.code for d in report.diagnostics}


@pytest.mark.parametrize("rule", promising(), ids=lambda r: r.code)
def test_a_rule_that_promises_a_repair_makes_it(rule: Any) -> None:
    kernel = FAULTY.get(rule.code, rule.bad)()
    before = check(kernel)
    assert codes(before) - {"AMK501"} == {rule.code}
    done = mend(kernel.to_json())
    (report,) = done.reports
    assert done.repairs[0].finding.code == rule.code and all(r.fix.safe for r in done.repairs)
    assert report.ok and codes(report) <= codes(before) - {rule.code} | {"AMK501"}
    assert KernelDescriptor.from_json(done.text).hash == report.hash


@pytest.mark.parametrize("rule", [r for r in RULES if r not in promising()], ids=lambda r: r.code)
def test_a_rule_that_promises_none_changes_nothing(rule: Any) -> None:
    text = rule.bad().to_json()
    done = mend(text)
    assert done.text == text and done.repairs == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_every_proposal_fits_the_descriptor(rule: Any) -> None:
    """Also those that are not safe: each reads, and differs from what it is to mend."""
    kernel = FAULTY.get(rule.code, rule.bad)()
    report = proposed(kernel, check(kernel))
    for fix in (f for d in report.diagnostics for f in d.fixes):
        assert fix.title and len(fix.title) < 100
        assert KernelDescriptor.from_json(applied(kernel.to_json(), fix)).to_dict() != kernel.to_dict()
        assert json.loads(json.dumps(fix.to_dict()))["patch"][0]["op"] in ("add", "remove", "replace", "move")


def test_a_kernel_without_a_fault_stays_as_it_is() -> None:
    for kernel in (samples.vector_add(), samples.transpose()):
        done = mend(kernel.to_json())
        assert done.text == kernel.to_json() and done.repairs == () and done.reports[0].ok


# ------------------------------------------------------------------------------------------------ what each repair does
def lines(text: str) -> set[str]:
    return {line.strip().rstrip(",") for line in text.splitlines()}


def test_lines_that_are_not_repaired_stay_with_their_places() -> None:
    k = KernelBuilder("kept", target="sm_80", threads=128)
    s, a = k.shared("s", "i32", (128,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], k.t)
    k.load(a[0], s[127 - k.t])
    text = '{\n "$schema": "mine.json",' + k.finish(grid=(1,)).to_json()[1:].replace('"grid": ["1"]', '"grid":   ["1"]')
    done = mend(text)
    assert lines(done.text) - lines(text) == {'{"kind": "sync"}'} and lines(text) <= lines(done.text)
    places = [s.at for _, s in walk(KernelDescriptor.from_json(done.text).body)]
    assert [bool(p) for p in places] == [True, False, True]


def test_neighbours_that_miss_the_same_guard_share_it() -> None:
    body = [small()["body"][0], *small()["body"][1]["body"]]
    done = mend(example(body=body).to_json())
    kernel = KernelDescriptor.from_json(done.text)
    assert [s.kind for s in kernel.body] == ["let", "if"] and [s.kind for s in kernel.body[1].body] == ["load", "store"]
    assert check(kernel).ok and len(done.repairs) == 1


def test_a_guard_that_a_load_has_is_made_stricter() -> None:
    load = {"kind": "load", "dst": "a[0]", "src": "x[i + 1]", "when": "i < n", "other": "0.0"}
    done = mend(example(body=[small()["body"][0], load]).to_json())
    assert '"when": "i < n and i + 1 < n", "other": "0.0"' in done.text and done.reports[0].ok


def test_an_invented_value_is_not_safe() -> None:
    """A load without a guard whose value is used: what the other threads should have, the checker cannot know."""
    load = {"kind": "load", "dst": "a[0]", "src": "x[i]"}
    used = {"kind": "store", "dst": "a[1]", "values": ["a[0] + 1.0"]}
    kernel = example(body=[small()["body"][0], load, used])
    done = mend(kernel.to_json())
    assert done.repairs == ()
    (d,) = proposed(kernel, check(kernel)).errors
    assert [f.title for f in d.fixes if not f.safe] == ["load only where i < n, and take 0.0 elsewhere"]


def test_a_branch_is_cut_at_its_barrier() -> None:
    k = KernelBuilder("cut", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
    with k.when(k.t < 32):
        k.store(s[k.t], k.t)
        k.sync()
        k.load(a[0], s[31 - k.t])
    done = mend(k.finish(grid=(1,)).to_json())
    assert [s.kind for s in KernelDescriptor.from_json(done.text).body] == ["if", "sync", "if"]
    assert done.reports[0].ok


def test_what_stood_behind_a_fault_is_mended_too() -> None:
    """Two barriers are missing; the engine says so of the first alone, and of the second once that is there."""
    k = KernelBuilder("twice", target="sm_80", threads=64)
    s, u, a = k.shared("s", "i32", (64,)), k.shared("u", "i32", (64,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], k.t)
    k.load(a[0], s[63 - k.t])
    k.store(u[k.t], a[0])
    k.load(a[0], u[63 - k.t])
    done = mend(k.finish(grid=(1,)).to_json())
    assert done.reports[0].ok and done.text.count('"sync"') == 2


def test_a_barrier_goes_where_all_threads_pass() -> None:
    k = KernelBuilder("uneven", target="sm_80", threads=64)
    s, a, b = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,)), k.registers("b", "i32", (1,))
    k.store(a[0], 0)
    half = k.let("half", k.t // 2)
    with k.loop("j", 0, 2) as j:
        k.store(s[k.t], j.var)
        with k.when(half < 16):
            k.load(b[0], s[63 - k.t])
        k.sync()
    kernel = k.finish(grid=(1,))
    assert divergent(kernel) == {"t", "half"}
    places = list(barriers_between(kernel, "/body/2/body/0", "/body/2/body/1/body/0"))
    assert places == ["/body/2/body/1", "/body/2", "/body/3"]
    assert not uniform(kernel, "/body/2/body/1/body", divergent(kernel))
    done = mend(kernel.to_json())
    assert done.reports[0].ok and [s.kind for s in KernelDescriptor.from_json(done.text).body[2].body][1] == "sync"


def test_resources_are_repaired_for_the_kernels_own_target_alone() -> None:
    text = example(threads=1024, min_blocks=2).to_json().replace('"sm_80"', '"sm_90a"')
    assert mend(text).repairs == ()  # 2048 threads an SM: it fits
    done = mend(text, [Target.find("sm_86")])  # 1536
    assert done.repairs == () and codes(done.reports[0]) == {
        "AMK105",
        "AMK503",
    }  # advice on the block size is no repair


def test_a_repair_holds_on_all_targets() -> None:
    done = mend(mirrored("both", barrier=False).to_json(), [Target.find("sm_80"), Target.find("sm_90a")])
    assert [r.ok for r in done.reports] == [True, True] and len(done.repairs) == 1


def test_suppressions_follow_their_statements() -> None:
    k = KernelBuilder("moves", target="sm_80", threads=32)
    n = k.size("n", min=32)
    x, a = k.tensor("x", "f32", (n, n)), k.registers("a", "f32", (2,))
    s, b = k.shared("s", "i32", (32,)), k.registers("b", "i32", (1,))
    k.store(s[k.t], k.t)
    k.load(b[0], s[31 - k.t])
    with k.suppressed("AMK501", "a column is wanted"):
        k.load(a[0], x[k.t, 0])
    kernel = k.finish(grid=(1,))
    assert [x.pointer for x in kernel.suppress] == ["/body/2"] and not check(kernel).warnings
    done = mend(kernel.to_json())
    assert [x.pointer for x in KernelDescriptor.from_json(done.text).suppress] == ["/body/3"]
    assert done.reports[0].ok and not done.reports[0].warnings and len(done.reports[0].suppressed) == 1


def test_a_suppression_that_goes_does_not_shift_the_others() -> None:
    kernel = scattered("AMK501", "meant")
    data = kernel.to_dict()
    data["suppress"] = [{"code": "AMK502", "reason": "old"}, {**data["suppress"][0], "pointer": "/body/0"}]
    done = mend(json.dumps(data))
    assert json.loads(done.text)["suppress"] == [{"code": "AMK501", "reason": "meant", "pointer": "/body/0"}]


def test_repairs_are_given_up_after_so_many_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    from amk.harness import mend as module

    monkeypatch.setattr(module, "MOST_CHECKS", 1)
    done = mend(mirrored("once", barrier=False).to_json())
    assert done.repairs == () and not done.reports[0].ok


def test_a_long_file_gets_fewer_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    from amk.harness import mend as module

    text = mirrored("brief", barrier=False).to_json()  # three statements
    for statements, repairs in ((2, 0), (4, 1)):
        monkeypatch.setattr(module, "MOST_STATEMENTS", statements)
        assert len(mend(text).repairs) == repairs


def test_repairs_that_move_nothing_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from amk.harness import mend as module

    checked: list[bool] = []
    real = module.check
    monkeypatch.setattr(module, "check", lambda *a, **how: checked.append(how["replay"]) or real(*a, **how))
    body = [{"kind": "store", "dst": "a[0]", "values": ["1"]} for _ in range(40)]
    done = mend(example(body=body).to_json())
    assert len(done.repairs) == 40 and done.reports[0].ok and checked == [True, False]


def test_what_is_left_is_shown_in_the_interpreter() -> None:
    """A race that a barrier cures, and an index that nothing does."""
    k = KernelBuilder("left", target="sm_80", threads=64)
    s, a = k.shared("s", "i32", (64,)), k.registers("a", "i32", (1,))
    k.store(s[k.t], k.t)
    k.load(a[0], s[63 - k.t])
    k.store(a[3], 0)
    done = mend(k.finish(grid=(1,)).to_json())
    assert codes(done.before[0]) == {"AMK203", "AMK301"} and codes(done.reports[0]) == {"AMK203"}
    assert all(d.confirmed for d in (*done.before[0].errors, *done.reports[0].errors))


def test_a_repair_that_does_not_help_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from amk.harness.rules.amk301_shared_race import AMK301

    useless = Fix("rename it", (Edit("replace", "/name", "other"),), safe=True)
    harmful = Fix("drop the array", (Edit("remove", "/buffers/0"),), safe=True)
    misplaced = Fix("nowhere", (Edit("replace", "/body/99", {}),), safe=True)
    monkeypatch.setattr(AMK301, "fixes", lambda self, k, d: iter((useless, harmful, misplaced)))
    text = mirrored("stays", barrier=False).to_json()
    done = mend(text)
    assert done.text == text and done.repairs == ()


# -------------------------------------------------------------------------------------------------------------- mutants
TILE = GemmSchedule(bm=32, bn=32, bk=8, tm=2, tn=4, stages=2, vec_width=1)
SUBJECTS = [
    (samples.vector_add(threads=64), ({"n": 100}, {"n": 64}, {"n": 1})),
    (samples.transpose(tile=16, rows=8), ({"m": 17, "n": 20}, {"m": 16, "n": 16})),
    (samples.block_sum(threads=64), ({"n": 300}, {"n": 31})),
    (
        build(Gemm(m=33, n=37, k=19), TILE, Target.find("sm_80")),
        ({"M": 33, "N": 37, "K": 27}, {"M": 7, "N": 70, "K": 8}),
    ),
]


@lru_cache(maxsize=1)
def mended() -> tuple[tuple[str, KernelDescriptor, Any, Mended], ...]:
    """Mutants in which the checker finds an error, and what became of them."""
    out = []
    for i in range(48):
        kernel, sizes = SUBJECTS[i % len(SUBJECTS)]
        mutant, said = mutate(kernel, Random(f"mend/{i}"))
        done = mend(mutant.to_json())
        if done.before[0].errors:
            out.append((f"{i} {kernel.name} {said}", mutant, sizes, done))
    return tuple(out)


def outputs(kernel: KernelDescriptor, sizes: dict[str, int]) -> dict[str, Any] | None:
    """What a kernel writes; None where the interpreter shows a fault."""
    args = arguments(kernel, complete(kernel, sizes, 0))
    rng = np.random.default_rng(1)
    for a in args.values():
        if isinstance(a, np.ndarray):
            a[...] = rng.integers(0, 9, a.shape)
    start = {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in args.items()}
    try:
        run(kernel, args, detect=True)
        run(kernel, start, coverage=True)
    except Fault:
        return None
    return {p.name: args[p.name] for p in kernel.tensors if p.access != "read"}


def repaired() -> Iterator[tuple[str, KernelDescriptor, Any, KernelDescriptor]]:
    for said, mutant, sizes, done in mended():
        if done.repairs:
            yield said, mutant, sizes, KernelDescriptor.from_json(done.text)


def test_a_repaired_mutant_has_fewer_findings_and_no_other() -> None:
    found = mended()
    for said, _, _, done in found:
        before, after = done.before[0], done.reports[0]
        assert codes(after) <= codes(before), said
        assert (len(after.diagnostics) < len(before.diagnostics)) is bool(done.repairs), said
    assert len(found) >= 20 and sum(bool(done.repairs) for *_, done in found) >= 6


def test_a_repair_changes_nothing_that_was_right() -> None:
    """At sizes where the mutant ran without a fault, the mended kernel writes the same."""
    compared = 0
    for said, mutant, sizes, kernel in repaired():
        for point in sizes:
            if (right := outputs(mutant, point)) is not None:
                now = outputs(kernel, point)
                assert now is not None and all(np.array_equal(right[n], now[n], equal_nan=True) for n in right), said
                compared += 1
    assert compared >= 3


def test_what_is_clean_after_repair_runs_clean() -> None:
    for said, _, sizes, done in mended():
        if done.repairs and done.reports[0].ok:
            kernel = KernelDescriptor.from_json(done.text)
            assert all(outputs(kernel, point) is not None for point in sizes), said


def test_the_grid_that_is_rounded_up_is_that_of_every_size() -> None:
    k = KernelBuilder("grid", target="sm_80", threads=64)
    n = k.size("n", min=64)
    y = k.tensor("y", "f32", (n,), access="write")
    i = k.let("i", k.bx * 64 + k.t)
    with k.when(i < n):
        k.store(y[i], 1.0)
    done = mend(k.finish(grid=(n // 64,)).to_json())
    assert KernelDescriptor.from_json(done.text).grid == (cdiv(n, 64),)
