"""One outside case: a kernel written by hand after an idea from elsewhere, and the verdict that it must get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amk.dsl.builder import KernelBuilder
from amk.dsl.expr import Expr
from amk.dsl.kernel import KernelDescriptor

__all__ = ["CASES", "Case", "Make", "builder", "case", "register"]

Make = Callable[[], KernelDescriptor]


@dataclass(frozen=True, eq=False)
class Case:
    """What a case is.

    `origin` names the collection, report or manual that the idea is from, `idea` says it in our words. `codes` are
    the rules that may name the fault (any one of them is right); none means that the kernel is right. `sizes` are
    the arguments of a small run in the interpreter, if one makes sense. `asynchronous`: copies, barriers with phases,
    tensor cores, clusters or roles take part. `theme` is the file that it stands in.
    """

    name: str
    theme: str
    origin: str
    idea: str
    make: Make
    codes: tuple[str, ...] = ()
    sizes: dict[str, int] | None = None
    asynchronous: bool = False

    @property
    def faulty(self) -> bool:
        """Whether the kernel has to be refused."""
        return bool(self.codes)


CASES: dict[str, Case] = {}


def register(case: Case) -> None:
    """Adds a case; two of one name are an error of the suite."""
    if case.name in CASES:
        raise ValueError(f"two cases have the name {case.name}")
    CASES[case.name] = case


def case(
    origin: str, idea: str, *codes: str, sizes: dict[str, int] | None = None, asynchronous: bool = False,
    name: str = "", **switches: object,
) -> Callable[[Callable[..., KernelDescriptor]], Callable[..., KernelDescriptor]]:  # fmt: skip
    """Registers the kernel that a function makes, called with `switches`; several may stand on one function."""

    def add(make: Callable[..., KernelDescriptor]) -> Callable[..., KernelDescriptor]:
        theme = make.__module__.rpartition(".")[2]
        own = name or make.__name__
        register(Case(own, theme, origin, idea, lambda: make(**switches), codes, sizes, asynchronous))
        return make

    return add


def builder(name: str, threads: int, target: str = "sm_80", **more: int) -> tuple[KernelBuilder, Expr]:
    """A builder, and a size n of at most 2**20."""
    k = KernelBuilder(name, target=target, threads=threads, **more)
    return k, k.size("n", max=1 << 20)
