"""A whole operator in one module, registered in one line: y = a * x goes through every stage with no other code."""

import json

import numpy as np
import pytest

import amk
from amk.agents.rules import RuleAgent
from amk.api import build, proposed
from amk.cli.execute import run_operator
from amk.cli.main import main
from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import cdiv
from amk.dsl.kernel import KernelDescriptor, load
from amk.dsl.target import Target
from amk.errors import ArgumentError, Refused
from amk.ops import REGISTRY
from amk.ops.family import OperatorFamily, Problem, Schedule, Tolerance
from amk.synth.render import render


class Scale(Problem):
    """y[i] = a * x[i]."""

    n: int


class ScaleSchedule(Schedule):
    """Threads of a block; each takes one element."""

    threads: int = 128


def scale(p: Scale, s: ScaleSchedule, target: Target) -> KernelDescriptor:
    """The kernel, for any n."""
    k = KernelBuilder("scale", target=target.architecture.name, threads=s.threads)
    n = k.size("n", min=0)
    a = k.scalar("a", "f32")
    x, y = k.tensor("x", "f32", (n,)), k.tensor("y", "f32", (n,), access="write")
    r = k.registers("r", "f32", (1,))
    i = k.let("i", k.bx * s.threads + k.t)
    with k.when(i < n):
        k.load(r[0], x[i])
        k.store(y[i], a * r[0])
    return k.finish(grid=(cdiv(n, s.threads),))


FAMILY = OperatorFamily(
    name="scale",
    summary="y = a * x in fp32",
    problem=Scale,
    schedule=ScaleSchedule,
    build=scale,
    reference=lambda t: {"y": float(t["a"]) * np.asarray(t["x"], np.float64)},
    flops=lambda p: p.n,
    bytes=lambda p: 8 * p.n,
    tolerance=Tolerance(relative=lambda p: 2.0**-23, source="one rounding"),
    samples=({"n": 1}, {"n": 777}),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(REGISTRY, "scale", FAMILY)


def test_the_command_knows_it(tmp_path, capsys):
    """new, check --certify, emit and run, with the options of its problem and schedule."""
    path = str(tmp_path / "scale.amk.json")
    assert main(["new", "scale", "--n", "1000", "--threads", "64", "-o", path]) == 0
    kernel = load(path)
    assert kernel.threads == 64 and kernel.origin.operator == "scale" and kernel.origin.problem == {"n": 1000}
    assert main(["check", path, "--certify"]) == 0
    assert main(["emit", path]) == 0 and "scale(" in capsys.readouterr().out
    assert main(["run", "scale", "--n", "1000", "--device", "cpu", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["operator"] == "scale" and facts["right"] and 0 < facts["tolerance"] < 1e-6
    np.save(tmp_path / "x.npy", np.arange(5, dtype=np.float32))
    given = ["--arg", f"x={tmp_path / 'x.npy'}", "--arg", "a=3.0", "--out", f"y={tmp_path / 'y.npy'}"]
    assert main(["run", path, *given, "--device", "cpu"]) == 0
    assert (np.load(tmp_path / "y.npy") == [0, 3, 6, 9, 12]).all()
    assert main(["new", "scale"]) == 2 and "--n: Field required" in capsys.readouterr().err
    assert main(["bench", "scale", "--n", "5"]) == 2 and "nothing to measure scale against" in capsys.readouterr().err


def test_the_agent_proposes_its_defaults(tmp_path):
    """Without rules of its own the schedule is the default one, and the reasons say so."""
    (only,) = RuleAgent().propose(Scale(n=10**6), Target.find("h200"))
    assert only.schedule == ScaleSchedule() and only.reasons == {"threads": "default"} and only.seconds > 0
    kernel = proposed(Scale(n=5), Target.find("h200"))
    assert kernel.origin.agent == "rules 1" and kernel.origin.reasons == {"threads": "default"}


def test_the_library_runs_it():
    """A descriptor becomes a callable, compared with the reference before."""
    certificate = amk.certify(build(Scale(n=0), ScaleSchedule(), "sm_80"))
    assert certificate.meaning == "checked"
    x, y = np.arange(300, dtype=np.float32), np.empty(300, np.float32)
    amk.compile(certificate, device="cpu")(x=x, y=y, a=0.5)
    assert (y == x / 2).all()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [("a * r[0]", "a + r[0]", "y differs"), ('"y[i]"', '"y[n - 1 - i]"', "y differs")],
)
def test_a_descriptor_that_means_something_else_is_refused(old, new, says, tmp_path):
    """Safe in every way, and not y = a * x: the check accepts it, and no certificate is made."""
    text = build(Scale(n=64), ScaleSchedule(), "sm_80").to_json()
    assert old in text
    kernel = KernelDescriptor.from_json(text.replace(old, new))
    with pytest.raises(Refused, match=says):
        amk.certify(kernel)
    (tmp_path / "k.amk.json").write_text(text.replace(old, new))
    assert main(["check", str(tmp_path / "k.amk.json")]) == 0
    assert main(["check", "--certify", str(tmp_path / "k.amk.json")]) == 1


def test_what_no_family_has_is_refused(monkeypatch):
    """A problem that is not registered, and a block that is too large."""
    monkeypatch.delitem(REGISTRY, "scale")
    with pytest.raises(ArgumentError, match="Scale is the problem of no registered operator"):
        build(Scale(n=1), ScaleSchedule(), "sm_80")
    monkeypatch.setitem(REGISTRY, "scale", FAMILY)
    with pytest.raises(Refused, match="2048 threads"):
        build(Scale(n=1), ScaleSchedule(threads=2048), "sm_80")


@pytest.mark.parametrize("family", [*REGISTRY.values(), FAMILY], ids=lambda f: f.name)
def test_every_family_goes_through_every_stage(family):
    """The step of CONTRIBUTING: what the agent puts first is proved, compared at the samples, printed, and runs."""
    fields = {n.lower(): v for n, v in family.samples[-1].items() if n.lower() in family.problem.model_fields}
    problem = family.problem.model_validate(fields)
    assert family.flops(problem) > 0 and family.bytes(problem) > 0 and family.tolerance.source
    for target in ("sm_80", "h200"):
        for p in RuleAgent().propose(problem, Target.find(target))[:2]:
            assert set(p.reasons) == set(family.schedule.model_fields)
            certificate = amk.certify(build(problem, p.schedule, target), target)
            assert certificate.meaning == "checked" and f"{certificate.kernel.name}(" in render(certificate).text
    facts = run_operator(family.name, problem, device="cpu")
    assert facts["right"] and facts["executor"] == "cpu"
