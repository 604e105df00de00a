"""Functions of values: one hardware operation each, usable inside expressions."""

from __future__ import annotations

from amk.dsl.instructions.row import Pure

__all__ = ["PURE"]

PURE: dict[str, Pure] = {
    p.name: p
    for p in (
        Pure("fma", "PTX ISA, Floating Point Instructions: fma.rn.f32", ("f32", "f32", "f32"), "f32", "__fmaf_rn",
             "amk.dsl.instructions.meanings:fma"),
        # Two floats rounded to nearest even in one register, the first in the lower half.
        Pure("bf16x2", "PTX ISA, Data Movement and Conversion Instructions: cvt.rn.bf16x2.f32", ("f32", "f32"), "u32",
             "amk_bf16x2", "amk.dsl.instructions.meanings:bf16x2"),
        Pure("f16x2", "PTX ISA, Data Movement and Conversion Instructions: cvt.rn.f16x2.f32", ("f32", "f32"), "u32",
             "amk_f16x2", "amk.dsl.instructions.meanings:f16x2"),
        # One of them, as it is stored; from another type by way of f32.
        Pure("bf16", "PTX ISA, Data Movement and Conversion Instructions: cvt.rn.bf16.f32", ("f32",), "bf16",
             "amk_to_bf16", "amk.dsl.instructions.meanings:bf16_bits"),
        Pure("f16", "PTX ISA, Data Movement and Conversion Instructions: cvt.rn.f16.f32", ("f32",), "f16",
             "amk_to_f16", "amk.dsl.instructions.meanings:f16"),
        Pure("exp2", "PTX ISA, Floating Point Instructions: ex2.approx.ftz.f32", ("f32",), "f32", "amk_exp2",
             "amk.dsl.instructions.meanings:exp2"),
    )
}  # fmt: skip
