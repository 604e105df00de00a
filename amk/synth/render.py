"""A certified kernel goes in, its CUDA text comes out: header-free, and byte for byte the same in every process.

Only `render` is public, and it takes a certificate: text that no proof stands behind is never compiled by accident.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from amk.dsl.expr import BUILTINS, names
from amk.dsl.kernel import TURN, KernelDescriptor, expressions, walk
from amk.dsl.nodes import Param
from amk.dsl.types import DTYPES
from amk.errors import InternalError
from amk.synth.print_checked import CheckedPrinter
from amk.synth.print_order import addresses_shared
from amk.synth.print_rows import wgmma_functions
from amk.synth.print_stmt import Macros, StatementPrinter

if TYPE_CHECKING:
    from amk.harness.certify import Certificate

__all__ = ["Source", "render", "text_of"]

_HERE = Path(__file__).parent
_BUILTIN = (
    {"t": "threadIdx.x"}
    | {f"{p}{a}": f"{word}.{a}" for p, word in (("b", "blockIdx"), ("g", "gridDim")) for a in "xyz"}
    | {"rank": "amk_rank()"}
)
_OURS = re.compile(r"\bamk_\w+")


@dataclass(frozen=True, slots=True)
class Source:
    """CUDA text and what its launch needs. `shared_bytes` is dynamic; `kernel_hash` is the descriptor's."""

    text: str
    name: str
    kernel_hash: str
    threads: int
    shared_bytes: int
    cluster: int
    min_blocks: int


def render(certificate: Certificate, *, checked: bool = False) -> Source:
    """The CUDA text of a kernel that the harness has accepted; `checked` puts each access behind a test.

    Raises:  InternalError for anything but a certificate, and for what the harness should have refused
    """
    from amk.harness.certify import Certificate

    if not isinstance(certificate, Certificate):
        raise InternalError("only a certified kernel is printed", hint="pass what amk.harness.certify gave back")
    k = certificate.kernel
    return Source(text_of(k, checked=checked), k.name, k.hash, k.threads, k.shared_bytes, k.cluster, k.min_blocks)


def text_of(kernel: KernelDescriptor, *, checked: bool = False) -> str:
    """The CUDA text of any kernel, proved or not (for tests and golden files; the product calls `render`)."""
    env, macros = _templates()
    printer, hidden, opening = StatementPrinter(kernel, macros), list[str](), list[str]()
    if checked:
        printer = tested = CheckedPrinter(kernel, macros, env.get_template("checked.cu.j2").module)
        hidden, opening = tested.signature(), tested.opening()
    body = printer.body(kernel.body)
    frame = env.get_template("kernel.cu.j2")
    return frame.render(
        k=kernel, prelude=_prelude(env, kernel, "".join([*hidden, body])), signature=_signature(kernel) + hidden,
        cluster=f" __cluster_dims__({kernel.cluster}, 1, 1)" if kernel.cluster > 1 else "",
        declarations=_declarations(kernel) + opening, body=body,
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- pieces
@lru_cache(maxsize=1)
def _templates() -> tuple[Environment, Macros]:
    env = Environment(
        loader=FileSystemLoader(_HERE / "templates"), undefined=StrictUndefined, autoescape=False, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    rows: dict[str, Any] = {}
    for path in sorted((_HERE / "templates" / "instr").glob("*.cu.j2")):
        rows |= macros_of(env, f"instr/{path.name}")
    return env, Macros(env.get_template("stmt.cu.j2").module, rows)


def macros_of(env: Environment, template: str) -> dict[str, Any]:
    """The macros of a template by name."""
    return {n: m for n, m in vars(env.get_template(template).module).items() if n[0] != "_"}


def _prelude(env: Environment, kernel: KernelDescriptor, body: str) -> list[str]:
    """The prelude files that define what the body uses, and one function for each wgmma."""
    used = set(_OURS.findall(body))
    used |= {"amk_shared"} if addresses_shared(kernel) else set()
    used |= {"amk_rank"} if "rank" in _variables(kernel) else set()
    used |= {"amk_map"} if kernel.maps else set()
    used |= {"amk_turn"} if kernel.dispatch == "in_order" else set()
    functions = [env.get_template("wgmma.cuh.j2").render(f=f).strip() for f in wgmma_functions(kernel)]
    return [text for defined, text in _prelude_files() if used & defined] + functions


@lru_cache(maxsize=1)
def _prelude_files() -> list[tuple[frozenset[str], str]]:
    found = []
    for path in sorted((_HERE / "prelude").glob("*.cuh")):
        text = path.read_text("utf-8").strip()
        found.append((frozenset(_OURS.findall(text)), text))
    return found


def _signature(kernel: KernelDescriptor) -> list[str]:
    """Arguments, and after them the tensor maps."""
    maps = [f"const __grid_constant__ amk_map {m.name}" for m in kernel.maps]
    turn = [f"unsigned* {TURN}"] if kernel.dispatch == "in_order" else []
    return [_parameter(p) for p in kernel.params] + maps + turn


def _parameter(p: Param) -> str:
    ctype = DTYPES[p.dtype].c
    if p.shape is None:
        return f"const {ctype} {p.name}"
    if p.access == "workspace":  # other blocks write it meanwhile
        return f"{ctype}* {p.name}"
    return f"{'const ' if p.access == 'read' else ''}{ctype}* __restrict__ {p.name}"


def _declarations(kernel: KernelDescriptor) -> list[str]:
    """The lines before the body: built-in values that it uses, shared arrays at their offsets, register arrays."""
    ordered = kernel.dispatch == "in_order"  # the number of the block comes through shared memory
    lines = [] if ordered else _builtins(kernel)
    if kernel.shared_bytes:
        lines.append("extern __shared__ __align__(1024) unsigned char smem[];")
        if addresses_shared(kernel):
            lines.append("const unsigned shared_ = amk_shared(smem);")
        if wgmma_functions(kernel):  # where a tile starts has 14 bits; the rank in the cluster stands above them
            lines.append("const unsigned tiles_ = (shared_ & 0x3FFFF) >> 4;")
        lines += _builtins(kernel) if ordered else []
    for b in kernel.buffers:
        ctype = DTYPES[b.dtype].c
        if b.space == "shared":
            lines.append(f"{ctype}* const {b.name} = ({ctype}*)(smem + {kernel.shared_offsets[b.name]});")
        else:
            lines.append(f"{ctype} {b.name}{''.join(f'[{n}]' for n in b.shape)};")
    return lines


def _builtins(kernel: KernelDescriptor) -> list[str]:
    used, spelt = _variables(kernel), _BUILTIN
    if kernel.dispatch == "in_order":
        spelt = {**_BUILTIN, "bx": f"amk_turn({TURN}, (unsigned*)(smem + {kernel.shared_offsets[TURN]}))"}
    found = [f"{n} = {spelt[n]}" for n in BUILTINS if n in used]
    return [f"const int {', '.join(found)};"] if found else []


def _variables(kernel: KernelDescriptor) -> frozenset[str]:
    """Every variable in the body or in the strides of a tensor (assumptions are not printed as code)."""
    steps = [e for p in kernel.tensors for e in kernel.strides_of(p)]
    terms = [e for _, s in walk(kernel.body) if s.kind != "assume" for _, e in expressions(s)]
    return frozenset().union(*map(names, (*steps, *terms)))
