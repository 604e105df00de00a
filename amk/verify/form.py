"""The form of a descriptor: names, types, operands, instructions, access contracts. A certificate of a kernel that has
no meaning is refused before anything is proved about it."""

from __future__ import annotations

from collections.abc import Iterator, Set

from amk.dsl.expr import BUILTINS, Const, Elem, Expr, Var, has_elements, names, parts, subst, subterms
from amk.dsl.instructions import ROWS
from amk.dsl.kernel import KernelDescriptor, children, expressions, walk
from amk.dsl.layout import Strided, Swizzle
from amk.dsl.nodes import Barrier, Buffer, For, Let, Param, Statement, TensorMap
from amk.dsl.target import Target
from amk.dsl.types import nbytes
from amk.verify.dtypes import Misfit, Types, family
from amk.verify.outcome import Malformed, NotCovered
from amk.verify.rows import require_call, require_map, require_ordering

__all__ = ["accesses", "require_form"]

SPACES = {
    ("load", "dst"): {"register"}, ("load", "src"): {"global", "shared"},
    ("store", "dst"): {"global", "shared", "register"}, ("atomic", "dst"): {"global", "shared"},
    ("let", "view"): {"global", "shared", "register"},
}  # fmt: skip
MOST_TERMS = 5000
USES = {"read": {"read"}, "write": {"write"}, "readwrite": {"read", "write", "atomic"}, "add": {"atomic"}}


def accesses(s: Statement) -> Iterator[tuple[str, Elem, int]]:
    """The operands of a statement: role, address, elements (0: as an instruction's row says)."""
    if s.kind == "load":
        yield from (("dst", s.dst, s.width), ("src", s.src, s.width))
    elif s.kind == "store":
        yield "dst", s.dst, len(s.values)
    elif s.kind == "atomic":
        yield "dst", s.dst, 1
    elif s.kind == "call":
        yield from ((role, ref, 0) for role, ref in s.refs.items())
    elif s.kind == "let" and s.view is not None:
        yield "view", s.view, 0


def require_form(kernel: KernelDescriptor, target: Target) -> None:
    """Raises Malformed (or NotCovered) for the first fault of form."""
    if kernel.cluster > target.architecture.max_cluster:
        raise Malformed("/cluster", f"{target.name} has clusters of at most {target.architecture.max_cluster} blocks")
    _names(kernel)
    _sizes(kernel)
    types = Types(kernel)
    lets: dict[str, Expr] = dict(zip(("gx", "gy", "gz"), kernel.grid3, strict=True))
    for at, e in _declared(kernel):
        _typed(types, e, "index", at)
    for i, b in enumerate(kernel.buffers):
        _layout(b, f"/buffers/{i}")
    for i, m in enumerate(kernel.maps):
        require_map(kernel, m, target, f"/maps/{i}")
    for at, s in walk(kernel.body):
        if s.kind == "let" and s.value is not None:
            lets[s.name] = subst(s.value, lets)
        _operands(kernel, s, at)
        require_ordering(kernel, s, target, at)
        if s.kind == "call":
            require_call(kernel, s, target, at)
        _values(kernel, types, s, at)
        _contract(kernel, s, at)
        _shape(kernel, s, lets, at)


def _declared(kernel: KernelDescriptor) -> Iterator[tuple[str, Expr]]:
    yield from ((f"/grid/{i}", e) for i, e in enumerate(kernel.grid))
    for i, p in enumerate(kernel.params):
        yield from ((f"/params/{i}", e) for e in (*(p.shape or ()), *(p.strides or ())))
        if p.strides is not None and len(p.strides) != len(p.shape or ()):
            raise Malformed(f"/params/{i}/strides", f"{p.name} has {len(p.strides)} strides")


def _layout(b: Buffer, at: str) -> None:
    if isinstance(b.layout, Strided) and len(b.layout.strides) != len(b.shape):
        raise Malformed(f"{at}/layout", f"{b.name} has {len(b.layout.strides)} strides and {len(b.shape)} dimensions")
    if isinstance(b.layout, Swizzle) and b.layout.shift < b.layout.bits:
        raise Malformed(f"{at}/layout", f"the swizzle of {b.name} is no bijection: shift is below bits")


# --------------------------------------------------------------------------------------------------------------- names
def _names(kernel: KernelDescriptor) -> None:
    taken = set(BUILTINS)
    for i, p in enumerate(kernel.params):
        _take(taken, p.name, f"/params/{i}")
    for i, b in enumerate(kernel.buffers):
        _take(taken, b.name, f"/buffers/{i}")
    for i, m in enumerate(kernel.maps):
        _take(taken, m.name, f"/maps/{i}")
    for i, x in enumerate(kernel.barriers):
        _take(taken, x.name, f"/barriers/{i}")
    for at, s in walk(kernel.body):
        for n in _introduced(s):
            _take(taken, n, at)
    scalars = {p.name for p in kernel.scalars}
    for at, e in _declared(kernel):
        _in_scope(e, scalars, at)
    _scopes(kernel.body, "/body", scalars | set(BUILTINS) | kernel.declarations.keys())


