"""The helpers by which tests of commands say that something was refused notice that it was not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli import test_cli, test_cli_account, test_cli_detailed, test_optimize

#: Exit code, standard output, standard error.
Ended = tuple[int, str, str]
REFUSED: Ended = (2, "", "das: the file x is not there\n")
#: What is no refusal that says "not there".
OTHERS: dict[str, Ended] = {
    "it worked": (0, "", REFUSED[2]),
    "it broke": (1, "", REFUSED[2]),
    "it says something else": (2, "", "das: the file x is empty\n"),
    "it says nothing": (2, "", ""),
    "it has a traceback": (2, "", f"{REFUSED[2]}Traceback (most recent call last):\n"),
}
#: And what some of them hold beside it.
PRINTED: Ended = (2, "x", REFUSED[2])
TWICE: Ended = (2, "", REFUSED[2] * 2)


def of_detailed(ended: Ended, folder: Path, leaves: bool = False) -> None:
    def das(*_: object) -> Ended:
        if leaves:
            (folder / "left").write_text("x")
        return ended

    test_cli_detailed.refused(das, here=folder, says="not there")


def helpers(folder: Path) -> Iterator[tuple[Callable[[Ended], object], list[Ended]]]:
    """Each, and what it notices beside the others."""
    yield lambda e: test_cli.refused(test_cli.SubtreeMoments(*e), "not there"), [TWICE]
    yield lambda e: test_cli_account.refused(test_cli_account.SubtreeMoments(*e), "not there"), []
    yield lambda e: test_optimize.refused(e, "not there"), [PRINTED, TWICE]
    yield lambda e: of_detailed(e, folder), [PRINTED, TWICE]


def test_each_helper_can_fail(tmp_path: Path) -> None:
    for helper, more in helpers(tmp_path):
        helper(REFUSED)
        for ended in (*OTHERS.values(), *more):
            with pytest.raises(AssertionError):
                helper(ended)


def test_what_is_left_behind_by_who_refuses_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        of_detailed(REFUSED, tmp_path, leaves=True)
