"""Values stay unchanged, whatever holds them; every class with arrays is tested for it."""

import pickle
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import das
from das.errors import InputError
from das.model.frozen import Frozen, NoRepr
from das.model.measurement import Measurement
from das.model.spine import Spine


@dataclass(frozen=True, eq=False)
class Toy(Frozen):
    one: NDArray[np.float64]
    several: tuple[NDArray[np.int64], ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    beside: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if self.number < 0:
            raise InputError("negative", where="toy")


def toy(**change: Any) -> Toy:
    given: dict[str, Any] = {
        "one": np.array([1.0, np.nan]),
        "several": (np.arange(3), np.arange(2)),
        "named": {"a": np.arange(2), "b": {"c": np.ones(1)}},
    }
    return Toy(**given | change)


def test_nothing_of_a_value_can_be_written() -> None:
    for value in (toy(), pickle.loads(pickle.dumps(toy()))):
        for array in (value.one, value.several[1], value.named["a"], value.named["b"]["c"]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7
        for change in (
            lambda m: m.update(x=1),
            lambda m: m.pop("a"),
            lambda m: m.clear(),
            lambda m: m.__setitem__("a", 1),
        ):
            for mapping in (value.named, value.named["b"]):
                with pytest.raises(TypeError, match="does not change"):
                    change(mapping)
        assert set(value.named | {"d": 1}) == {"a", "b", "d"}


def test_whoever_made_an_array_keeps_it_and_nothing_is_copied() -> None:
    own, named = np.zeros(3), {"a": np.zeros(2)}
    value = toy(one=own, named=named)
    own[0] = named["a"][0] = 1  # still theirs
    named["b"] = np.zeros(1)
    assert np.shares_memory(value.one, own)
    assert list(value.named) == ["a"]
    frozen = value.one
    assert toy(one=frozen).one is frozen


def test_its_own_check_still_runs() -> None:
    with pytest.raises(InputError, match="toy: negative"):
        toy(number=-1)


def test_equal_is_equal_value_by_value() -> None:
    assert toy() == toy() == pickle.loads(pickle.dumps(toy()))
    assert toy() == toy(beside=5)
    for other in (
        {"one": np.array([1.0, 2.0])},
        {"one": np.zeros(3)},
        {"several": (np.arange(3),)},
        {"number": 1},
        {"several": (np.arange(3), np.arange(2) + 1)},
        {"named": {"a": np.arange(2)}},
        {"named": {"a": np.arange(2), "b": {"c": np.zeros(1)}}},
    ):
        assert toy() != toy(**other)
    assert toy() != 3
    with pytest.raises(TypeError, match="unhashable type: 'Toy'"):
        hash(toy())


def test_spines_and_measurements_are_values() -> None:
    places = {"County": ["b", "a"], "Block": ["b1", "a1"]}
    spine, same = (Spine.from_frame(places, ["US", "County", "Block"]) for _ in range(2))
    assert spine == same == pickle.loads(pickle.dumps(spine))
    assert spine != spine.subtree("County", 0)
    m = Measurement("County", "total", 0, np.array([[1], [2]]), np.ones(2))
    assert m == Measurement("County", "total", 0, np.array([[1], [2]]), np.ones(2))
    assert m != Measurement("County", "total", 0, np.array([[1], [3]]), np.ones(2))
    for array in (spine.parent[1], spine.codes[1], spine.names[0], m.values, m.variance):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = array


# --- every class
# -------------------------------------------------------------------------------------------


def holding(hint: Any) -> set[type]:
    """What a type of a field has in it: arrays, mappings, or neither."""
    kind = typing.get_origin(hint) or hint
    here = {k for k in (np.ndarray, Mapping) if isinstance(kind, type) and issubclass(kind, k)}
    return here.union(*map(holding, typing.get_args(hint)))


def classes() -> Iterator[tuple[type, set[type]]]:
    """Every frozen dataclass of the library that has arrays or mappings in its fields."""
    for found in walk_packages(das.__path__, "das."):
        for kind in vars(import_module(found.name)).values():
            if isinstance(kind, type) and kind.__module__ == found.name and is_dataclass(kind):
                params = kind.__dataclass_params__  # type: ignore[attr-defined]
                hints = typing.get_type_hints(kind)
                holds: set[type] = set().union(*(holding(hints[f.name]) for f in fields(kind)))
                if params.frozen and holds:
                    yield kind, holds


def test_every_class_that_holds_arrays_is_a_value() -> None:
    """In the model they cannot be written. Nowhere does ``==`` ask for the truth of an array: it is
    by value, or it asks whether both are the same object."""
    known = list(classes())
    model = {kind for kind, _ in known if kind.__module__.startswith("das.model.")}
    assert {Spine, Measurement} <= model
    assert len(model) > 15
    assert [kind.__name__ for kind in model if not issubclass(kind, Frozen)] == []
    allowed = (object.__eq__, Frozen.__eq__)
    assert [
        kind.__name__ for kind, holds in known if np.ndarray in holds and kind.__eq__ not in allowed
    ] == []


def test_a_class_without_it_is_found() -> None:
    @dataclass(frozen=True)
    class Written(NoRepr):
        values: tuple[NDArray[np.int64], ...] | None

    assert holding(typing.get_type_hints(Written, localns=locals())["values"]) == {np.ndarray}
    assert Written.__eq__ not in (object.__eq__, Frozen.__eq__)
