"""The classes of sizes and blocks, held against all of them one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr, apply, both, cdiv, eq, maximum, minimum, ne, negate, select
from amk.dsl.kernel import KernelDescriptor
from amk.harness.cutoff import _aspects, _whole, samples
from amk.harness.events import Program, Unsupported
from amk.harness.ring import rings
from amk.harness.turns import Reader

COUNT = int(os.environ.get("AMK_TEST_CLASSES", "120"))


def _term(rng: Random, k: KernelBuilder, sizes: list[Expr], depth: int = 2) -> Expr:
    """A term of sizes and blocks, with constants of every kind that is read."""
    x = rng.choice([*sizes, k.bx])
    if not depth:
        return rng.choice((x, x * rng.choice((1, 2, 3, 8)), x + rng.randrange(20)))
    a, c = _term(rng, k, sizes, depth - 1), rng.choice((2, 3, 4, 5, 8))
    return rng.choice(
        (
            x, a + rng.randrange(30), a - rng.randrange(9), a // c, a % c, cdiv(a, c), apply("&", a, c - 1), a * 2,
            minimum(a, 8 * c), maximum(a, c), select(a > 4 * c, a - c, c), a - a // c * c, a >> 1, a << 1,
            apply("&", a, c), select(eq(a % c, 1), a, 7),
        )
    )  # fmt: skip


def _cond(rng: Random, k: KernelBuilder, sizes: list[Expr]) -> Expr:
    n = rng.choice(sizes)
    tile = rng.choice((4, 8, 8, 8))
    guard = rng.choice((k.bx * tile + k.t % tile, k.bx * tile + k.t // 4, k.bx * 8 + k.t % 8 + rng.randrange(9)))
    a, c = _term(rng, k, sizes), rng.choice((0, 1, 3, 10, 47, 60))
    simple = (
        guard < n, guard >= n, a < c, a >= c, eq(a, c), ne(a, c), a < k.t, n < rng.choice(sizes) + c,
        a % 3 < k.t % 2, k.bx + 1 < k.gx, eq(k.bx, k.gx - 2), (n + k.t) // 3 % 2 > 0, (n - k.t % 4) // 8 > 5,
        k.bx * 3 < n, a + k.t < 2 * c, eq(k.t, n % 16), minimum(n, c) > k.bx,
    )  # fmt: skip
    one = rng.choice(simple)
    return rng.choice((one, one, both(one, rng.choice(simple)), negate(one), one | rng.choice(simple)))


def _random(seed: int) -> tuple[KernelDescriptor, list[str]]:
    rng = Random(seed)
    k = KernelBuilder("classes", target="sm_80", threads=rng.choice((16, 32)))
    names = ["n", "m"][: rng.choice((1, 1, 2))]
    sizes = [k.size(x, min=rng.choice((0, 1, 5)), max=rng.choice((70, 90)), multiple_of=rng.choice((1, 1, 4, 3)))
             for x in names]  # fmt: skip
    s, a = k.shared("s", "i32", (256,)), k.registers("a", "i32", (1,))
    for _ in range(rng.choice((1, 1, 2))):
        with k.when(_cond(rng, k, sizes)):
            if rng.random() < 0.4:
                k.sync()
            else:
                k.store(s[k.t], 0)
    if rng.random() < 0.3:
        k.load(a[0], s[_term(rng, k, sizes) % 5 * 16 + k.t % 8])
    grid = rng.choice((cdiv(sizes[0], 8), cdiv(sizes[0], 8), sizes[0] // 4 + 1, 3, sizes[0] + 1))
    return k.finish(grid=(grid,)), names


def _all(p: Program, names: list[str]) -> Iterator[dict[str, Any]]:
    params = {q.name: q for q in p.kernel.scalars}
    ranges = [[v for v in range(params[n].min, params[n].max + 1) if v % params[n].multiple_of == 0] for n in names]
    for at in product(*ranges):
        env = _whole(p, dict(zip(names, at, strict=True)))
        for bx in range(env["gx"]):
            yield {**env, "bx": bx}


@pytest.mark.parametrize("seed", range(COUNT))
def test_every_choice_of_sizes_and_block_behaves_like_a_sample(seed: int) -> None:
    """The lemma itself: whatever the sizes and the block, one that is walked agrees in every aspect."""
    kernel, names = _random(seed)
    p = Program(kernel)
    try:
        found = rings(p)
        aspects = list(_aspects(p, Reader(p, found)))
        kept = {tuple(a.at(env) for a in aspects) for env in samples(p, found)}
    except Unsupported as e:
        assert e.message
        pytest.skip(e.message)
    for env in _all(p, names):
        assert tuple(a.at(env) for a in aspects) in kept, {x: env[x] for x in (*names, "bx", "gx")}
