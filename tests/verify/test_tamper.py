"""Tampered certificates: every field of one, and everything inside it, changed, dropped, doubled or added.

Without a new digest each is refused for its digest. With one, as an attacker would write it, each is refused for what
it says; but for the one change that leaves it true: a listed case at other sizes of the domain, which is walked too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from forging import forge, signed

from amk.dsl.kernel import KernelDescriptor
from amk.harness import samples
from amk.harness.certify import certify
from amk.verify.outcome import Outcome
from amk.verify.verify import verify

KERNEL = samples.block_sum(threads=64, each=2)
CERTIFICATE = certify(KERNEL).to_dict()
SMALL = certify(samples.vector_add()).to_dict()
Path = tuple[str | int, ...]
Change = Callable[[dict[str, Any]], None]


def outcome(data: dict[str, Any]) -> Outcome:
    return verify(json.dumps(data))


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in a JSON value, itself included."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key))


def at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def other(value: Any) -> Any:
    """A value of the same type that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return {**value, "more": 1} if isinstance(value, dict) else [*value, 1]


def changes(data: dict[str, Any]) -> Iterator[tuple[str, Change]]:
    """Every single change, with what it is called."""
    for path in places(data):
        name = "/".join(map(str, path)) or "the whole"
        if not path:
            yield "more", lambda d: d.update(more=1)
            continue

        def change(d: dict[str, Any], path: Path = path) -> None:
            at(d, path[:-1])[path[-1]] = other(at(d, path))

        def drop(d: dict[str, Any], path: Path = path) -> None:
            del at(d, path[:-1])[path[-1]]

        def double(d: dict[str, Any], path: Path = path) -> None:
            at(d, path[:-1]).insert(path[-1], copy.deepcopy(at(d, path)))

        def null(d: dict[str, Any], path: Path = path) -> None:
            at(d, path[:-1])[path[-1]] = None

        yield f"change {name}", change
        yield f"drop {name}", drop
        yield f"null {name}", null
        if isinstance(path[-1], int):
            yield f"double {name}", double


def changed(data: dict[str, Any], change: Change) -> dict[str, Any]:
    out = copy.deepcopy(data)
    change(out)
    return out


def inside(data: dict[str, Any], part: str) -> Iterator[tuple[str, list[str], Change]]:
    """The changes of one field of a certificate and of all below it, with their paths."""
    for name, change in changes(data):
        path = name.split(" ")[-1].split("/")
        if path[0] == part:
            yield name, path, change


def test_the_certificate_itself_is_verified() -> None:
    assert outcome(CERTIFICATE).exit_code == 0 and signed(CERTIFICATE) == CERTIFICATE


def test_no_change_survives_its_digest() -> None:
    found = 0
    for name, change in changes(CERTIFICATE):
        out = outcome(changed(CERTIFICATE, change))
        assert out.exit_code == 1 and out.findings, name
        assert all(f.where and f.what and f.do for f in out.findings), name
        found += 1
    assert found > 900


@pytest.mark.parametrize("part", [n for n in CERTIFICATE if n not in ("cases", "obligations", "digest")])
def test_no_change_survives_under_a_new_digest(part: str) -> None:
    """Kernel, hash, target, facts, format, version, meaning: each is held against the rest, or derived again."""
    data = SMALL if part == "kernel" else CERTIFICATE
    for name, _, change in inside(data, part):
        out = outcome(signed(changed(data, change)))
        assert out.exit_code == 1 and out.findings[0].do, name
        assert out.findings[0].where.startswith(("/" + part, "/hash", "/kernel", "/operator", "/walked")), name


def one_each(data: dict[str, Any]) -> set[int]:
    """An obligation of each rule and way of showing it: all are compared alike."""
    first: dict[tuple[str, str], int] = {}
    for i, o in enumerate(data["obligations"]):
        first.setdefault((o["rule"], o["by"]), i)
    return set(first.values())


def test_no_obligation_can_be_changed_dropped_doubled_or_added() -> None:
    chosen = one_each(CERTIFICATE)
    assert len(chosen) >= 15
    for name, path, change in inside(CERTIFICATE, "obligations"):
        if not name.startswith("null") and (len(path) == 1 or int(path[1]) in chosen):
            out = outcome(signed(changed(CERTIFICATE, change)))
            assert out.exit_code == 1 and out.findings[0].where.startswith("/obligations"), name


def test_a_prover_cannot_be_another_one() -> None:
    for i in one_each(SMALL):
        for by in ("proof", "walk", "tiles", "count", "limits", "form", "z3"):
            if by != SMALL["obligations"][i]["by"]:
                data = changed(SMALL, lambda d, i=i, by=by: d["obligations"][i].update(by=by))
                out = outcome(signed(data))
                assert out.exit_code == 1 and "by is" in out.findings[0].what, (SMALL["obligations"][i], by)


