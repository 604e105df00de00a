"""Records: fields by place and by name, defaults, equality, frozen ones, and copies."""

from __future__ import annotations

from typing import Any

import pytest

from amk.dsl.record import field, record, replace


@record(frozen=True)
class Point:
    x: int
    y: int = 2


@record()
class Bag:
    name: str
    held: list[int] = field(default_factory=list)


def test_fields_are_given_by_place_or_by_name() -> None:
    assert (Point(1).x, Point(1).y, Point(x=3, y=4).y) == (1, 2, 4)
    with pytest.raises(TypeError, match=r"Point.__init__\(\) missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        Point(1, z=1)  # type: ignore[call-arg]


def test_each_object_has_a_default_of_its_own() -> None:
    one, other = Bag("a"), Bag("a")
    one.held.append(1)
    assert other.held == [] and one != other and Bag("b", [1]).held == [1]
    assert not hasattr(Bag, "held")


def test_equality_text_and_hash() -> None:
    assert Point(1) == Point(1, 2) and hash(Point(1)) == hash(Point(1, 2)) and Point(1) != (1, 2)
    assert repr(Point(1)) == "Point(x=1, y=2)"
    bag: Any = Bag("a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(bag)


def test_frozen_records_change_by_copy_alone() -> None:
    p = Point(1)
    with pytest.raises(AttributeError, match="Point is frozen: x stays as it is"):
        p.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del p.x
    assert replace(p, x=5) == Point(5) and p == Point(1)
    bag = Bag("a", [1])
    bag.name = "b"
    assert replace(bag, held=[]) == Bag("b")
