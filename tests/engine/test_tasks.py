"""Tasks, their answers and their faults, as values."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from das.engine.tasks import Fault, Task, answer_of, largest_first, outcome
from das.errors import DasError, InfeasibleError, InputError
from das.model import core_dumps
from tests.engine.stages import SECRET, brief, fail, tasks


def test_a_task_is_small_and_travels() -> None:
    task = Task(
        Path("/a/long/path/to/the/folder/of/a/run"), "measure", "44001-44009", (1, 5), 25_181.0
    )
    there = pickle.loads(pickle.dumps(task))
    assert there == task
    assert len(pickle.dumps(task)) < 300
    assert str(task) == "measure 44001-44009"


@pytest.mark.parametrize(
    "stage, partition, subtrees, weight",
    [
        ("a/b", "p", (1, 1), 1),
        ("s", "..", (1, 1), 1),
        ("s", ".p", (1, 1), 1),
        ("s", "", (1, 1), 1),
        ("s", "p q", (1, 1), 1),
        ("s", "p\n", (1, 1), 1),
        ("s", "p", (2, 1), 1),
        ("s", "p", (-1, 1), 1),
        ("s", "p", (1, 1), -1.0),
        ("s", "p", (1, 1), float("nan")),
    ],
)
def test_a_task_that_could_not_be_one_is_refused(
    stage: str, partition: str, subtrees: tuple[int, int], weight: float
) -> None:
    with pytest.raises(ValueError):
        Task(Path("run"), stage, partition, subtrees, weight)


def test_the_largest_is_first_and_equals_keep_their_order() -> None:
    of = [
        Task(Path("r"), "s", n, (1, 1), w)
        for n, w in (("a", 1.0), ("b", 3.0), ("c", 1.0), ("d", 2.0))
    ]
    assert [t.partition for t in largest_first(of)] == ["b", "d", "a", "c"]


def test_an_answer_is_what_json_makes_of_it() -> None:
    """So every engine gives the same, in the same process or not."""
    (task,) = tasks(Path("r"), ["p"])
    assert outcome(brief, task) == {"subtrees": [1, 1]}


@pytest.mark.parametrize(
    "partition, said", [("data", "bytes"), ("object", "not JSON serializable")]
)
def test_data_are_no_answer(partition: str, said: str) -> None:
    (task,) = tasks(Path("r"), [partition])
    found = outcome(fail, task)
    assert isinstance(found, Fault)
    assert said in found.what


def test_an_error_of_ours_arrives_with_its_class_and_words() -> None:
    (task,) = tasks(Path("r"), ["input"])
    found = pickle.loads(pickle.dumps(outcome(fail, task)))
    with pytest.raises(InputError) as raised:
        answer_of(task, found)
    assert str(raised.value) == f"line 3: the count is {SECRET}\n  what to do: repair it"
    assert raised.value.exit_code == 2


def test_another_error_arrives_with_its_traceback_even_if_it_cannot_travel() -> None:
    (task,) = tasks(Path("r"), ["bug"])
    found = pickle.loads(pickle.dumps(outcome(fail, task)))
    with pytest.raises(DasError, match="dummy bug: Peculiar: ") as raised:
        answer_of(task, found)
    assert raised.value.exit_code == 3
    assert "in fail" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    "partition, of, code",
    [("input", InputError, 2), ("infeasible", InfeasibleError, 3), ("bug", DasError, 3)],
)
def test_of_a_confidential_task_no_more_than_the_class_is_told(
    partition: str, of: type[DasError], code: int
) -> None:
    """Its words quote a count. Nothing that travels has them, nor what a person reads."""
    (task,) = tasks(Path("r"), [partition])
    found = outcome(fail, task, confidential=True)
    assert isinstance(found, Fault)
    assert SECRET.encode() not in pickle.dumps(found)
    error = found.error(task)
    assert type(error) is of
    assert error.exit_code == code
    assert SECRET not in str(error)
    assert not getattr(error, "__notes__", ())
    assert f"dummy {partition}" in str(error)
    assert found.kind in str(error)


def test_a_confidential_task_leaves_no_core_and_another_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(core_dumps, "forbid", lambda: said.append("forbidden"))
    (task,) = tasks(Path("r"), ["p"])
    outcome(brief, task)
    assert not said
    outcome(brief, task, confidential=True)
    assert said == ["forbidden"]
