"""Loads, stores and atomics of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from amk.dsl.nodes import Atomic, Buffer, Load, Store
from amk.harness.interp_flags import flag_load, flag_store, flag_update

if TYPE_CHECKING:
    from amk.harness.interp_machine import Machine
    from amk.harness.interp_strand import Strand

__all__ = ["Data"]


class Data:
    """The statements that move data."""

    def __init__(self, machine: Machine) -> None:
        self.m = machine

    @property
    def strand(self) -> Strand:
        """The machine, where blocks speak to each other: it is a strand then."""
        m: Any = self.m
        return m  # type: ignore[no-any-return]

    def load(self, s: Load) -> None:
        """Registers := memory, or `other` where `when` does not hold."""
        if self.m.mask is None and s.when is None and not self.m.detect and s.order == "weak":
            name, index = self.m.operand(s.dst)
            got = self.m.memory.load_dense(s.src, s.width)
            self.m.registers.write_run(name, index, got)
            return
        if s.order != "weak":
            flag_load(self.strand, s)
            return
        kept = self.m.mask
        on = self.m.active() if s.when is None else self.m.active() & self.m.value(s.when)
        off = self.m.active() & ~on
        try:
            self._load_lanes(s, on)
            if s.other is not None and off.any():
                self.m.mask = off
                self._fill(s)
        finally:
            self.m.mask = kept

    def _load_lanes(self, s: Load, on: Any) -> None:
        if not on.any():
            return
        self.m.mask = on
        lanes = self.m.lanes(on)
        got = self.m.memory.load(s.src, s.width, lanes)
        name, index = self.m.operand(s.dst)
        for e in range(s.width):
            self.m.registers.write(name, (*index[:-1], index[-1] + e), self.m.spread(got[e], lanes))

    def _fill(self, s: Load) -> None:
        assert s.other is not None
        name, index = self.m.operand(s.dst)
        value = self.m.value(s.other, self.m.declared(name).dtype)
        for e in range(s.width):
            self.m.registers.write(name, (*index[:-1], index[-1] + e), value)

    def store(self, s: Store) -> None:
        """Memory or a register := values."""
        if s.order != "weak":
            flag_store(self.strand, s)
            return
        d = self.m.declared(s.dst.buffer)
        values = [np.asarray(self.m.value(v, d.dtype)) for v in s.values]
        if isinstance(d, Buffer) and d.space == "register":
            name, index = self.m.operand(s.dst)
            for e, v in enumerate(values):
                self.m.registers.write(name, (*index[:-1], index[-1] + e), v)
        else:
            self.m.memory.store(s.dst, values, self.m.lanes(self.m.mask))

    def atomic(self, s: Atomic) -> None:
        """Memory := op(memory, value)."""
        if s.order != "relaxed" or s.old is not None:
            flag_update(self.strand, s)
            return
        value = self.m.value(s.value, self.m.declared(s.dst.buffer).dtype)
        self.m.memory.atomic(s.op, s.dst, value, self.m.lanes(self.m.mask))
