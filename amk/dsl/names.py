"""Which identifiers a descriptor may use: they are printed into CUDA text as they stand."""

from __future__ import annotations

import re

from amk.dsl.expr import BUILTINS, FUNCTIONS

__all__ = ["RESERVED", "check_name"]

_SHAPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_CPP = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false final float for friend goto if import inline int long module
mutable namespace new noexcept not not_eq nullptr operator or or_eq override private protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch template
this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t
while xor xor_eq main NULL linux unix std i386
"""
_CUDA = """
threadIdx blockIdx blockDim gridDim warpSize dim3 uint1 uint2 uint3 uint4 int1 int2 int3 int4 float1 float2 float3
float4 double1 double2 uchar4 char4 short4 ushort4 longlong1 longlong2 ulonglong2 make_float2 make_float4 make_int2
make_int4 make_uint2 make_uint4 size_t ptrdiff_t clock clock64 printf malloc free memcpy memset assert abort exit trap
cudaError_t signbit isnan isinf isfinite isnormal abs labs llabs fabs fabsf fma fmaf fmax fmaxf fmin fminf sqrt sqrtf
rsqrt rsqrtf exp expf exp2 exp2f log logf log2 log2f pow powf sin sinf cos cosf tan tanf tanh tanhf floor floorf ceil
ceilf round roundf rint rintf trunc truncf div ldiv saturate
atomicAdd atomicMin atomicMax umin umax llmin llmax ullmin ullmax mulhi mul24 all any
ballot rand srand gamma lgamma tgamma erf erfc hypot ldexp frexp modf fmod
remainder nan scalbn ilogb logb cbrt rcbrt u16 u32 u64 smem sbase amk
"""
RESERVED = frozenset((*_CPP.split(), *_CUDA.split(), *BUILTINS, *FUNCTIONS, "true", "false"))


def check_name(name: str) -> str:
    """The name, if it may stand in a kernel; else ValueError that says why.

    A trailing `_`, a leading `__` and a leading `amk_` belong to the printer.
    """
    if not _SHAPE.match(name):
        raise ValueError("a name is a letter or '_', then at most 63 letters, digits or '_'")
    if name in RESERVED or name.startswith(("__", "amk_")) or name.endswith("_"):
        raise ValueError(f"the name {name!r} is reserved (C++ or CUDA word, built-in variable or printer's own)")
    if name[0] == "_" and len(name) > 1 and name[1].isupper():
        raise ValueError(f"the name {name!r} is reserved by C++ (underscore and capital letter)")
    return name
