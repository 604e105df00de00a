"""What a GEMM is asked to compute, and the choices of how: the typed problem and schedule of `gemm`.

In: values from Python, options or JSON (untrusted). Out: frozen models; `fault` says why choices make no kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from amk.ops.family import Problem, Schedule

__all__ = ["Gemm", "GemmSchedule"]

Size = Annotated[int, Field(ge=0, le=2**31 - 2**16)]


class Gemm(Problem):
    """Sizes and layouts of C[m, n] = alpha * op(A)[m, k] op(B)[k, n] + beta * C, all row-major as stored.

    Leading dimensions count elements (0: packed). `beta` "zero" never reads C.
    """

    m: Annotated[Size, Field(description="rows of C")]
    n: Annotated[Size, Field(description="columns of C")]
    k: Annotated[Size, Field(description="products summed for an element of C")]
    batch: Annotated[int, Field(ge=1, le=2**31 - 1, description="independent products")] = 1
    dtype: Annotated[Literal["f32"], Field(description="of all three matrices, and of the sums")] = "f32"
    trans_a: Annotated[bool, Field(description="A is stored k x m")] = False
    trans_b: Annotated[bool, Field(description="B is stored n x k")] = False
    lda: Annotated[Size, Field(description="elements from one stored row of A to the next; 0: packed")] = 0
    ldb: Annotated[Size, Field(description="the same of B")] = 0
    ldc: Annotated[Size, Field(description="the same of C")] = 0
    beta: Annotated[Literal["zero", "any"], Field(description="zero: C is written and never read")] = "zero"
    align: Annotated[int, Field(ge=4, le=16, description="bytes that every base address is a multiple of")] = 16

    @property
    def leading(self) -> tuple[int, int, int]:
        """Leading dimensions with the packed ones filled in."""
        a = self.lda or (self.m if self.trans_a else self.k)
        b = self.ldb or (self.k if self.trans_b else self.n)
        return max(a, 1), max(b, 1), max(self.ldc or self.n, 1)

    def vector(self, limit: int = 4) -> int:
        """Widest copy in elements that every operand's rows, pitches and base allow."""
        rows = (self.m if self.trans_a else self.k, self.k if self.trans_b else self.n)
        return gcd(limit, *rows, *self.leading[:2], self.align // 4)


class GemmSchedule(Schedule):
    """Typed choices; every one of them changes the kernel. Sizes count elements unless they say bytes.

    BM, BN, BK, TM and TN are read as bm to tn, which is how they are written.
    """

    bm: Annotated[Literal[16, 32, 64, 128, 256], Field(description="rows of C that a block computes")] = 128
    bn: Annotated[Literal[16, 32, 64, 128, 256], Field(description="columns of C that a block computes")] = 128
    bk: Annotated[Literal[8, 16, 32], Field(description="k of one step of the ring")] = 32
    tm: Annotated[Literal[2, 4, 8, 16], Field(description="rows of C that a thread accumulates")] = 16
    tn: Annotated[Literal[2, 4, 8, 16], Field(description="columns of C that a thread accumulates")] = 8
    vec_width: Annotated[Literal[1, 2, 4], Field(description="elements of one cp.async; divides rows and pitches")] = 4
    stages: Annotated[int, Field(ge=1, le=8, description="slots of the ring of tiles in shared memory")] = 3
    double_buffer: Annotated[bool, Field(description="exactly 2 slots, in place of stages")] = False
    swizzle: Annotated[bool, Field(description="XOR layout of tiles whose k runs contiguously; excludes pad")] = False
    pad: Annotated[Literal[0, 4, 8, 12], Field(description="unused elements after each row of such a tile")] = 0
    unroll: Annotated[Literal[1, 2, 4, "full"], Field(description="of the loop over a step's k, four at a time")] = 1
    serpentine: Annotated[
        bool, Field(description="every second row of a thread goes through its columns backwards")
    ] = True
    order: Annotated[
        Literal["interleaved", "rows"],
        Field(description="of a warp's 4 x 8 threads: neighbours alternate rows, or fill row after row"),
    ] = "interleaved"
    split_k: Annotated[
        int, Field(ge=1, le=64, description="blocks that share the k of a tile and add into C, in no fixed order")
    ] = 1
    group: Annotated[int, Field(ge=1, le=64, description="rows of tiles walked together, for L2; needs specialise")] = 1
    specialise: Annotated[bool, Field(description="sizes are constants of the kernel, not its arguments")] = False
    spill_bytes: Annotated[
        int, Field(ge=0, le=65536, description="bytes a thread may spill; 0: refused if it does")
    ] = 0

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, data: Any) -> Any:
        """Upper-case names become the fields; a double buffer that says nothing of stages has 2."""
        if not isinstance(data, Mapping):
            return data
        made = dict(data)
        for name in ("bm", "bn", "bk", "tm", "tn"):
            if name.upper() in made:
                if name in made:
                    raise ValueError(f"{name.upper()} and {name} are one field; give one of them")
                made[name] = made.pop(name.upper())
        if made.get("double_buffer") is True:
            made.setdefault("stages", 2)
        return made

    def with_choices(self, given: Mapping[str, Any]) -> Self:
        """As of every schedule; a choice takes away what it excludes, unless that is given too."""
        rest = self.model_dump()
        for one, other in (
            ("double_buffer", "stages"),
            ("stages", "double_buffer"),
            ("swizzle", "pad"),
            ("pad", "swizzle"),
        ):
            if given.get(one) and other not in given:
                del rest[other]
        return type(self).model_validate({**rest, **given})

    @property
    def slots(self) -> int:
        """Slots of the ring."""
        return 2 if self.double_buffer else self.stages

    @property
    def warps(self) -> tuple[int, int]:
        """Warps along m and n; a warp is 4 x 8 threads."""
        return self.bm // (4 * self.tm), self.bn // (8 * self.tn)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps[0] * self.warps[1]

    @property
    def shared_bytes(self) -> int:
        """The most bytes of shared memory that both rings take (pad lies in tiles whose k runs contiguously alone)."""
        return 4 * self.slots * (self.bm + self.bn) * (self.bk + self.pad)

    def fault(self) -> str:
        """Why the choices do not make a kernel, or ''."""
        if self.bm % (4 * self.tm) or self.bn % (8 * self.tn):
            return f"a warp covers {4 * self.tm} x {8 * self.tn} elements, which does not divide {self.bm} x {self.bn}"
        if self.double_buffer and self.stages != 2:
            return f"double_buffer is exactly 2 slots, and stages is {self.stages}; give one of them"
        if self.swizzle and self.pad:
            return "swizzle and pad are two cures for one thing; choose one"
        chunk = self.bk // self.vec_width
        if self.threads % chunk or (self.threads // chunk) > 1024:
            return f"{self.threads} threads do not tile rows of {chunk} copies"
        for rows in (self.bm, self.bn):
            if rows * self.bk % (self.vec_width * self.threads):
                return f"a {rows} x {self.bk} tile is no whole number of {self.vec_width}-wide copies a thread"
        return ""
