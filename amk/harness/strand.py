"""A strand: warps of one block that take the same path, walked as one, and what its threads know.

What all of its threads know is kept once (`common`); what some lanes learnt alone is theirs until the next warp barrier
(`parts`). Beside that a thread knows what itself has done, and what its warp had done at the last warp barrier
(`warps`; `aligned`: or has executed before the last instruction of whole warps); and of these, what a fence of its own
has made visible to the asynchronous proxy (`fences`, `fenced_warps`).
"""

from __future__ import annotations

from collections.abc import Iterator

from amk.harness.knowledge import Clocks, Know, Warps, covering, told, widened

__all__ = ["Strand"]


class Strand:
    """`threads` as bits, numbered in the block of rank `rank` of the cluster. `now` counts what others can learn of."""

    def __init__(self, index: int, rank: int, threads: int) -> None:
        self.index, self.rank, self.threads = index, rank, threads
        self.now = 0
        self.common = Know()
        self.parts: dict[int, Know] = {}
        self.warps, self.fenced_warps, self.aligned = Warps(threads), Warps(threads), Warps(threads)
        self.fences: dict[int, int] = {}  # by threads: each has fenced what itself did before this count

        self._history: tuple[tuple[int, int], Know] | None = None
        self._groups: dict[str, dict[int, int]] = {}  # by queue: of each set of threads, the groups committed
        self._waits: dict[str, tuple[str, int]] = {}

    # -- queues of asynchronous work --------------------------------------------------------------------------------
    def commit(self, queue: str, active: int) -> int:
        """Closes the open group of each active thread; its number. ValueError where threads differ in it."""
        held = self._groups.setdefault(queue, {self.threads: 0})
        numbers = {n for threads, n in held.items() if threads & active}
        if len(numbers) != 1:
            raise ValueError("threads that have committed different numbers of groups")
        number = numbers.pop() + 1
        rest = {threads & ~active: n for threads, n in held.items() if threads & ~active}
        same = sum(threads for threads, n in rest.items() if n == number)
        self._groups[queue] = {threads: n for threads, n in rest.items() if n != number} | {active | same: number}
        return number

    def committed(self, queue: str, active: int) -> int:
        """Groups that the active threads have committed (the fewest, where they differ)."""
        return min((n for threads, n in self._groups.get(queue, {}).items() if threads & active), default=0)

    def wait(self, queue: str, pointer: str, pending: int) -> None:
        """Notes the last wait of a queue."""
        self._waits[queue] = pointer, pending

    def waited(self, queue: str) -> tuple[str, int]:
        """Where the last wait of a queue stands, and what it leaves pending; ("", 0) without one."""
        return self._waits.get(queue, ("", 0))

    def tick(self) -> None:
        """From here on, events are not those that were known before."""
        self.now += 1

    # -- what the active threads know -------------------------------------------------------------------------------
    def _views(self, active: int) -> Iterator[Know]:
        yield self.common
        for threads, part in self.parts.items():
            if active & ~threads == 0:
                yield part

    def phase(self, active: int, bar: int) -> int:
        """Phases of an mbarrier that all active threads know to be over."""
        most = self.common.past.get(bar, 0)
        for threads, part in self.parts.items():
            if active & ~threads == 0:
                most = max(most, part.past.get(bar, 0))
        return most

    def landed(self, active: int, bar: int) -> int:
        """Phases of an mbarrier whose copies are visible to all active threads."""
        most = self.common.bars.get(bar, 0)
        for threads, part in self.parts.items():
            if active & ~threads == 0:
                most = max(most, part.bars.get(bar, 0))
        return most

    def knows(self, active: int, strand: int, count: int, together: bool = False) -> int:
        """The threads of a strand whose event `count` all active threads know to be done."""
        known = 0
        for view in self._views(active):
            known |= covering(view.done, strand, count, together)
        return known

    def fenced(self, active: int, strand: int, count: int) -> int:
        """The threads of a strand whose event `count` all active threads know to be fenced."""
        known = 0
        for view in self._views(active):
            known |= covering(view.fenced, strand, count)
        return known

    def has_seen(self, active: int, strand: int, count: int) -> bool:
        """Whether all active threads know that an event of any thread of a strand has happened."""
        return any(covering(view.seen, strand, count) for view in self._views(active))

    def synced(self, count: int) -> int:
        """Own threads that a warp barrier orders with their warp since an event."""
        return self.warps.above(count)

    def fenced_lanes(self, count: int) -> int:
        """Own threads that know an event of their warp to be fenced."""
        return self.fenced_warps.above(count)

    def fenced_itself(self, count: int) -> int:
        """Own threads that have fenced what they did themselves."""
        out = 0
        for threads, then in self.fences.items():
            if then > count:
                out |= threads
        return out

    def _whole(self, threads: int) -> int:
        """Of some threads, the warps that are complete."""
        return self.threads & ~widened(self.threads & ~threads)

    # -- what others learn ------------------------------------------------------------------------------------------
    def published(self, active: int) -> Know:
        """What others learn by an arrival of each active thread."""
        self.tick()
        out = self.common.copy()
        for threads, part in self.parts.items():
            if threads & active:
                out.join(part)
        self._tell(out.done, active, self.warps)
        told(out.done, self.index, active, self.now)
        for threads, then in self.fences.items():
            if threads & active:
                told(out.fenced, self.index, threads & active, then)
        self._tell(out.fenced, active, self.fenced_warps)
        for key, n in out.done.items():
            if out.seen.get(key, -1) < n:
                out.seen[key] = n
        self._tell(out.seen, active, self.aligned)
        return out

    def history(self, active: int) -> Know:
        """That the active threads have come so far, for what completes later on its own; it hands over no memory."""
        key = self.now, active
        if self._history is None or self._history[0] != key:
            now = self.now
            self._history = key, self.published(active).happened()
            self.now = now  # nothing is an event here
        return self._history[1]

    def _tell(self, clocks: Clocks, active: int, warps: Warps) -> None:
        """What whole warps had in common at a warp barrier, of those that have an active thread."""
        wide = widened(active)
        for then, threads in warps.counts.items():
            if then and threads & wide:
                told(clocks, self.index, threads & wide, then)

    # -- what they learn --------------------------------------------------------------------------------------------
    def learn(self, active: int, know: Know) -> None:
        """The active threads come to know something."""
        self.tick()
        if active == self.threads:
            self.common.join(know)
        else:
            self.parts.setdefault(active, Know()).join(know)

    def fence(self, active: int) -> None:
        """What each active thread knows to be done is from now on visible to the asynchronous proxy."""
        self.tick()
        for threads, part in [(self.threads, self.common), *self.parts.items()]:
            if threads & active:
                into = Know()
                into.fenced = dict(part.done)
                self.learn(threads & active, into)
        self.fences = {m: n for m, n in self.fences.items() if m & ~active} | {active: self.now}
        whole = self._whole(active)
        for then, threads in self.warps.counts.items():
            self.fenced_warps.lift(threads & whole, then)

    def align(self, active: int) -> None:
        """Whole warps execute one instruction: what their lanes did before has happened."""
        self.tick()
        self.aligned.put(widened(active) & self.threads, self.now)

    def warp_barrier(self, active: int) -> None:
        """Whole warps meet: their lanes know what any of them knows."""
        self.align(active)
        wide = widened(active) & self.threads
        self.warps.put(wide, self.now)
        for threads, then in self.fences.items():
            self.fenced_warps.lift(self._whole(threads) & wide, then)
        for threads in list(self.parts):
            wide = threads & ~active | widened(threads & active) & self.threads
            if wide != threads:
                self.learn(wide, self.parts.pop(threads))

    def meet(self, know: Know) -> None:
        """All of its threads pass a barrier that hands over memory, and know the same."""
        self.tick()
        self.common.join(know)
        self.parts.clear()
        self.warps.put(self.threads, self.now)
        self.aligned.put(self.threads, self.now)