def _take(taken: set[str], name: str, at: str) -> None:
    if name in taken:
        raise Malformed(at, f"the name {name!r} is introduced twice")
    taken.add(name)


def _introduced(s: Statement) -> tuple[str, ...]:
    return (s.name,) if s.kind == "let" else (s.var, *(c.name for c in s.carry)) if s.kind == "for" else ()


def _in_scope(e: Expr, scope: Set[str], at: str) -> None:
    for x in subterms(e):
        name = x.name if isinstance(x, Var) else x.buffer if isinstance(x, Elem) else None
        if name is not None and name not in scope:
            raise Malformed(at, f"{name!r} is not defined here")


def _scopes(body: tuple[Statement, ...], at: str, outer: Set[str]) -> set[str]:
    """A let is known to the end of its body, a carried value after its loop too. Returns what is known at the end."""
    scope = set(outer)
    for i, s in enumerate(body):
        here = f"{at}/{i}"
        for below, e in expressions(s):
            if not below.endswith("/next"):
                _in_scope(e, scope, here + below)
        if s.kind in ("if", "team"):
            for below, inner in children(s):
                _scopes(inner, here + below, scope)
        elif s.kind == "for":
            ends = _scopes(s.body, f"{here}/body", scope | set(_introduced(s)))
            for j, c in enumerate(s.carry):
                _in_scope(c.next, ends, f"{here}/carry/{j}/next")
            scope |= {c.name for c in s.carry}
        elif s.kind == "let":
            scope.add(s.name)
    return scope


def _sizes(kernel: KernelDescriptor) -> None:
    """No value grows beyond what can be walked, once the names in it are replaced by their values."""
    grown: dict[str, int] = {}
    for at, s in walk(kernel.body):
        size = max((_size(e, grown) for _, e in expressions(s)), default=0)
        if size > MOST_TERMS:
            raise NotCovered(at, f"a value of {size} terms with its named parts in place")
        if s.kind == "let" and s.value is not None:
            grown[s.name] = size


def _size(e: Expr, grown: dict[str, int]) -> int:
    return grown.get(e.name, 1) if isinstance(e, Var) else 1 + sum(_size(x, grown) for x in parts(e))


# --------------------------------------------------------------------------------------------------------------- types
def _typed(types: Types, e: Expr, wanted: str, at: str) -> None:
    try:
        found = types.of(e)
    except Misfit as fault:
        raise Malformed(at, str(fault)) from None
    fits = family(found) == "int" if wanted == "index" else found == wanted or found == _constant(wanted)
    if not fits:
        raise Malformed(at, f"{e} is {found}, and {wanted} is wanted")
    if said := types.misplaced(e, "i64" if wanted == "index" else wanted):
        raise Malformed(at, said)


def _constant(wanted: str) -> str:
    return {"int": "int", "float": "float"}.get(family(wanted), "")


def _values(kernel: KernelDescriptor, types: Types, s: Statement, at: str) -> None:
    for role, ref, _ in accesses(s):
        for i in ref.index:
            _typed(types, i, "index", f"{at}/{role}")
    if s.kind in ("arrive", "wait") and s.barrier is not None:
        for i in s.barrier.index:
            _typed(types, i, "index", f"{at}/barrier")
    if s.kind in ("load", "store", "arrive") and s.peer is not None:
        _typed(types, s.peer, "index", f"{at}/peer")
    if s.kind == "wait" and s.parity is not None:
        _typed(types, s.parity, "index", f"{at}/parity")
    for e, wanted in _wanted(kernel, s):
        _typed(types, e, wanted, at)


def _wanted(kernel: KernelDescriptor, s: Statement) -> Iterator[tuple[Expr, str]]:
    if s.kind == "let" and s.value is not None:
        yield s.value, s.dtype
    elif s.kind == "load":
        yield from ((e, "bool") for e in (s.when,) if e is not None)
        yield from ((e, _dtype(kernel, s.dst)) for e in (s.other,) if e is not None)
    elif s.kind == "store":
        yield from ((v, _dtype(kernel, s.dst)) for v in s.values)
    elif s.kind == "atomic":
        yield s.value, _dtype(kernel, s.dst)
    elif s.kind == "for":
        yield from ((e, "i32") for e in (s.lo, s.hi, s.step))
        yield from ((e, c.dtype) for c in s.carry for e in (c.init, c.next))
    elif s.kind == "if":
        yield s.cond, "bool"
    elif s.kind == "assume":
        yield s.fact, "bool"
    elif s.kind == "call":
        for a in ROWS[s.row].args:
            if a.name in s.args:
                first = next((_dtype(kernel, s.refs[o.role]) for o in ROWS[s.row].operands), "")
                yield s.args[a.name], first if a.dtype == "same" else a.dtype


