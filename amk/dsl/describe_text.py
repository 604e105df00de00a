"""Declarations and ordering points of a kernel in words, one line each."""

from __future__ import annotations

from amk.dsl.nodes import Arrive, Barrier, Buffer, Param, Statement, Sync, TensorMap, Wait

__all__ = ["barrier_text", "buffer_text", "map_text", "order_text", "param_text"]


def param_text(p: Param) -> str:
    """A scalar with its range, or a tensor with its shape."""
    if p.shape is None:
        by = f", a multiple of {p.multiple_of}" if p.multiple_of > 1 else ""
        return f"{p.name}: {p.dtype}" + (f" in [{p.min}, {p.max}]{by}" if p.dtype[0] in "iu" else "")
    strides = f", strides ({', '.join(map(str, p.strides))})" if p.strides else ""
    return f"{p.name}: {p.dtype}[{', '.join(map(str, p.shape))}], {p.access}, aligned to {p.align}{strides}"


def buffer_text(b: Buffer) -> str:
    """An array with its space and layout."""
    layout = f", {b.layout.kind}" if b.layout else ""
    return f"{b.name}: {b.space} {b.dtype}[{', '.join(map(str, b.shape))}]{layout}"


def map_text(m: TensorMap) -> str:
    """A tensor map with its box."""
    swizzle = f", swizzled over {m.swizzle} bytes" if m.swizzle else ""
    return f"{m.name}: boxes of {' x '.join(map(str, m.box))} of {m.tensor}{swizzle}, {m.fill} outside"


def barrier_text(b: Barrier) -> str:
    """An array of mbarriers with what completes a phase."""
    many = f"{b.slots} mbarriers" if b.slots > 1 else "an mbarrier"
    return f"{b.name}: {many}, {b.count} arrival{'s' if b.count > 1 else ''} a phase"


def order_text(s: Statement) -> str:
    """An ordering point; '' for any other statement."""
    if s.kind == "sync":
        return _sync(s)
    if s.kind == "wait":
        return _wait(s)
    if s.kind == "arrive":
        return _arrive(s)
    if s.kind == "commit":
        return f"commit {s.queue} group"
    if s.kind == "fence":
        return f"fence {s.what}"
    if s.kind == "call" and s.row == "mbarrier.init" and "bar" in s.refs:
        return f"initialise {s.refs['bar']}"
    return ""


def _sync(s: Sync) -> str:
    what = f"named barrier {s.id} of {s.threads} threads" if s.scope == "named" else f"barrier of the {s.scope}"
    half = {"both": "", "arrive": "arrive at the ", "wait": "wait at the "}[s.part]
    return half + what + (" (execution only)" if s.relaxed else "")


def _wait(s: Wait) -> str:
    if s.flag is not None:
        return f"wait until {s.flag} >= {s.value}"
    if not s.queue:
        return f"wait on {s.barrier} for parity {s.parity}"
    return f"wait until {s.pending} {s.queue} groups are {'unread' if s.read else 'pending'}"


def _arrive(s: Arrive) -> str:
    where = f" of block {s.peer} of the cluster" if s.peer is not None else ""
    return f"arrive on {s.barrier}{where}" + (f", expecting {s.bytes} bytes" if s.bytes is not None else "")
