"""What blocks tell each other through global memory: flags set and counted, and what is written before them.

For all sizes, without walking a grid. Workspace tensors are zero at the start. Those that are used as flags (`flags`)
only grow; all others are messages, of which every element is written once (the coverage check) by a block that sets or
counts a flag after a barrier. A thread that knows enough of that flag may read the message (lemmas 10 to 13 in
`docs/soundness.md`). What has no such shape is refused.

In: a Context. Out: faults AMK313 (unpublished read), AMK314 (order of a flag), AMK315 (a wait without end), AMK008.
Source: PTX ISA, memory consistency model (release and acquire patterns, causality order); Merrill and Garland,
"Single-pass Parallel Prefix Scan with Decoupled Look-back" (NVIDIA, 2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from amk.dsl.expr import Const, Expr, Var, apply, names
from amk.dsl.flags import communicates, flag_of, flags
from amk.dsl.nodes import Atomic, Load, Param, Store, Wait
from amk.dsl.record import field, record, replace
from amk.harness.coverage import Site, global_sites, linear, own_read
from amk.harness.diagnostics import Severity
from amk.harness.events import BLOCKS, Program, Unsupported
from amk.harness.faults import Fault, Second
from amk.harness.message_facts import Fact, Facts
from amk.harness.message_sites import Place, Places

if TYPE_CHECKING:
    from amk.harness.context import Context

__all__ = ["Flag", "Messages", "messages"]


@record()
class Flag:
    """How one tensor of flags is used; `index` is the element of a block."""

    tensor: Param
    index: tuple[Expr, ...] = ()
    sets: list[tuple[int, Place]] = field(default_factory=list)  # values, in program order
    count: Place | None = None
    axes: tuple[str, ...] = ()  # of the blocks that share a count
    blocks: Expr = field(default_factory=lambda: Const(1))  # that share a count

    def passed(self, least: Expr, same: Any) -> Place | None:
        """What the block of a flag has done when the flag has at least a value: the first such store, or its count."""
        if self.count is not None:
            return self.count if same(least, self.blocks) else None
        if not isinstance(least, Const) or type(least.value) is not int:
            return None
        return next((place for value, place in self.sets if value >= int(least.value) > 0), None)


@record()
class Messages:
    """Faults, the flags, and what other engines have to know."""

    faults: list[Fault] = field(default_factory=list)
    flags: dict[str, Flag] = field(default_factory=dict)
    last: dict[Expr, tuple[str, ...]] = field(
        default_factory=dict
    )  # conditions that hold in the block that counts last
    lower: dict[str, Expr] = field(default_factory=dict)  # by wait: the flag that has to be of an earlier block
    read: frozenset[str] = frozenset()  # tensors whose foreign reads are decided here

    def of(self, code: str) -> list[Fault]:
        return [f for f in self.faults if f.code == code]


def messages(ctx: Context) -> Messages:
    """The result for a kernel; `Context.messages` keeps it."""
    out = Messages()
    if not communicates(ctx.kernel):
        return out
    try:
        _Reader(ctx.program, out).run()
    except Unsupported as e:
        out.faults.append(Fault("AMK008", e.pointer, f"outside what is decided between blocks: {e.message}"))
    return out


class _Reader:
    """Reads one kernel."""

    def __init__(self, p: Program, out: Messages) -> None:
        self.p, self.out, self.kernel = p, out, p.kernel
        self.places = Places(p)
        self.facts = Facts(self.places)
        self.names = flags(p.kernel)
        self.sites = list(global_sites(p))
        self.out.read = frozenset(t.name for t in p.kernel.tensors if t.access == "workspace")

    def run(self) -> None:
        if self.kernel.cluster > 1:
            raise Unsupported("blocks that speak to each other in clusters")
        for t in self.kernel.tensors:
            if t.access == "workspace" and t.name in self.names:
                self.out.flags[t.name] = self._flag(t)
        self._last()
        for t in self.kernel.tensors:
            if t.access == "workspace" and t.name not in self.names:
                self._message(t)
        for x in self.places.all:
            if isinstance(x.s, Wait) and x.s.flag is not None:
                self._wait(x, x.s)
            elif isinstance(x.s, Atomic) and x.s.scope == "block":
                self._of_block(x, x.s)

    def _fault(
        self, code: str, pointer: str, message: str, hint: str, *related: Second, severity: Severity | None = None
    ) -> None:
        self.out.faults.append(Fault(code, pointer, message, {}, related, hint, severity))

    # -- flags ------------------------------------------------------------------------------------------------------
    def _flag(self, t: Param) -> Flag:
        """How a tensor of flags is used, each use looked at."""
        flag = Flag(t)
        for x in self.places.all:
            for ref in self._touched(x):
                if ref.buffer == t.name:
                    self._use(flag, x, tuple(map(self.facts.plain, ref.index)))
        if flag.sets and flag.count is not None:
            raise Unsupported(f"the flags {t.name!r} are both stored and counted", flag.count.pointer)
        if flag.count is not None:
            self._counted(flag, flag.count)
        for (low, a), (high, b) in zip(flag.sets, flag.sets[1:], strict=False):
            if low >= high or not a.before(b):
                raise Unsupported(
                    f"the flag {t.name!r} is stored as {low} and then as {high}; it may only grow", b.pointer
                )
        for _, x in flag.sets:
            self._everywhere(flag, x, "stored")
        return flag

    def _touched(self, x: Place) -> Iterator[Any]:
        """The global operands of a statement, flags included."""
        s = x.s
        refs = [s.src] if s.kind == "load" else [s.dst] if s.kind in ("store", "atomic") else []
        refs += [s.flag] if s.kind == "wait" and s.flag is not None else []
        refs += list(s.refs.values()) if s.kind == "call" else []
        yield from (self.kernel.resolve(r) for r in refs if self.kernel.space(r) == "global")

    def _use(self, flag: Flag, x: Place, index: tuple[Expr, ...]) -> None:
        s, name = x.s, flag.tensor.name
        if isinstance(s, (Load, Store)) and s.order == "weak":
            way = "acquire" if isinstance(s, Load) else "release"
            text = f"{name!r} is a flag, and this {s.kind} of it is weak: nothing orders it with other blocks"
            self._fault("AMK314", x.pointer, text, f"give it order={way!r}", *self._others(name, x))
        if isinstance(s, Store):
            value = s.values[0]
            if not isinstance(value, Const) or type(value.value) is not int or value.value < 1:
                raise Unsupported(f"the flag {name!r} is stored as {value}, which is no constant above 0", x.pointer)
            flag.sets.append((value.value, x))
            self._mine(flag, x, index)
        elif isinstance(s, Atomic):
            if flag.count is not None:
                raise Unsupported(f"the flag {name!r} is counted at two places", x.pointer)
            flag.count = x
            self._mine(flag, x, index)
        elif not isinstance(s, (Load, Wait)):
            raise Unsupported(f"{name!r} is a flag, and {s.kind} touches it", x.pointer)

    def _others(self, name: str, x: Place) -> Iterator[Second]:
        """The first other statement that touches a flag."""
        found = (y for y in self.places.all if y is not x and any(r.buffer == name for r in self._touched(y)))
        yield from (Second(y.pointer, "where the flag is used too") for y in islice(found, 1))

    def _mine(self, flag: Flag, x: Place, index: tuple[Expr, ...]) -> None:
        """A flag is set or counted at one element of the block, by one thread, once."""
        known = frozenset((*BLOCKS, *(q.name for q in self.kernel.scalars)))
        if any(not names(e) <= known for e in index):
            raise Unsupported(f"the flag {flag.tensor.name!r} is not one of the block alone", x.pointer)
        if not self.places.alone(x):
            text = "a flag is set or counted by one thread of each block, once, whatever the data are"
            raise Unsupported(text, x.pointer)
        if flag.index and flag.index != index:
            raise Unsupported(f"a block sets two elements of {flag.tensor.name!r}", x.pointer)
        flag.index = index

    def _everywhere(self, flag: Flag, x: Place, how: str) -> None:
        """Each element is the flag of one block (counted: of equally many)."""
        from amk.harness.tiles import tile_form

        mine = [s for s in self.sites if s.pointer == x.pointer and s.tensor == flag.tensor.name]
        if len(mine) != 1 or not tile_form(self.p, flag.tensor, [_of_one(mine[0])]):
            whose = "equally many blocks" if flag.count is not None else "one block"
            raise Unsupported(f"that each flag of {flag.tensor.name!r} is {how} by {whose} is not shown", x.pointer)

    def _counted(self, flag: Flag, x: Place) -> None:
        if self.facts.plain(x.s.value) != Const(1):
            raise Unsupported(f"the flag {flag.tensor.name!r} is counted by {x.s.value}, not by 1", x.pointer)
        used = frozenset().union(*map(names, flag.index))
        grid = zip(BLOCKS, self.kernel.grid3, strict=True)
        left = [(b, n) for b, n in grid if b not in used and n != Const(1)]
        flag.axes = tuple(b for b, _ in left)
        for _, n in left:
            flag.blocks = apply("*", flag.blocks, self.facts.plain(n))
        self._everywhere(flag, x, "counted")
        if x.s.scope != "device":
            self._fault("AMK314", x.pointer, f"the count {x.s.dst} is of scope {x.s.scope}, and other blocks count too",
                        "give it scope='device'")  # fmt: skip
        wanted = "acq_rel" if self._asked(x) else "release" if self._waited(flag.tensor.name) else "relaxed"
        if x.s.order == wanted:
            return
        if wanted == "relaxed" or (wanted == "release" and x.s.order == "acq_rel"):
            text = f"the count {x.s.dst} is {x.s.order}, and {wanted} is enough: order that nobody needs costs time"
            self._fault("AMK314", x.pointer, text, f"give it order={wanted!r}", severity="warning")
        else:
            text = f"the count {x.s.dst} is {x.s.order}: what the blocks wrote before it is not handed over"
            self._fault("AMK314", x.pointer, text, f"give it order={wanted!r}", *self._others(flag.tensor.name, x))

    def _asked(self, x: Place) -> bool:
        """Whether a condition looks at the old value of a count, for what others wrote."""
        return x.s.old is not None and bool(self.out.read - self.names)

    def _waited(self, name: str) -> bool:
        found = (flag_of(self.kernel, x.s) for x in self.places.all if isinstance(x.s, (Wait, Load)))
        return any(r is not None and self.kernel.resolve(r).buffer == name for r in found)

    def _of_block(self, x: Place, s: Atomic) -> None:
        """An atomic of the scope of the block is on elements that no other block touches: each has its own index."""
        index = [linear(self.facts.plain(i)) for i in self.kernel.resolve(s.dst).index]
        axes = [b for b, n in zip(BLOCKS, self.kernel.grid3, strict=True) if n != Const(1)]
        met = [b for b in axes if linear(Var(b)) not in index]
        if met and s.order == "relaxed" and s.old is None:  # counts are looked at as flags
            text = (
                f"the atomic on {s.dst} is of the scope of the block, and blocks of different {met[0]} may meet there"
            )
            self._fault("AMK314", x.pointer, text, "give it scope='device'")

    # -- the last of several blocks ---------------------------------------------------------------------------------
    def _last(self) -> None:
        """Conditions that hold in one block of those that share a count, with the axes that tell these apart."""
        for x in self.places.all:
            for f in self.facts.at(x):
                flag = self.out.flags.get(f.flag)
                if f.cond is None or flag is None or flag.count is not f.at or flag.index != f.of:
                    continue
                if self.facts.same(f.least + 1, flag.blocks):
                    self.out.last[f.cond] = flag.axes

    # -- messages ---------------------------------------------------------------------------------------------------
    def _message(self, t: Param) -> None:
        mine = [s for s in self.sites if s.tensor == t.name]
        writes = [s for s in mine if s.mode == "w"]
        by_pointer = {x.pointer: x for x in self.places.all}
        for s in mine:
            if s.mode == "a" or s.later:
                what = "updated by an atomic" if s.mode == "a" else "moved by a copy"
                raise Unsupported(f"the workspace {t.name!r} is {what}, and is no flag", s.pointer)
        for s in mine:
            if s.mode == "r" and not any(own_read(s, w) for w in writes):
                self._read(t, s, by_pointer[s.pointer], [(w, by_pointer[w.pointer]) for w in writes])

    def _read(self, t: Param, s: Site, reader: Place, writes: list[tuple[Site, Place]]) -> None:
        known = list(self.facts.at(reader))
        for site, writer in writes:
            if any(self._published(f, s, site, writer) for f in known):
                continue
            text = f"{t.name!r} is read here and written by another block"
            there = Second(writer.pointer, "what is written")
            if not known:
                hint = (
                    f"wait for a flag that the block of {t.name!r} sets after it has written, or read it under a count"
                )
                self._fault("AMK313", s.pointer, f"{text}, and the thread has seen no flag of that block", hint, there)
            else:
                why = "; ".join(dict.fromkeys(self._lacks(f, s, site, writer) for f in known))
                hint = "let the flag stand at the leading indices of what it is about, after a block barrier"
                unsure = not any(self._about(f, s, site) is not None for f in known)
                self._fault(
                    "AMK313", s.pointer, f"{text}: {why}", hint, there, severity="undecided" if unsure else None
                )

    def _about(self, f: Fact, s: Site, site: Site) -> Place | None:
        """What the writer's block has passed if the fact is about the block that writes what is read."""
        flag = self.out.flags.get(f.flag)
        if flag is None or not _matched(flag.index, f.of, site.index, s.index):
            return None
        least = f.least + 1 if isinstance(f.at.s, Atomic) else f.least  # the old value, and the block's own count
        return flag.passed(least, self.facts.same)

    def _published(self, f: Fact, s: Site, site: Site, writer: Place) -> bool:
        passed = self._about(f, s, site)
        return passed is not None and self._handed(writer, passed)

    def _handed(self, writer: Place, release: Place) -> bool:
        """Whether a write comes before a release of its block: by a barrier, or in the one thread that does both."""
        if not writer.before(release):
            return False
        d = writer.meet(release)
        alone = self.places.threads(writer.around[:d])
        return writer.barrier_before(release) or (alone is not None and alone.bit_count() == 1)

    def _lacks(self, f: Fact, s: Site, site: Site, writer: Place) -> str:
        passed = self._about(f, s, site)
        if passed is not None:
            return f"no block barrier stands between the write and the release of {f.flag!r} at {passed.pointer}"
        known = f"{f.flag}[{', '.join(map(str, f.of))}] >= {f.least}"
        return f"what is known of {f.flag!r} ({known}) is not about its block"

    # -- waits ------------------------------------------------------------------------------------------------------
    def _wait(self, x: Place, s: Wait) -> None:
        assert s.flag is not None and s.value is not None
        ref = self.kernel.resolve(s.flag)
        flag, least = self.out.flags[ref.buffer], self.facts.plain(s.value)
        index = tuple(map(self.facts.plain, ref.index))
        release = flag.passed(least, self.facts.same)
        if release is None:
            if flag.sets or flag.count is not None:
                text = f"{s.flag} >= {s.value} is waited for, and it is not shown that the flag gets so far"
            else:
                text = f"{s.flag} is waited for, and nothing sets it"
            place = flag.sets[-1][1].pointer if flag.sets else self.kernel.pointer_of(flag.tensor.name)
            hint = "wait for a value that is stored, or for the number of blocks that count"
            self._fault("AMK315", x.pointer, text, hint, Second(place, "what the flag gets"))
            return
        if self.kernel.dispatch == "any":
            hint = "say dispatch='in_order' and wait for earlier blocks alone, or dispatch='resident' for a small grid"
            text = "a block waits for another one here, which need not run before this one has ended"
            self._fault("AMK315", x.pointer, text, hint, Second(release.pointer, "what is waited for"))
            return
        first = not any(isinstance(y.s, Wait) and y.s.flag is not None and y.before(release) for y in self.places.all)
        if self.kernel.dispatch == "resident" and first and not self._inside(x, release):
            return
        if len(self.kernel.grid) != 1 or flag.index != (Var("bx"),) or any("#" in n for e in index for n in names(e)):
            text = f"that the block of {s.flag} can set it without waiting for this one is not shown"
            hint, there = (
                "number blocks and flags by bx, and wait for earlier ones",
                Second(release.pointer, "what sets it"),
            )
            self._fault("AMK315", x.pointer, text, hint, there, severity="undecided")
            return
        self.out.lower[x.pointer] = ref.index[0]

    @staticmethod
    def _inside(x: Place, release: Place) -> bool:
        """Whether a wait may come before the release in a round of a loop."""
        return any(node in release.around for node in x.around if getattr(node, "kind", "") == "for")


def _of_one(s: Site) -> Site:
    """The site with one thread, whatever the number of the one is that meets its conditions."""
    return replace(s, conds=(apply("==", "t", 0),))


def _matched(
    flag: tuple[Expr, ...], known: tuple[Expr, ...], written: tuple[Expr, ...], read: tuple[Expr, ...]
) -> bool:  # fmt: skip
    """Whether what is read was written by a block whose flag is known.

    Each index of the block's flag is an index of what it writes, at some dimension; there what is read has the index of
    the flag that is known. A constant index is the same for all.
    """
    if len(known) != len(flag):
        return False
    taken: set[int] = set()
    for f, k in zip(flag, known, strict=True):
        if isinstance(f, Const):
            if f != k:
                return False
            continue
        place = next((d for d, w in enumerate(written) if d not in taken and linear(w) == linear(f)), None)
        if place is None or linear(read[place]) != linear(k):
            return False
        taken.add(place)
    return True
