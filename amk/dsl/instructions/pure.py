"""Functions of values: one hardware operation each, usable inside expressions."""

from __future__ import annotations

from amk.dsl.instructions.row import Pure

__all__ = ["PURE"]

PURE: dict[str, Pure] = {
    p.name: p
    for p in (
        Pure("fma", "PTX ISA, Floating Point Instructions: fma.rn.f32", ("f32", "f32", "f32"), "f32", "__fmaf_rn",
             "amk.dsl.instructions.meanings:fma"),
    )
}  # fmt: skip