# ---------------------------------------------------------------------------------------------------------------- cases
def test_a_case_outside_of_the_domain_or_of_another_shape_is_refused() -> None:
    case = CERTIFICATE["cases"][0]
    assert case == {"n": 1, "bx": 0, "by": 0, "bz": 0}
    wrong = [
        {**case, "n": -1}, {**case, "n": 2**31}, {**case, "bx": 1}, {**case, "by": 1}, {**case, "bx": -1}, {"n": 1},
        {**case, "m": 1}, {**case, "n": "1"}, {**case, "n": True}, {**case, "n": 1.0}, [], None, 3, "n",
    ]  # fmt: skip
    for bad in wrong:
        out = outcome(signed({**CERTIFICATE, "cases": [bad]}))
        assert out.exit_code == 1 and out.findings[0].where == "/cases/0", bad
    for cases in ([], [case, case], [case, {**case, "n": 2}]):
        out = outcome(signed({**CERTIFICATE, "cases": cases}))
        assert out.exit_code == 1 and out.findings[0].where == "/walked", cases
    out = outcome(signed({**CERTIFICATE, "walked": 2, "cases": [case, case]}))
    assert out.exit_code == 1 and "twice" in out.findings[0].what


def test_another_case_of_the_domain_is_walked_like_the_first() -> None:
    out = outcome(signed({**CERTIFICATE, "cases": [{"n": 1000, "bx": 7, "by": 0, "bz": 0}]}))
    assert out.exit_code == 0 and any("1 of the 1 cases" in n for n in out.notes)


# -------------------------------------------------------------------------------------------- larger, consistent lies
def rekernelled(data: dict[str, Any], change: Change) -> dict[str, Any]:
    """The certificate of a changed kernel, its hash and facts right, all obligations as they were."""
    from amk.verify.domain import launch_facts

    kernel = KernelDescriptor.model_validate(changed(data["kernel"], change))
    more = {"kernel": kernel.to_dict(places=False), "hash": kernel.hash, "facts": list(launch_facts(kernel))}
    return signed({**data, **more, "walked": 0, "cases": []})


def test_a_wider_domain_is_refused() -> None:
    """The grid of a larger n is still legal, but sums of indices no longer fit."""
    data = forge(samples.transpose())
    assert outcome(data).exit_code == 0
    out = outcome(rekernelled(data, lambda k: k["params"][0].update(max=2**31 - 1)))
    assert out.exit_code == 1 and {"AMK102", "AMK204"} & {f.what.split()[0] for f in out.findings}


def test_a_dropped_guard_is_refused_though_the_claims_are_all_there() -> None:
    def drop(k: dict[str, Any]) -> None:
        i = next(i for i, s in enumerate(k["body"]) if s["kind"] == "if")
        k["body"][i : i + 1] = k["body"][i]["body"]

    data = forge(samples.vector_add())
    out = outcome(rekernelled(data, drop))
    assert out.exit_code == 1
    kernel = KernelDescriptor.model_validate(changed(data["kernel"], drop))
    forged = outcome(forge(kernel))  # and with claims that fit the kernel, the claims are false
    assert forged.exit_code == 1 and forged.findings[0].example["n"] >= 0


def test_an_assumption_that_nothing_satisfies_proves_nothing() -> None:
    assume = {"kind": "assume", "fact": "n < 0"}
    data = forge(samples.vector_add())
    kernel = KernelDescriptor.model_validate({**data["kernel"], "body": [assume, *data["kernel"]["body"]]})
    out = outcome(forge(kernel))
    assert out.exit_code == 1 and "AMK009" in out.findings[0].what


def test_meaning_is_passed_on_and_not_vouched_for() -> None:
    """No operator is known here, so a certificate that says 'checked' is believed by nobody because of this program."""
    out = outcome(signed({**CERTIFICATE, "meaning": "checked", "operator": "gemm"}))
    assert out.exit_code == 0
    assert any("checked against gemm, says the certificate" in n and "does not re-check" in n for n in out.notes)
    for wrong in ({"meaning": "checked"}, {"operator": "gemm"}, {"meaning": "Checked"}):
        assert outcome(signed({**CERTIFICATE, **wrong})).exit_code == 1


def test_a_certificate_of_another_version_or_format_says_what_to_do() -> None:
    for field, value in (("certificate", 0), ("certificate", 2), ("amk", "0.0.9"), ("amk", "99.0")):
        out = outcome(signed({**CERTIFICATE, field: value}))
        assert out.exit_code == 1 and out.findings[0].where == f"/{field}" and "certify" in out.findings[0].do
