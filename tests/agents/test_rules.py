"""The rule agent: fits every target, gives reasons, and retargets by data alone."""

import pytest

from amk.agents.rules import RuleAgent, misfit
from amk.dsl.target import Target
from amk.ops.gemm import Gemm, GemmSchedule, build

SHAPES = [(1, 1, 1), (17, 1, 33), (256, 256, 256), (16, 4096, 4096), (1023, 1025, 1027), (4096, 4096, 4096), (3, 5, 0)]


@pytest.mark.parametrize("target", Target.all(), ids=lambda t: t.name)
def test_every_proposal_fits_and_builds(target):
    """Whatever the shape, a proposal respects the limits of its target and makes a kernel."""
    for m, n, k in SHAPES:
        problem = Gemm(m=m, n=n, k=k)
        for p in RuleAgent().propose(problem, target):
            assert misfit(p.schedule, target) == "" and p.seconds > 0
            assert set(p.reasons) >= {"bm", "tm", "bk", "stages", "vec_width"}
            assert build(problem, p.schedule, target).target == target.architecture.name


def test_another_target_gives_another_schedule():
    """The same request on another GPU yields another kernel with no code change."""
    problem = Gemm(m=1024, n=1024, k=1024)
    chosen = {t: RuleAgent().propose(problem, Target.find(t))[0].schedule for t in ("h200", "rtx-4060-ti")}
    assert chosen["h200"] != chosen["rtx-4060-ti"]


def test_what_fits_one_target_is_refused_on_another_with_the_limit():
    """Six slots fit the shared memory of an H200 and not that of a consumer GPU."""
    s = GemmSchedule(stages=6)
    assert misfit(s, Target.find("h200")) == ""
    assert "101,376" in misfit(s, Target.find("rtx-4060-ti"))


def test_proposals_are_deterministic():
    """The same question gets the same answer."""
    problem, target = Gemm(m=777, n=100, k=50), Target.find("h100")
    assert RuleAgent().propose(problem, target) == RuleAgent().propose(problem, target)
