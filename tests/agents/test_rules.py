"""The rule agent: fits every target, gives a reason for every field, ranks by objective, retargets by data alone."""

import pytest

from amk.agents.agent import OBJECTIVES, objective_of
from amk.agents.gemm_rules import cost, misfit
from amk.agents.rules import RuleAgent
from amk.api import build
from amk.dsl.target import Target
from amk.errors import ArgumentError, Refused
from amk.harness.check import check
from amk.ops.gemm import Gemm, GemmSchedule

SHAPES = [(1, 1, 1), (17, 1, 33), (256, 256, 256), (16, 4096, 4096), (1023, 1025, 1027), (4096, 4096, 4096), (3, 5, 0)]
H200 = Target.find("h200")


def first(m, n, k, target="h200", objective="throughput", **more):
    """The schedule that the agent puts first."""
    return RuleAgent().propose(Gemm(m=m, n=n, k=k), Target.find(target), objective, **more)[0].schedule


@pytest.mark.parametrize("target", Target.all(), ids=lambda t: t.name)
def test_every_proposal_fits_and_builds(target):
    """Whatever the shape, a proposal respects the limits of its target, makes a kernel and says why in every field."""
    for m, n, k in SHAPES:
        problem = Gemm(m=m, n=n, k=k)
        for p in RuleAgent().propose(problem, target):
            assert misfit(p.schedule, target) == "" and p.seconds > 0 and p.joules > 0
            assert set(p.reasons) == set(GemmSchedule.model_fields) and all(p.reasons.values())
            assert build(problem, p.schedule, target).target == target.architecture.name


@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        ((4096, 4096, 4096), {}), ((8192, 8192, 8192), {}), ((2048, 2048, 2048), {}),
        ((16, 4096, 4096), {"bm": 16, "bn": 32, "tm": 2, "tn": 2}),
    ],
)  # fmt: skip
def test_measured_choices_stay(shape, changes):
    """What benchmarks/results was measured with is still the first choice on an H200."""
    assert first(*shape).model_dump(exclude_defaults=True) == changes


def test_another_target_gives_another_schedule():
    """The same request on another GPU yields another kernel with no code change."""
    assert first(1024, 1024, 1024, "h200") != first(1024, 1024, 1024, "rtx-4060-ti")


def test_what_fits_one_target_is_refused_on_another_with_the_limit():
    """Six slots fit the shared memory of an H200 and not that of a consumer GPU."""
    s, problem = GemmSchedule(stages=6), Gemm(m=256, n=256, k=256)
    assert misfit(s, H200) == "" and build(problem, s, H200)
    assert "101,376" in misfit(s, Target.find("rtx-4060-ti"))
    with pytest.raises(Refused, match="does not fit rtx-4060-ti: .*101,?376"):
        build(problem, s, "rtx-4060-ti")
    with pytest.raises(Refused, match="registers"):
        build(problem, GemmSchedule(bm=256, bn=256, bk=16, tm=16, tn=16, stages=2), H200)


def test_proposals_are_deterministic():
    """The same question gets the same answer."""
    problem, target = Gemm(m=777, n=100, k=50), Target.find("h100")
    assert RuleAgent().propose(problem, target) == RuleAgent().propose(problem, target)


def test_objectives_are_a_closed_set():
    """An unknown one is refused by name, everywhere; the message says what each known one means."""
    assert [objective_of(name) for name in OBJECTIVES] == list(OBJECTIVES)
    for wrong in ("speed", "", "Latency"):
        with pytest.raises(ArgumentError, match="there is no objective") as refused:
            first(8, 8, 8, objective=wrong)
        assert all(name in refused.value.hint for name in OBJECTIVES)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_objective_ranks_by_its_own_cost(objective):
    """Seconds of a call, seconds with the start of the pipeline, joules: none of the list is better than the first."""
    problem, costs = Gemm(m=4096, n=4096, k=32), []
    for p in RuleAgent().propose(problem, H200, objective, deterministic=False):
        costs.append(cost(problem, p.schedule, H200).score(objective))
    assert costs == sorted(costs)


def test_objectives_choose_differently():
    """A short k shows the fill of the pipeline; a large C shows the bytes that larger tiles save."""
    chosen = {o: first(4096, 4096, 32, "rtx-4060-ti", o) for o in OBJECTIVES}
    assert chosen["latency"].bm < chosen["throughput"].bm
    assert first(2048, 2048, 2048).bm < first(2048, 2048, 2048, objective="energy").bm


def test_a_long_k_is_shared_out_when_any_order_will_do():
    """A small C leaves SMs idle. Sums in no fixed order come first only where the caller allows them, and say so."""
    problem = Gemm(m=128, n=128, k=65536)
    careful, free = (RuleAgent().propose(problem, H200, deterministic=d) for d in (True, False))
    assert free[0].schedule.split_k > 1 and "last bits can differ" in free[0].reasons["split_k"]
    assert free[0].seconds < careful[0].seconds / 4
    splits = [p.schedule.split_k > 1 for p in careful]
    assert splits == sorted(splits) and not splits[0] and splits[-1]  # all of them, behind all others
    assert "always in the same order" in careful[0].reasons["split_k"]
    for other in (problem.model_copy(update={"beta": "any"}), Gemm(m=128, n=128, k=4096, batch=4)):
        assert all(p.schedule.split_k == 1 for p in RuleAgent().propose(other, H200, deterministic=False))


def test_tiles_are_grouped_where_operands_exceed_l2():
    """Specialised kernels walk rows of tiles together where that saves traffic, and are accepted by the check."""
    target, problem = Target.find("rtx-4060-ti"), Gemm(m=16384, n=16384, k=16384)
    grouped = [p for p in RuleAgent().propose(problem, target) if p.schedule.group > 1]
    assert grouped and all(p.schedule.specialise and "L2" in p.reasons["group"] for p in grouped)
    plain = grouped[0].schedule.model_copy(update={"group": 1})
    assert cost(problem, grouped[0].schedule, target).dram < 0.9 * cost(problem, plain, target).dram
    assert check(build(problem, grouped[0].schedule, target), target).ok
    assert not any(p.schedule.group > 1 for p in RuleAgent().propose(Gemm(m=512, n=512, k=512), target))
