"""Certificates written by somebody who means harm: whatever the JSON, an answer, and never a traceback."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from forging import forge, signed

from amk.cli.main import main
from amk.errors import DescriptorError
from amk.harness import samples
from amk.harness.certify import certify
from amk.verify.verify import verify

ONE = certify(samples.vector_add()).to_dict()
OTHER = certify(samples.block_sum(threads=64, each=2)).to_dict()
DEEP = "[" * 100_000 + "]" * 100_000


def test_the_kernels_of_two_certificates_cannot_be_swapped() -> None:
    for fields in (("kernel",), ("kernel", "hash"), ("kernel", "hash", "facts"), ("obligations",), ("target",)):
        mixed = {**ONE, **{n: OTHER[n] for n in fields}}
        if mixed != ONE:
            assert verify(json.dumps(mixed)).exit_code == 1
            assert verify(json.dumps(signed({**mixed, "cases": [], "walked": 0}))).exit_code == 1, fields


@pytest.mark.parametrize("field", sorted(ONE))
@pytest.mark.parametrize("value", [
    None, True, -1, 10**400, 1.5, "x" * 10_000, "\ud800", "\x00\x1b[2J", [], [[[[]]]], {}, {"a": {"b": [1]}},
], ids=lambda v: str(v)[:12].encode("unicode_escape").decode())  # fmt: skip
def test_a_field_of_another_type_or_of_any_size_is_refused(field: str, value: Any) -> None:
    if value == ONE[field]:
        return
    data = {**ONE, field: value}
    for d in (data, {**signed(data), **({"digest": value} if field == "digest" else {})}):
        try:
            out = verify(json.dumps(d))
        except DescriptorError as fault:  # numbers and characters that no text of ours has
            assert fault.hint and len(str(fault)) < 1000
            continue
        assert out.exit_code == 1 and all(f.where and f.what and f.do for f in out.findings)


@pytest.mark.parametrize("text", [
    DEEP, '{"certificate": ' + DEEP + "}", '{"kernel": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}",
    '{"certificate": NaN}', '{"certificate": 1e999}', '{"certificate": 1, "certificate": 1}',
    json.dumps(ONE)[:-1], json.dumps(ONE)[: len(json.dumps(ONE)) // 2], json.dumps(ONE) + "x",
    '{"certificate": ' + "9" * 10_000 + "}", b"\x00" * 1000, b"\xef\xbb\xbf{}", '"' + "a" * 1_000_000 + '"',
], ids=range(13))  # fmt: skip
def test_text_that_reads_badly_is_unusable_or_refused(text: str | bytes) -> None:
    try:
        assert verify(text).exit_code == 1
    except DescriptorError as fault:
        assert len(str(fault)) < 2000


def test_long_lists_are_refused_soon() -> None:
    o = ONE["obligations"][0]
    out = verify(json.dumps(signed({**ONE, "obligations": [*ONE["obligations"], *[o] * 50_000]})))
    assert out.exit_code == 1 and out.milliseconds < 20_000
    case = {"n": 1, "bx": 0, "by": 0, "bz": 0}
    many = [{**case, "n": n + 1} for n in range(5_000)]
    assert verify(json.dumps(signed({**ONE, "cases": many, "walked": 5_000}))).milliseconds < 20_000


def test_terms_that_nest_deeply_are_refused_or_taken_on_trust() -> None:
    for text in ("(" * 5000 + "n" + ")" * 5000, "1" + " + n" * 5000, "-" * 5000 + "n"):
        data = json.loads(json.dumps(ONE))
        data["kernel"]["grid"] = [text]
        out = verify(json.dumps(signed(data)))
        assert out.exit_code == 1 and len(out.findings[0].what) < 1000


def test_random_damage_gets_an_answer() -> None:
    """Bytes of a certificate changed, dropped and doubled."""
    rng, text = Random(7), json.dumps(forge(samples.block_sum(threads=64, each=2))).encode()
    for _ in range(150):
        raw = bytearray(text)
        for _ in range(rng.choice((1, 1, 3, 40))):
            i = rng.randrange(len(raw))
            raw[i : i + rng.choice((0, 1, 5))] = rng.randbytes(rng.choice((0, 1, 4)))
        try:
            assert verify(bytes(raw)).exit_code in (0, 1) if bytes(raw) != text else True
        except DescriptorError:
            continue


def test_the_command_answers_too(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"deep": DEEP, "wrong": json.dumps({**ONE, "kernel": 3}), "torn": json.dumps(ONE)[:200], "empty": "{}"}
    for name, text in files.items():
        (tmp_path / f"{name}.cert.json").write_text(text)
    assert main(["verify", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err and said.out.count("try:") >= 4
