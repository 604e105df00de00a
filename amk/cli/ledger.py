"""The ledger of a campaign: one JSON object a line, appended as each mutant is judged, so that a run can go on.

The first line says which code judged. A ledger is untrusted: what does not read is refused with its line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from amk.errors import EnvironmentProblem, InputError
from amk.harness.judge import OUTCOMES
from amk.harness.soundness import Record

__all__ = ["Ledger"]

MAX_BYTES = 1 << 30
_TEXTS = ("family", "mutation", "hash", "outcome")


class Ledger:
    """The records of a file, and where new ones go. `code` is a digest of what judges."""

    def __init__(self, path: str, code: str, families: Collection[str]) -> None:
        self.path, self.families = Path(path), families
        self.records: dict[int, Record] = {}
        head = json.dumps({"format": 1, "kind": "soundness", "code": code})
        try:
            whole = self._read(head)
            self.file = self.path.open("a", encoding="utf-8")
            if not whole:
                self.file.write(head + "\n")
                self.file.flush()
        except OSError as e:
            hint = "name a file that can be written"
            raise EnvironmentProblem(f"cannot use {path}: {e.strerror or e}", hint=hint) from None

    def _read(self, head: str) -> bool:
        """Whether there was a ledger. A last line without an end was cut off by an interruption: it is taken away."""
        if not self.path.exists():
            return False
        if self.path.stat().st_size > MAX_BYTES:
            raise InputError(f"{self.path} is larger than {MAX_BYTES >> 20} MiB", hint="start another ledger")
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            os.truncate(self.path, end)
        lines = data[:end].decode("utf-8", "replace").splitlines()
        if lines and lines[0] != head:
            self._unusable(1, "it is of another version of the checker, or no ledger")
        for number, line in enumerate(lines[1:], 2):
            record = self._record(line, number)
            self.records[record["seed"]] = record
        return bool(lines)

    def _record(self, line: str, number: int) -> Record:
        try:
            found: Any = json.loads(line)
        except (ValueError, RecursionError):
            self._unusable(number, "it is no JSON")
        if not isinstance(found, dict) or not all(isinstance(found.get(n), str) for n in _TEXTS):
            self._unusable(number, f"a record is an object with the texts {', '.join(_TEXTS)}")
        seconds = found.get("seconds")
        if type(found.get("seed")) is not int or not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
            self._unusable(number, "a record has the numbers seed and seconds")
        if found["outcome"] not in OUTCOMES or found["family"] not in self.families:
            self._unusable(number, "its outcome or its family is not known")
        if any(not isinstance(found.get(n, ""), str) for n in ("rule", "message", "fault")):
            self._unusable(number, "rule, message and fault are texts")
        return dict(found)

    def _unusable(self, number: int, why: str) -> NoReturn:
        raise InputError(f"{self.path}, line {number}: {why}", hint="start another ledger")

    def keep(self, record: Record) -> None:
        """Appends a record, at once."""
        self.records[record["seed"]] = record
        self.file.write(json.dumps(record, sort_keys=True) + "\n")
        self.file.flush()
