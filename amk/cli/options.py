"""Options of an operator, from its pydantic models: a new field is a new option, and nothing here changes."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from amk.cli.output import clean
from amk.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from amk.ops.family import OperatorFamily, Problem, Schedule

__all__ = ["add_problem", "add_schedule", "find_family", "named_operator", "problem_of", "schedule_of"]

_TRANSPOSES = ("trans_a", "trans_b")
_LAYOUTS = ("nn", "nt", "tn", "tt")


def named_operator(argv: Sequence[str]) -> str | None:
    """The first word, if it names an operator."""
    from amk.ops import REGISTRY

    word = next((a for a in argv if not a.startswith("-")), None)
    return word if word in REGISTRY else None


def find_family(name: str) -> OperatorFamily:
    """The operator called `name`."""
    from amk.ops import REGISTRY

    if name not in REGISTRY:
        raise InputError(f"there is no operator {clean(name, 60)!r}", hint=f"one of: {', '.join(REGISTRY)}")
    return REGISTRY[name]


def add_problem(parser: ArgumentParser, family: OperatorFamily) -> None:
    """An option for every field of the operator's problem."""
    group = parser.add_argument_group(f"the problem: {family.summary}")
    _add_fields(group, family.problem)
    if all(t in family.problem.model_fields for t in _TRANSPOSES):
        group.add_argument("--layout", choices=_LAYOUTS, help="of A and B: n as it is, t transposed")


def add_schedule(parser: ArgumentParser, family: OperatorFamily) -> None:
    """An option for every choice of the operator's schedule; what is not given is the agent's."""
    group = parser.add_argument_group("the schedule (what is not given, the rule agent chooses)")
    _add_fields(group, family.schedule)
    if "specialise" in family.schedule.model_fields:
        group.add_argument(
            "--symbolic", action="store_false", dest="specialise", default=None, help="sizes stay parameters"
        )


def _add_fields(group: Any, model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        flag = "--" + name.replace("_", "-")
        default = "required" if field.is_required() else f"default {field.default}"
        options: dict[str, Any] = {"dest": name, "default": None, "help": default}
        if field.annotation is bool:
            group.add_argument(flag, action=BooleanOptionalAction, **options)
        elif get_origin(field.annotation) is Literal:
            choices = get_args(field.annotation)
            group.add_argument(flag, type=_one_of(choices), metavar="{" + ",".join(map(str, choices)) + "}", **options)
        else:
            kind = field.annotation if field.annotation in (int, float) else str
            group.add_argument(flag, type=kind, metavar="N" if kind is int else "X", **options)


def _one_of(choices: tuple[Any, ...]) -> Any:
    known = {str(c): c for c in choices}

    def choice(text: str) -> Any:
        if text not in known:
            raise ArgumentTypeError(f"{clean(text, 40)!r} is none of {', '.join(known)}")
        return known[text]

    return choice


def _given(args: Namespace, model: type[BaseModel]) -> dict[str, Any]:
    return {n: getattr(args, n) for n in model.model_fields if getattr(args, n, None) is not None}


def problem_of(args: Namespace, family: OperatorFamily) -> Problem:
    """The problem that the options describe."""
    values = _given(args, family.problem)
    if layout := getattr(args, "layout", None):
        values |= {name: letter == "t" for name, letter in zip(_TRANSPOSES, layout, strict=True)}
    made: Problem = _make(family.problem, values)
    return made


def schedule_of(args: Namespace, family: OperatorFamily, chosen: Schedule) -> Schedule:
    """The agent's schedule with the given choices in place of its own."""
    made: Schedule = _make(family.schedule, {**chosen.model_dump(), **_given(args, family.schedule)})
    return made


def _make(model: type[BaseModel], values: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "--" + "-".join(map(str, first["loc"])).replace("_", "-")
        raise InputError(f"{name}: {clean(first['msg'], 200)}", hint="see the options with --help") from None
