"""`amk certify` writes a certificate, `amk verify` re-checks it: files, folders, the cache, exit codes, the text."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amk.cli.main import main
from amk.dsl.target import Target
from amk.harness import samples
from amk.verify.envelope import digest_of


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    file = tmp_path / "kernel.amk.json"
    file.write_text(samples.vector_add().to_json())
    return file


@pytest.fixture
def certificate(kernel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = tmp_path / "kernel.cert.json"
    assert main(["certify", str(kernel), "-o", str(file)]) == 0
    assert "vector_add, meaning: not checked" in capsys.readouterr().err
    return file


def changed(certificate: Path, name: str, **fields: Any) -> Path:
    """A copy with other fields and a digest that is right for them."""
    data = {**json.loads(certificate.read_text()), **fields}
    file = certificate.with_name(name)
    file.write_text(json.dumps({**data, "digest": digest_of(data)}))
    return file


def test_a_certificate_is_written_and_verified(certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(certificate)]) == 0
    out = capsys.readouterr().out
    assert f"{certificate}: verified, vector_add on sm_80" in out
    assert "AMK201" in out and "all sizes" in out and "meaning: not checked, says the certificate" in out


def test_it_goes_to_standard_output_and_through_standard_input(
    kernel: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["certify", str(kernel), "--target", "h200"]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["target"]["name"] == "h200"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert main(["verify", "-", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["exit_code"] == 0 and said["results"][0]["target"] == "h200"
    assert said["results"][0]["verdict"] == "verified" and said["results"][0]["file"] == "-"


def test_certify_says_as_json_what_it_wrote(kernel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.json"
    assert main(["certify", str(kernel), "-o", str(file), "--json"]) == 0
    said, data = json.loads(capsys.readouterr().out), json.loads(file.read_text())
    assert (said["digest"], said["hash"], said["obligations"]) == (
        data["digest"],
        data["hash"],
        len(data["obligations"]),
    )


def test_a_faulty_kernel_gets_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "bad.amk.json", tmp_path / "bad.cert.json"
    data = samples.vector_add().to_dict()
    data["body"][1:] = data["body"][1]["body"]
    file.write_text(json.dumps(data))
    assert main(["certify", str(file), "-o", str(out)]) == 1
    assert "AMK201" in capsys.readouterr().err and not out.exists()


def test_a_tampered_one_is_refused_with_what_where_and_what_to_do(
    certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = certificate.with_name("broken.cert.json")
    broken.write_text(certificate.read_text().replace('"by": "tiles"', '"by": "count"'))
    assert main(["verify", str(broken)]) == 1
    out = capsys.readouterr().out
    assert (
        "refused at /digest" in out
        and "was changed after it was made" in out
        and "try: certify the kernel again" in out
    )
    again = changed(certificate, "again.cert.json", obligations=json.loads(broken.read_text())["obligations"])
    assert main(["verify", str(again)]) == 1
    assert "by is 'count', and 'tiles' has to hold" in capsys.readouterr().out


def test_what_is_taken_on_trust_is_listed(certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "verify"))
    from forging import forge

    from amk.harness.rules.examples import example

    file = certificate.with_name("fence.cert.json")
    file.write_text(json.dumps(forge(example(body=[{"kind": "fence", "what": "async"}], target="sm_90a"))))
    assert main(["verify", str(file)]) == 3
    out = capsys.readouterr().out
    assert "verified in part, example on sm_90a" in out and "does not follow statements of kind 'fence'" in out
    assert "taken on trust" in out and "every register of 'a' is written before it is read" in out
    assert main(["verify", str(file), "--json"]) == 3
    said = json.loads(capsys.readouterr().out)["results"][0]
    assert said["verdict"] == "verified in part" and said["trusted"][0].keys() == {"rule", "where", "claim", "why"}


@pytest.mark.parametrize(("text", "said"), [("nothing", "line 1"), ("[1]", "not an object"), ("", "line 1")])
def test_what_is_no_json_object_is_unusable(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.cert.json"
    file.write_text(text)
    assert main(["verify", str(file)]) == 2
    out = capsys.readouterr().out
    assert "unusable" in out and said in out and "try: give a certificate" in out


def test_the_worst_of_several_stands(
    certificate: Path, kernel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(certificate), str(kernel), str(tmp_path / "none.json"), "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    assert [r["exit_code"] for r in said["results"]] == [0, 1, 2] and said["exit_code"] == 2
    assert "this is no certificate" in said["results"][1]["findings"][0]["what"]


def test_the_kernel_and_the_target_that_are_meant(
    certificate: Path, kernel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.amk.json"
    other.write_text(samples.vector_add(threads=64).to_json())
    assert main(["verify", str(certificate), "--kernel", str(kernel), "--target", "sm_80"]) == 0
    assert main(["verify", str(certificate), "--kernel", str(other)]) == 1
    assert main(["verify", str(certificate), "--target", "sm_90a"]) == 1
    assert main(["verify", str(certificate), "--target", "all"]) == 2
    assert main(["verify", str(certificate), "--kernel", str(tmp_path / "none")]) == 2
    assert "is wanted" in capsys.readouterr().out


def test_a_target_file_of_ones_own(kernel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from amk.dsl.record import replace

    mine, cert = tmp_path / "mine.json", str(tmp_path / "c.json")
    replace(Target.find("h200"), name="mine").save(mine)
    assert main(["certify", str(kernel), "--target", str(mine), "-o", cert]) == 0
    assert main(["verify", cert]) == 1
    assert "amk verify CERT --target mine.json" in capsys.readouterr().out
    assert main(["verify", cert, "--target", str(mine)]) == 0


def test_a_folder_is_searched_for_certificates(certificate: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = certificate.parent / "entry"
    entry.mkdir()
    (entry / "certificate.json").write_text(certificate.read_text())
    assert main(["verify", str(certificate.parent), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == 2
    empty = certificate.parent / "empty"
    empty.mkdir()
    assert main(["verify", str(empty)]) == 2


def test_certificates_in_the_cache_are_verified(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("AMK_CACHE_DIR", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "amk", "compile", str(kernel), "--json"]  # this process may have it in memory
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    digest = json.loads(made.stdout)[0]["certificate"]
    assert main(["verify", str(tmp_path / "cache"), "--kernel", str(kernel), "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert json.loads(Path(result["file"]).read_text())["digest"] == digest


def test_our_own_fault_hides_no_other_certificate(
    certificate: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import amk.verify.verify as module

    real = module.verify

    def broken(text: Any, *, name: str, **rest: Any) -> Any:
        if name.endswith("bad.cert.json"):
            raise KeyError("lost")
        return real(text, name=name, **rest)

    monkeypatch.setattr(module, "verify", broken)
    bad = changed(certificate, "bad.cert.json")
    assert main(["verify", str(bad), str(certificate), "--json"]) == 4
    said = capsys.readouterr()
    assert [r["exit_code"] for r in json.loads(said.out)["results"]] == [4, 0] and "KeyError" in said.err
