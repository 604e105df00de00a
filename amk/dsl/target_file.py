"""Target files: untrusted JSON comes in, a Target comes out; and the way back.

The file names its architecture; the limits of an architecture are not for a file to say.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from amk.dsl.files import read_bytes
from amk.dsl.source import escape, raise_at, read_object
from amk.dsl.target import Target, architectures
from amk.errors import EnvironmentProblem, InputError

__all__ = ["load", "loads", "save"]

MAX_FILE_BYTES = 65536
Count = Annotated[int, Field(strict=True, ge=1, le=(1 << 63) - 1)]
Text = Annotated[str, Field(strict=True, max_length=400, pattern=r"^[ -~]*$")]


class _File(BaseModel):
    """What a target file may say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    name: Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+()/-]{0,63}$")]
    architecture: str
    sms: Count | None = None
    l2_bytes: Count | None = None
    memory_bytes: Count | None = None
    bandwidth: Count | None = None
    clock_hz: Count | None = None
    driver: Annotated[str, Field(strict=True, pattern=r"^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$")] | None = None
    source: Text = ""

    @field_validator("architecture")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in architectures():
            raise ValueError(f"unknown architecture; known: {', '.join(architectures())}")
        return value

    @model_validator(mode="before")
    @classmethod
    def _strict_format(cls, data: object) -> object:
        # Literal[1] alone would take true and 1.0.
        if isinstance(data, dict) and type(data.get("format", 1)) is not int:
            raise ValueError("format must be the integer 1")
        return data


def load(path: str | os.PathLike[str]) -> Target:
    """Reads a target file."""
    try:
        data = read_bytes(path, MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        message = f"cannot read the target file {escape(os.fspath(path), 300)}: {what}"
        raise InputError(message, hint="amk targets --detect writes one") from None
    if len(data) > MAX_FILE_BYTES:
        raise InputError(
            f"the target file {escape(os.fspath(path), 300)} is larger than {MAX_FILE_BYTES} bytes",
            hint="amk targets --detect writes one",
        )
    return loads(data, name=os.fspath(path))


def loads(text: str | bytes, *, name: str = "<input>") -> Target:
    """The target in a text."""
    data = read_object(text, name=name)
    decoded = text.decode() if isinstance(text, bytes) else text
    try:
        facts = _File.model_validate(data).model_dump(exclude={"format"})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        keys = [str(part).replace("~", "~0").replace("/", "~1") for part in first["loc"]]
        pointer = "".join(f"/{key}" for key in keys)
        message = f"{escape(pointer) or 'the target'}: {escape(first['msg'], 300)}"
        raise_at(decoded, pointer, message, hint="compare with: amk targets h200 --json", name=name)
    return Target(**{**facts, "architecture": architectures()[facts["architecture"]]})


def save(target: Target, path: str | os.PathLike[str]) -> None:
    """Writes a target file; a reader never sees half of one."""
    from amk.dsl.files import replace_bytes

    place = os.fspath(path)
    try:
        replace_bytes(place, target.dumps().encode())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        message = f"cannot write {escape(place, 300)}: {why}"
        raise EnvironmentProblem(message, hint="choose a folder that exists and can be written") from None
