"""Machine code as lists of instructions, read by nvdisasm (the `sass` extra); a test without it is skipped."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([^;]*);")
_LABEL = re.compile(r"^(\.L_x_\d+):")


class Code:
    """The instructions of a binary, without their predicates, and where each label stands."""

    def __init__(self, cubin: bytes, folder: Path) -> None:
        (folder / "k.cubin").write_bytes(cubin)
        done = subprocess.run([_nvdisasm(), "-c", folder / "k.cubin"], capture_output=True, text=True, check=True)
        self.lines: list[str] = []
        self.labels: dict[str, int] = {}
        for line in done.stdout.splitlines():
            if label := _LABEL.match(line):
                self.labels[label[1]] = len(self.lines)
            elif (found := _INSTRUCTION.search(line)) and not found[1].startswith("NOP"):
                self.lines.append(found[1].strip())

    def count(self, *names: str) -> int:
        """Instructions whose name begins so."""
        return sum(line.startswith(names) for line in self.lines)

    def innermost(self, name: str) -> list[str]:
        """The shortest loop around an instruction of this name."""
        loops = []
        for i, line in enumerate(self.lines):
            target = re.search(r"BRA.*`\((\.L_x_\d+)\)", line)
            start = self.labels.get(target[1], i + 1) if target else i + 1
            body = self.lines[start : i + 1]
            if any(x.startswith(name) for x in body):
                loops.append(body)
        return min(loops, key=len)


def _nvdisasm() -> Path:
    for entry in sys.path:
        for tool in Path(entry).glob("nvidia/*/bin/nvdisasm*"):
            return tool
    pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
