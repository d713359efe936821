"""``--resume`` goes on with what is there, and begins nothing: a folder's name that is mistyped
must not spend a budget.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Commands
from tests.worlds import Worlds

#: Every command that has ``--resume``.
RUNS = [
    "run pl94-2010",
    "run pl94-2010-best",
    "run dhc-2020",
    "sweep pl94-2010 --rho 1",
    "intervals",
]


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a folder of something else"])
@pytest.mark.parametrize("command", RUNS)
def test_where_nothing_was_begun_nothing_is_resumed(
    command: str, there: str, worlds: Worlds, tmp_path: Path, commands: Commands
) -> None:
    """Everything else is as it should be: without ``--resume`` the command would run."""
    out, earlier = tmp_path / "out", worlds.run("run.seed=1", data="one thousand")
    if there != "nothing":
        out.mkdir()
    if there == "a folder of something else":
        (out / "mine.txt").write_text("kept")
    name, *words = command.split()
    if name == "intervals":
        words += [earlier]
    elif "dhc" in command:
        words += [
            "--set",
            f"constraints.from={earlier}",
            "--set",
            "run.seed=1",
            "--data",
            worlds.linked(),
        ]
    else:
        words += ["--data", worlds.data("one thousand")]
    code, said, err = commands.named(name)(*words, "--out", out, "--resume")
    assert (code, said) == (2, "")
    foreign = name == "sweep" and there == "a folder of something else"
    assert ("is no sweep" if foreign else "nothing to resume") in err
    assert out.exists() is (there != "nothing")
    assert [p.name for p in out.rglob("*")] == (
        ["mine.txt"] if there == "a folder of something else" else []
    )
