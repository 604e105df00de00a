"""Kernels with asynchronous work: what is shown again, what is taken on trust and said to be, and what is refused."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from forging import forge, signed

from amk.dsl.builder import KernelBuilder
from amk.dsl.kernel import KernelDescriptor
from amk.harness.certify import certify
from amk.harness.families import FAMILIES
from amk.harness.rules.examples import example
from amk.ops.wgmma_gemm import WgmmaSchedule, wgmma_gemm
from amk.verify.outcome import Outcome
from amk.verify.verify import verify

ASYNC = ("wgmma_gemm", "bulk_ring", "named_teams", "peer_swap", "mma_gemm")
ORDER = {"AMK206", "AMK207", "AMK30", "AMK31", "AMK401"}  # what needs a walk, or the boxes of an output


def family(name: str) -> KernelDescriptor:
    """The first kernel of a family of the soundness campaign."""
    return FAMILIES[name](Random(name))[0]


def checked(data: dict[str, Any]) -> Outcome:
    return verify(json.dumps(data))


@pytest.mark.parametrize("name", ASYNC)
def test_a_certificate_is_verified_in_part_and_every_obligation_is_accounted_for(name: str) -> None:
    data = certify(family(name)).to_dict()
    out = checked(data)
    assert (out.verdict, out.exit_code, out.findings) == ("verified in part", 3, [])
    assert sum(s.claims for s in out.shown) + len(out.trusted) == len(data["obligations"])
    for t in out.trusted:
        o = data["obligations"][int(t.where.rpartition("/")[2])]
        assert (o["rule"], o["claim"]) == (t.rule, t.claim) and t.why
        assert t.rule in ORDER or t.rule[:5] in ORDER, t
    assert {"AMK201", "AMK202", "AMK204", "AMK404"} <= {s.rule for s in out.shown} | {"AMK201"}


def test_arithmetic_of_the_persistent_gemm_of_a_cluster_is_shown_again() -> None:
    """Roles, rings that are carried through two loops, boxes, multicast, peers: all but the order of accesses."""
    out = checked(certify(wgmma_gemm(WgmmaSchedule(warpgroups=1, columns=128, slots=3, group=2))).to_dict())
    shown = {s.rule: s.claims for s in out.shown}
    assert out.verdict == "verified in part" and not out.findings
    assert shown["AMK202"] >= 7 and shown["AMK208"] > 60 and shown["AMK209"] == 24 and shown["AMK108"] == 1
    assert {t.rule for t in out.trusted if t.rule < "AMK206"} == set()


def first_of(data: dict[str, Any], rule: str) -> int:
    """Where the first obligation of a rule stands."""
    return next(i for i, o in enumerate(data["obligations"]) if o["rule"] == rule)


@pytest.mark.parametrize("name", ["bulk_ring", "peer_swap"])
def test_what_is_taken_on_trust_can_be_neither_dropped_nor_changed(name: str) -> None:
    """The order of accesses is not walked, but which obligations it has is known."""
    data = certify(family(name)).to_dict()
    for rule in sorted({o["rule"] for o in data["obligations"]}):
        i = first_of(data, rule)
        o = data["obligations"][i]
        rest = [x for k, x in enumerate(data["obligations"]) if k != i]
        out = checked(signed({**data, "obligations": rest}))
        assert out.exit_code == 1 and out.findings[0].where == "/obligations" and o["rule"] in out.findings[0].what
        for more in ({"claim": o["claim"] + " "}, {"given": [*o.get("given", []), "t < 1"]}, {"at": "/body"}):
            changed = [*data["obligations"]]
            changed[i] = {**o, **more}
            assert checked(signed({**data, "obligations": changed})).exit_code == 1, more


def copied(start: str = "0", run: int = 64, offset: int = 0) -> KernelDescriptor:
    """One bulk copy of 64 floats out of shared memory, from an element of it to an element of y."""
    k = KernelBuilder("copied", target="sm_90a", threads=32)
    y, s = k.tensor("y", "f32", (64,), access="write", align=16), k.shared("s", "f32", (64,), align=16)
    k.store(s[k.t * 2], 0.0, 1.0)
    k.fence("async")
    k.sync()
    with k.when(k.t < 1):
        k.call("bulk.store", {"dst": y[0], "src": s[k.t + offset]}, bytes=run * 4)
        k.commit("bulk")
        k.wait(queue="bulk")
    return k.finish(grid=(1,))


def test_bounds_of_asynchronous_accesses_are_shown_or_refused() -> None:
    right = checked(certify(copied()).to_dict())
    shared = "every access to 's' is inside it"
    assert right.verdict == "verified in part" and shared not in {t.claim for t in right.trusted}
    beyond = checked(forge(copied(run=128)))
    assert beyond.exit_code == 1 and any("AMK201" in f.what for f in beyond.findings)
    behind = checked(forge(copied(offset=4)))  # what is read of shared memory goes on behind it
    assert behind.exit_code == 3 and shared in {t.claim for t in behind.trusted}
    assert checked(forge(copied(offset=1))).exit_code == 1  # 4 bytes off the 16 that it has to start at


def test_a_slot_that_an_mbarrier_does_not_have_is_not_taken_for_one() -> None:
    claim = "every use of 'full' is of one of its slots"
    body = [{"kind": "arrive", "barrier": "full[1]"}]
    for slots, right in ((2, True), (1, False)):
        barrier = {"kind": "barrier", "name": "full", "slots": slots, "count": 128}
        out = checked(forge(example(target="sm_90a", barriers=[barrier], body=body)))
        assert out.exit_code == 3 and (claim not in {t.claim for t in out.trusted}) is right


@pytest.mark.parametrize(("more", "said"), [
    ({"cluster": 2, "target": "sm_90a"}, "multiple of the cluster"), ({"cluster": 2}, "clusters of at most 1"),
    ({"maps": [{"kind": "tensormap", "name": "m", "tensor": "x", "box": [8]}]}, "no tma"),
    ({"maps": [{"kind": "tensormap", "name": "m", "tensor": "x", "box": [3]}], "target": "sm_90a"}, "no tensor map"),
    ({"body": [{"kind": "sync", "scope": "block", "id": 1}]}, "with the id 1"),
    ({"body": [{"kind": "sync", "scope": "named", "id": 1, "threads": 33}]}, "33 threads"),
    ({"body": [{"kind": "wait", "queue": "wgmma", "pending": 9}]}, "leaves 9 groups"),
    ({"body": [{"kind": "wait"}]}, "a wait is on"),
    ({"body": [{"kind": "team", "roles": [{"warps": [0, 2], "body": []}]}]}, "each once"),
    ({"body": [{"kind": "arrive", "barrier": "x[0]"}]}, "no mbarrier"),
])  # fmt: skip
def test_asynchronous_work_that_means_nothing_is_refused(more: dict[str, Any], said: str) -> None:
    out = checked(forge(example(**more)))
    assert out.exit_code == 1 and said in out.findings[0].what, out.findings


@pytest.mark.parametrize("more", [
    {"body": [{"kind": "for", "var": "j", "hi": "4", "until": "j == 2", "body": []}]},
    {"body": [{"kind": "load", "dst": "a[0]", "src": "x[0]", "order": "acquire"}]},
])  # fmt: skip
def test_of_a_kernel_with_something_unknown_all_is_taken_on_trust_but_the_limits(more: dict[str, Any]) -> None:
    data = forge(example(**more))
    out = checked(data)
    assert (out.verdict, out.findings) == ("verified in part", [])
    assert {s.rule for s in out.shown} <= {"AMK101", "AMK102", "AMK103", "AMK104", "AMK105"}
    assert out.trusted[-1].claim == "these obligations are all that there are"
    assert all("does not know the field" in t.why for t in out.trusted)
    assert sum(s.claims for s in out.shown) + len(out.trusted) == len(data["obligations"]) + 1
