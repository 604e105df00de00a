"""The hand-written cases of others' bugs: no certificate of a right kernel is refused, no faulty kernel is verified."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from forging import forge

from amk.errors import Refused, Undecided
from amk.harness.certify import certify
from amk.verify.verify import verify

sys.path.append(str(Path(__file__).parents[1]))

from outside_cases.case import Case
from outside_cases.table import cases

ALL = cases()


@pytest.mark.parametrize("case", [c for c in ALL if not c.faulty], ids=lambda c: c.name)
def test_a_certificate_of_a_right_kernel_is_not_refused(case: Case) -> None:
    try:
        certificate = certify(case.make())
    except (Refused, Undecided):  # where the checker is known to be wrong; its own test says so
        pytest.skip("the checker gives it no certificate")
    out = verify(certificate.to_json())
    assert not out.findings, out.findings


@pytest.mark.parametrize("case", [c for c in ALL if c.faulty], ids=lambda c: c.name)
def test_a_faulty_kernel_is_never_verified_whatever_is_claimed(case: Case) -> None:
    out = verify(json.dumps(forge(case.make())))
    assert out.exit_code in (1, 3), out.shown
