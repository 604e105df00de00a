"""The parts of the second program, each held against the plainest reading of the same thing."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from forging import module

from amk.dsl.expr import Apply, Const, Expr, Var, subterms
from amk.dsl.infer import TypeFault, infer, variable_types
from amk.dsl.kernel import KernelDescriptor, expressions, walk
from amk.dsl.layout import Padded, Strided, Swizzle, extent, offset
from amk.dsl.nodes import Buffer
from amk.dsl.occupancy import max_registers
from amk.dsl.target import architectures
from amk.dsl.types import nbytes
from amk.harness import record, samples
from amk.harness.certify import certify
from amk.harness.domain import launch_facts as launcher
from amk.verify import envelope
from amk.verify.address import byte_offset, elements_of, shared_size
from amk.verify.domain import launch_facts
from amk.verify.dtypes import Misfit, Types
from amk.verify.lanes import Lanes
from amk.verify.limits import most_registers
from amk.verify.linear import linear
from amk.verify.logic import Logic
from amk.verify.memory import Memory, Touch
from amk.verify.outcome import Wrong
from amk.verify.values import NoValue, bounds, evaluate

BOX = {"x": (0, 12), "y": (-5, 9), "t": (0, 31)}
WHOLE = ("+", "-", "*", "//", "%", "cdiv", "min", "max", "&", "|", "^", "<<", ">>")
COMPARED = ("<", "<=", ">", ">=", "==", "!=")


def term(rng: Random, depth: int = 3) -> Expr:
    """A random integer term over x, y and t, without simplification."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([Var("x"), Var("y"), Var("t"), Const(rng.randint(-3, 9)), Const(rng.randint(1, 8))])
    if rng.random() < 0.1:
        return Apply("select", (claim(rng, depth - 1), term(rng, depth - 1), term(rng, depth - 1)))
    op = rng.choice(WHOLE)
    right = Const(rng.randint(1, 8)) if op in ("//", "%", "cdiv", "<<", ">>") else term(rng, depth - 1)
    return Apply(op, (term(rng, depth - 1), right))


def claim(rng: Random, depth: int = 2) -> Expr:
    if rng.random() < 0.3:
        return Apply(rng.choice(("and", "or")), (claim(rng, depth - 1), claim(rng, depth - 1)))
    return Apply(rng.choice(COMPARED), (term(rng, max(depth, 0)), term(rng, max(depth, 0))))


def points() -> list[dict[str, int]]:
    return [dict(zip("xyt", p, strict=True)) for p in product(range(0, 13, 3), range(-5, 10, 2), (0, 1, 15, 31))]


def test_bounds_hold_every_value() -> None:
    rng = Random(1)
    for _ in range(400):
        e = term(rng)
        low, high = bounds(e, BOX)
        for at in points():
            value = evaluate(e, at)
            assert (low is None or low <= value) and (high is None or value <= high), (str(e), at)


def test_lanes_are_the_values_of_each_thread() -> None:
    rng, lanes = Random(2), Lanes(32)
    for _ in range(300):
        e, known = term(rng), {"x": rng.randint(0, 12), "y": rng.randint(-5, 9)}
        found = lanes.of(e, known)
        for t in range(32):
            assert (found[t] if isinstance(found, tuple) else found) == evaluate(e, {**known, "t": t}), str(e)


def test_a_side_that_no_thread_takes_needs_no_value() -> None:
    """8 // t under t > 0: thread 0 is not asked."""
    e = Apply("select", (Apply(">", (Var("t"), Const(0))), Apply("//", (Const(8), Var("t"))), Const(0)))
    assert Lanes(4).of(e, {}) == (0, 8, 4, 2)
    with pytest.raises(NoValue):
        Lanes(4).of(e.args[1], {})


def test_what_is_proved_holds_and_what_is_refuted_does_not() -> None:
    rng, logic, seen = Random(3), Logic(), {"proved": 0, "refuted": 0, "unknown": 0}
    for n, (low, high) in BOX.items():
        logic.declare(n, "i32", low, high)
    for _ in range(160):
        goal, given = claim(rng), claim(rng)
        verdict = logic.prove(goal, (given,))
        seen[verdict.status] += 1
        if verdict.status == "proved":
            assert all(evaluate(goal, at) for at in points() if evaluate(given, at)), (str(goal), str(given))
        elif verdict.status == "refuted":
            at = {"x": 0, "y": 0, "t": 0, **verdict.model}
            assert not evaluate(goal, at) and evaluate(given, at)
    assert seen["proved"] > 10 and seen["refuted"] > 60


