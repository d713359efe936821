"""The text of a statement, the way back, and the JSON Schema: all three tell the same."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from das.accounting import codec
from das.accounting.calibration import Target
from das.accounting.document import (
    FORMAT,
    Document,
    ForeignLine,
    ForeignStatement,
    GaussianLine,
    Invariant,
    Variance,
)
from das.accounting.statement import LedgerEvents, Terms, statement
from das.errors import ReleaseError
from das.model.budget import Neighbours
from das.model.ledger import Event
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, Mechanism
from das.model.redistricting import H1, PL94

SCHEMA = Draft202012Validator(codec.json_schema())
TOTAL = Invariant(
    universe="persons", constraint="total", level="State", query="total", sign="=", says="totals"
)


def ours(
    mechanism: Mechanism,
    neighbours: Neighbours = Neighbours.BOUNDED,
    *,
    private: bool = True,
    target: bool = False,
    lost: bool = False,
) -> Document:
    cost = Fraction(1, 3)
    parameter = mechanism.parameter(cost, neighbours.sensitivity)
    draws = [
        ("persons", "US", "hispanic * cenrace"),
        ("persons", "Block", "total"),
        ("housing", "US", "detailed"),
    ]
    events = [Event(level, query, mechanism, parameter, cost, u, 7, 4) for u, level, query in draws]
    delta = Fraction(1, 10**10)
    terms = Terms(
        mechanism,
        neighbours,
        delta,
        ("US", "State", "Block"),
        {"persons": PL94, "housing": H1},
        {"persons": [("State", "total")], "housing": []},
        Target(Fraction(9), delta, "exact") if target else None,
    )
    drawn = LedgerEvents(
        {"persons": events[:2], "housing": events[2:]}, {"persons": events[:1]} if lost else {}
    )
    out = statement(
        terms, drawn, [TOTAL], "bits", private, ["ü"], {"persons": {"hhgq": "by a rule"}}
    )
    return out.sealed({"spec.toml": "f00d" * 16}, {"das": "0"})


def foreign() -> ForeignStatement:
    line = ForeignLine(
        universe="persons",
        level="US",
        query="total",
        units=1,
        of_units=2,
        answers=1,
        variance=Variance(usual=1.5, least=1.25, most=2.0),
    )
    return ForeignStatement.make(
        format=FORMAT,
        private="unknown",
        entropy="as published",
        mechanism="discrete-gaussian",
        guarantee="theirs",
        outside=[TOTAL],
        measured=[line],
        ledger=(),
        says=["a note"],
        digests={},
        software={},
    )


KINDS = {
    "gaussian": ours(DISCRETE_GAUSSIAN, target=True),
    "lost": ours(DISCRETE_GAUSSIAN, lost=True),
    "seeded": ours(DISCRETE_GAUSSIAN, private=False),
    "unbounded": ours(DISCRETE_GAUSSIAN, Neighbours.UNBOUNDED),
    "geometric": ours(GEOMETRIC),
    "foreign": foreign(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_gives_the_value_back_and_is_of_the_schema(kind: str) -> None:
    said = KINDS[kind]
    text = codec.text(said)
    value = json.loads(text)
    SCHEMA.validate(value)
    again = codec.document_from_json(value)
    assert again == said
    assert codec.text(again) == text
    assert next(iter(value)) == "format"
    assert list(value) == [k for k in codec.ORDER if k in value]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(codec.json_schema())
    every = [d for d in codec.json_schema()["$defs"].values() if "properties" in d]
    assert len(every) > 10
    assert all(d["additionalProperties"] is False for d in every)
    assert "null" not in json.dumps(codec.json_schema())


def nodes(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    for key in (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield from nodes(value[key], (*at, key))


def altered(value: Any, rng: random.Random) -> Any:
    """One thing is otherwise: gone, doubled, added, renamed or of another kind."""
    value = copy.deepcopy(value)
    *way, last = rng.choice([at for at in nodes(value) if at])
    node = value
    for key in way:
        node = node[key]
    odd = rng.choice(
        [None, True, -1, 0, 2.5, "x", "1/2", "2/4", "1/0", [], {}, [1], {"a": 1}, "geometric"]
    )
    what = rng.randrange(4)
    if what == 0:
        del node[last]
    elif what == 1 and isinstance(node, list):
        node.append(node[last])
    elif what == 1:
        node[f"{last}s"] = node.pop(last)
    elif what == 2 and isinstance(node, dict):
        node["more"] = odd
    else:
        node[last] = odd
    return value


def read(value: Any) -> Document | ReleaseError:
    try:
        return codec.document_from_json(value)
    except ReleaseError as error:
        return error


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**63))
def test_what_the_schema_refuses_is_refused_with_one_message(kind: str, seed: int) -> None:
    value = altered(codec.plain(KINDS[kind]), random.Random(seed))
    said = read(value)
    if isinstance(said, ReleaseError):
        assert len(str(said)) < 2000
    elif codec.plain(said) == value:  # else its text is another one, and verification says so
        SCHEMA.validate(value)


def test_few_alterations_pass_both() -> None:
    """The property above would hold of a reader that refuses nothing and a schema that allows
    anything.
    """
    rng = random.Random(1)
    values = [altered(codec.plain(KINDS["gaussian"]), rng) for _ in range(80)]
    assert sum(SCHEMA.is_valid(v) for v in values) < 24
    assert sum(isinstance(read(v), ReleaseError) for v in values) > 56


@pytest.mark.parametrize(
    "format_, words",
    [
        (
            "das-privacy-statement/5",
            ["'das-privacy-statement/5'", "reads 'das-privacy-statement/4'", "under 'software'"],
        ),
        ("", ["''", "reads"]),
        (2, ["no privacy statement (format", "not 2"]),
        (None, ["no privacy statement (format: Field required", "before statements had formats"]),
    ],
)
def test_a_version_that_is_not_known(format_: Any, words: list[str]) -> None:
    value = codec.plain(KINDS["gaussian"]) | {"format": format_}
    with pytest.raises(ReleaseError) as caught:
        codec.document_from_json(value, "here")
    assert str(caught.value).startswith("here: ")
    for word in words:
        assert word in str(caught.value)


def test_names_here_are_none_of_the_text() -> None:
    value = codec.plain(KINDS["gaussian"])
    value["totals"] = value.pop("rho")
    with pytest.raises(ReleaseError, match=r"\(rho: Field required\)"):
        codec.document_from_json(value)


def test_it_cannot_be_changed() -> None:
    said = KINDS["gaussian"]
    assert not isinstance(said, ForeignStatement)
    with pytest.raises(ValidationError, match="frozen"):
        said.private = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        said.totals["persons"] = Fraction(0)  # type: ignore[index]
    with pytest.raises(TypeError):
        said.ledger[0] = said.ledger[1]  # type: ignore[index]
    digests = {"a": "b"}
    sealed = said.sealed(digests, {})
    digests["a"] = "c"
    assert sealed.digests == {"a": "b"}


@pytest.mark.parametrize(
    "value", [0.5, "0.5", "-1", "1/0", "1e-9", " 1", "1" * 2001, None, True, 1]
)
def test_costs_are_exact(value: Any) -> None:
    fields = {
        "universe": "u",
        "level": "l",
        "query": "q",
        "units": 1,
        "answers": 1,
        "sigma_sq": "1",
        "rho": "1",
    }
    GaussianLine.model_validate(fields)
    assert (
        not SCHEMA.evolve(
            schema={**SCHEMA.schema, "anyOf": [{"$ref": "#/$defs/GaussianLine"}]}
        ).is_valid(fields | {"rho": value})
        or value == "1/0"
    )
    with pytest.raises(ValidationError):
        GaussianLine.model_validate(fields | {"rho": value})