def _dtype(kernel: KernelDescriptor, ref: Elem) -> str:
    d = kernel.find(ref.buffer)
    return d.dtype if isinstance(d, (Param, Buffer)) else ""


# ------------------------------------------------------------------------------------------------------------ operands
def _operands(kernel: KernelDescriptor, s: Statement, at: str) -> None:
    for below, e in expressions(s):
        for x in subterms(e):
            if isinstance(x, Elem):
                _rank(kernel, x, at + below)
    for role, ref, width in accesses(s):
        d = kernel.find(ref.buffer)
        if not isinstance(d, (Param, Buffer)):
            if s.kind != "call":
                raise Malformed(f"{at}/{role}", f"{ref} is no element of memory")
            continue
        space, wanted = kernel.space(ref), SPACES.get((s.kind, role))
        if wanted is not None and space not in wanted:
            raise Malformed(f"{at}/{role}", f"{ref} is in {space} memory")
        if space != "register" and width * nbytes(d.dtype) > 16:
            raise Malformed(f"{at}/{role}", f"{ref} moves {width * nbytes(d.dtype)} bytes; one access moves at most 16")
    if s.kind == "let":
        _let(kernel, s, at)
    elif s.kind == "store" and len(s.values) not in (1, 2, 4, 8, 16):
        raise Malformed(f"{at}/values", f"a store of {len(s.values)} values")
    elif s.kind == "load" and _dtype(kernel, s.dst) != _dtype(kernel, s.src):
        raise Malformed(at, f"{s.src} and {s.dst} have different types")
    elif s.kind == "load" and s.when is not None and s.other is None:
        raise Malformed(at, "a load with `when` has no `other`")


def _rank(kernel: KernelDescriptor, x: Elem, at: str) -> None:
    d = kernel.find(x.buffer)
    if d is None or (isinstance(d, Param) and d.shape is None):
        raise Malformed(at, f"{x.buffer} is no tensor and no buffer")
    rank = len(d.box) if isinstance(d, TensorMap) else 1 if isinstance(d, Barrier) else len(d.shape or ())
    view = x.buffer in kernel.views
    if len(x.index) > rank or (len(x.index) < rank and not view):
        raise Malformed(at, f"{x} has {len(x.index)} indices for {rank} dimensions")


def _let(kernel: KernelDescriptor, s: Let, at: str) -> None:
    if (s.view is None) == (s.value is None):
        raise Malformed(at, "a let has a value or a view, and one of them only")
    if s.view is None:
        return
    d = kernel.find(s.view.buffer)
    if not isinstance(d, (Param, Buffer)):
        raise Malformed(at, f"a view of {s.view.buffer}, which is no memory")
    if isinstance(d, Buffer) and isinstance(d.layout, Swizzle):
        raise Malformed(at, f"a view of {d.name}, whose layout is a swizzle")
    if any(map(has_elements, s.view.index)):
        raise NotCovered(at, "a view at an index that is kept in registers")


def _contract(kernel: KernelDescriptor, s: Statement, at: str) -> None:
    """What is done with a tensor is what its declaration says. Calls are held to it where their rows are."""
    for role, ref, _ in accesses(s) if s.kind != "call" else ():
        d = kernel.find(ref.buffer)
        if isinstance(d, Param) and role != "view":
            use = "atomic" if s.kind == "atomic" else "read" if role == "src" else "write"
            if use not in USES[d.access] or (d.access == "add" and s.kind == "atomic" and s.op != "add"):
                raise Malformed(f"{at}/{role}", f"{ref} is used by a {use}, and {d.name} is declared {d.access!r}")


def _shape(kernel: KernelDescriptor, s: Statement, lets: dict[str, Expr], at: str) -> None:
    """Loops step by a positive constant; an assumption speaks of sizes alone."""
    if isinstance(s, For):
        step = subst(s.step, lets)
        if isinstance(step, Const) and (type(step.value) is not int or step.value < 1):
            raise Malformed(f"{at}/step", f"the step {s.step} of a loop")
    elif s.kind == "assume" and (has_elements(s.fact) or names(s.fact) - {p.name for p in kernel.scalars}):
        raise NotCovered(f"{at}/fact", "an assumption about more than sizes")