def test_products_of_names_are_shown_where_their_bounds_do_and_where_algebra_does() -> None:
    logic = Logic()
    a, b = logic.declare("a", "i32", 0, 100), logic.declare("b", "i32", 1, 100)
    assert logic.holds(Apply("<=", (a * b, Const(10_000))))
    assert logic.holds(Apply("<=", (a // b * b, a)))
    assert not logic.holds(Apply("<=", (a * b, Const(9_999))))
    verdict = logic.prove(Apply("<", (a * b, Const(10_000))))
    assert verdict.status != "proved" and (verdict.status == "unknown" or verdict.model == {"a": 100, "b": 100})


@pytest.mark.parametrize("shape", [(4, 32), (2, 8, 16), (64,)])
def test_addresses_are_those_of_the_layout(shape: tuple[int, ...]) -> None:
    strided = tuple(3 * n for n in range(len(shape), 0, -1))
    for layout in (None, Padded(pad=3), Swizzle(bits=2, base=1, shift=3), Strided(strides=strided)):
        b = Buffer(name="s", space="shared", dtype="i32", shape=shape, layout=layout)
        first = Buffer(name="p", space="shared", dtype="u8", shape=(5,))
        kernel = KernelDescriptor(name="k", target="sm_80", threads=32, grid=("1",), buffers=(first, b))
        assert elements_of(b) == extent(shape, layout) and shared_size(kernel) == kernel.shared_bytes
        for index in product(*(range(n) for n in shape)):
            mine = evaluate(byte_offset(kernel, b, tuple(map(Const, index))), {})
            theirs = evaluate(offset(shape, layout, index), {}) * nbytes("i32") + kernel.shared_offsets["s"]
            assert mine == theirs


def test_registers_that_fit_are_those_of_the_launch_check() -> None:
    for a in architectures().values():
        for threads, blocks in product((1, 32, 33, 96, 128, 250, 512, 1000, 1024, 1025), (1, 2, 3, 5, 8, 16, 32)):
            assert most_registers(a, threads, blocks) == max_registers(a, threads, blocks)


def kernels() -> list[KernelDescriptor]:
    h = module("harness/kernels")
    found = [samples.vector_add(), samples.transpose(), samples.block_sum(), h.gemm_staged(), h.raster_tiles()]
    return [*found, *(make() for make in module("synth/kernels").GOLDEN.values())]


def test_types_and_facts_are_the_same_in_both_programs() -> None:
    for kernel in kernels():
        mine, theirs = Types(kernel), variable_types(kernel)
        assert tuple(launch_facts(kernel)) == launcher(kernel)
        for e in {x for _, s in walk(kernel.body) for _, whole in expressions(s) for x in subterms(whole)}:
            try:
                expected: Any = infer(e, theirs, kernel)
            except TypeFault:
                expected = None
            try:
                assert mine.of(e) == expected, str(e)
            except Misfit:
                assert expected is None, str(e)


def test_the_two_programs_agree_on_format_and_digest() -> None:
    data = certify(samples.vector_add()).to_dict()
    assert data["certificate"] == record.FORMAT == envelope.FORMAT
    assert data["digest"] == record.digest(data) == envelope.digest_of(data)


def test_sums_are_taken_apart() -> None:
    x, y = Var("x"), Var("y")
    assert linear(Apply("-", (x * 3 + 5, y - x))) == {x: 4, y: -1, Const(1): 5}
    assert linear(x - x) == {} and linear(Apply("<<", (x, Const(2)))) == {x: 4} and linear(x * y) == {x * y: 1}


# --------------------------------------------------------------------------------------------------------------- memory
def ordered(a: int, b: int, between: list[tuple[str, int]]) -> bool:
    """The definition: a barrier between that both threads pass, a warp's own counting for its threads alone."""
    if a == b or ("block", 0) in between:
        return True
    return a // 32 == b // 32 and ("warp", a // 32) in between


def test_races_are_those_of_the_pairwise_definition() -> None:
    rng, faults = Random(4), 0
    for _ in range(300):
        memory, history, expected = Memory(), [], None
        memory.written = 0b1111
        for step in range(8):
            kind = rng.choice(("read", "read", "write", "update", "block", "warp"))
            if kind == "block":
                memory.block_barrier()
                history.append((kind, 0, 0))
            elif kind == "warp":
                w = rng.randint(0, 1)
                memory.warp_barrier(0xFFFFFFFF << 32 * w)
                history.append((kind, w, 0))
            else:
                t, cell = rng.choice((0, 1, 32, 33)), rng.randint(0, 3)
                for i, (other, u, c) in enumerate(history):
                    between = [(k, w) for k, w, _ in history[i + 1 :] if k in ("block", "warp")]
                    clash = {kind, other} != {"read"} and {kind, other} != {"update"}
                    if other not in ("block", "warp") and c == cell and clash and not ordered(u, t, between):
                        expected = step
                try:
                    memory.access(kind, Touch({cell: 1 << t}), f"/{step}")
                    assert expected is None, history
                except Wrong as fault:
                    assert expected == step and fault.rule in ("AMK301", "AMK306"), (history, str(fault))
                    faults += 1
                    break
                history.append((kind, t, cell))
    assert 60 < faults < 280


def test_a_copy_is_under_way_from_its_issue_to_its_wait() -> None:
    mine, other = Touch({0: 1}), Touch({0: 2})

    def copied(*commits: str) -> Memory:
        memory = Memory()
        memory.access("copy", mine, "/0")
        for c in commits:
            memory.commit() if c == "commit" else memory.wait(int(c))
        return memory

    for early in ((), ("commit",), ("0",), ("commit", "1"), ("commit", "commit", "2")):
        for mode, touch in (("read", mine), ("write", mine), ("read", other), ("copy", mine)):
            with pytest.raises(Wrong) as fault:
                copied(*early).access(mode, touch, "/1")
            assert fault.value.rule == "AMK303"
        with pytest.raises(Wrong):
            copied(*early).finish()
    for landed in (("commit", "0"), ("commit", "commit", "1")):
        copied(*landed).access("read", mine, "/1")
        copied(*landed).finish()
        with pytest.raises(Wrong) as fault:  # its own thread may read it, others after a barrier
            copied(*landed).access("read", other, "/1")
        assert fault.value.rule == "AMK301"
        memory = copied(*landed)
        memory.block_barrier()
        memory.access("read", other, "/1")


def test_what_is_written_in_a_branch_is_there_for_its_own_threads_alone() -> None:
    memory = Memory()
    memory.access("write", Touch({0: 1, 1: 2}), "/0", sure=False)
    memory.access("read", Touch({0: 1}), "/1")
    with pytest.raises(Wrong) as fault:
        memory.access("read", Touch({1: 4}), "/1")
    assert fault.value.rule in ("AMK206", "AMK301")
