"""Options of an operator, from its pydantic models: a new field is a new option, and nothing here changes."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from amk.cli.output import clean
from amk.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from amk.ops.family import OperatorFamily, Problem, Schedule

__all__ = [
    "add_problem", "add_schedule", "agreement", "find_family", "named_family", "problem_of", "read_schedule",
    "schedule_of",
]  # fmt: skip

_TRANSPOSES = ("trans_a", "trans_b")
_LAYOUTS = ("nn", "nt", "tn", "tt")


def named_family(parser: ArgumentParser, argv: Sequence[str]) -> OperatorFamily | None:
    """The operator that the command line names, wherever it stands; None if it names nothing at all.

    `parser` knows the positional argument and the options that come before the operator's own. Raises InputError for a
    name that no operator has.
    """
    from amk.ops import REGISTRY

    if name := next((a for a in argv if a in REGISTRY), None):
        return REGISTRY[name]
    words = [a for a in argv if a not in ("-h", "--help")]
    if not any(not a.startswith("-") for a in words):
        return None  # argparse says what is missing, or shows the help
    return find_family(parser.parse_known_args(words)[0].operator)


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
    group.add_argument(
        "--schedule", metavar="FILE", help="a whole schedule as JSON (- for stdin), in place of the agent's; what it "
        "leaves out has its default, and options change it",
    )  # fmt: skip
    _add_fields(group, family.schedule)
    if "specialise" in family.schedule.model_fields:
        group.add_argument(
            "--symbolic", action="store_false", dest="specialise", default=None, help="sizes stay parameters"
        )


def _add_fields(group: Any, model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        flag = "--" + name.replace("_", "-")
        default = "required" if field.is_required() else f"default {field.default}"
        default = f"{field.description} ({default})" if field.description else default
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
    """The chosen schedule with the given options in place of its own choices."""
    made: Schedule = _checked(lambda: chosen.with_choices(_given(args, family.schedule)))
    return made


def agreement(args: Namespace, family: OperatorFamily, schedule: Schedule) -> int:
    """How many of the given options a schedule agrees with."""
    return sum(getattr(schedule, n) == v for n, v in _given(args, family.schedule).items())


def read_schedule(path: str, family: OperatorFamily) -> Schedule:
    """The schedule in a JSON file (`-`: standard input); DescriptorError with line and column if it does not read."""
    from pydantic import ValidationError

    from amk.cli.inputs import read_document
    from amk.dsl.source import raise_at, read_object

    document = read_document(path)
    data = read_object(document.data, name=document.path)
    try:
        return family.schedule.model_validate(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        key = field if field in data else next((k for k in data if k.lower() == field), "")
        hint = f"it has: {', '.join(family.schedule.model_fields)}"
        said = f"the schedule of {family.name}" + (f", {clean(key, 60)}" if key else "")
        pointer = "/" + key.replace("~", "~0").replace("/", "~1") if key else ""
        raise_at(document.text, pointer, f"{said}: {_said(first)}", hint=hint, name=document.path)


def _said(error: Any) -> str:
    return clean("there is no such field" if error["type"] == "extra_forbidden" else error["msg"], 200)


def _make(model: type[BaseModel], values: dict[str, Any]) -> Any:
    return _checked(lambda: model.model_validate(values))


def _checked(make: Callable[[], Any]) -> Any:
    from pydantic import ValidationError

    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = "--" + "-".join(map(str, first["loc"])).replace("_", "-")
        raise InputError(f"{name}: {_said(first)}", hint="see the options with --help") from None
