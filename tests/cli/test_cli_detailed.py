"""``das check`` and ``das run`` of the Detailed DHC from a shell: what is wrong is one message and exit code 2,
and leaves nothing behind.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from das.files.run.run_directory import RunDirectory
from tests.commands import Commands, Das
from tests.detailed import runs
from tests.detailed.runs import named
from tests.files.detailed import folders


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, Path]:
    return runs.given(tmp_path / "given")


@pytest.fixture
def das(commands: Commands) -> Das:
    """``das run`` and ``das check`` of the packaged configuration, and other commands of ``das
    detailed``."""

    def call(command: str, *more: object) -> tuple[int, str, str]:
        if command in ("run", "check"):
            return commands.named(command)("detailed-dhc", *more)
        return commands.named("detailed")(command, *more)

    return call


def everything(folder: Path) -> dict[str, bytes]:
    return runs.contents(folder, ".")  # type: ignore[return-value]


def refused(das: Das, *args: object, here: Path, says: str) -> str:
    """One message on standard error, the exit code 2, and every file as it was."""
    before, folders_before = everything(here), sorted(here.rglob("*"))
    code, out, err = das(*args)
    assert (code, out) == (2, ""), err
    assert err.startswith("das: ")
    assert err.count("das: ") == 1
    assert "Traceback" not in err
    assert says in err, err
    assert everything(here) == before
    assert sorted(here.rglob("*")) == folders_before
    return err


# --- as it should be
# -------------------------------------------------------------------------------------------


def test_check_says_what_would_be_measured(das: Das, given: tuple[Path, Path]) -> None:
    code, out, err = das("check", *named(*given))
    assert (code, err) == (0, "")
    assert "3 records of persons" in out
    assert "run us: rho = 3" in out
    code, out, err = das("check", *named(*given), "--json")
    said = json.loads(out)["input"]
    assert (code, err) == (0, "")
    assert (said["product"], said["records"], said["rho"]) == ("persons", 3, {"us": "3", "pr": "2"})
    assert said["levels"][0]["stability"] >= 2
    assert said["regions"]["STATE"] == 2


def test_a_run_says_where_it_is_and_a_seeded_one_what_it_is(
    das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    code, out, err = das("run", *named(*given), "--out", tmp_path / "a", "--quiet")
    assert (code, err) == (0, "")
    assert "safe to publish" in out
    assert "NOT PRIVATE" not in out
    assert RunDirectory(tmp_path / "a").read_manifest()["product"] == "persons"
    code, out, err = das(
        "run", *named(*given), "--out", tmp_path / "b", "--quiet", "--set", "run.seed=3"
    )
    assert (code, err) == (0, "")
    assert "NOT PRIVATE" in out
    assert "safe to publish" not in out
    table = tmp_path / "b" / "release" / "tables" / "t1" / "part-00000-us.csv"
    assert all(
        line.endswith(("NOT PRIVATE", "seeded"))
        for line in table.read_text(encoding="utf-8").splitlines()
    )
    code, out, err = das(
        "run",
        *named(*given),
        "--out",
        tmp_path / "b",
        "--quiet",
        "--set",
        "run.seed=3",
        "--resume",
        "--json",
    )
    assert code == 0
    assert "nothing to resume" in err
    assert json.loads(out)["was_finished"] is True
    code, out, err = das(
        "estimate", tmp_path / "b", "--out", tmp_path / "estimates", "--csv", "--json"
    )
    assert (code, json.loads(out)["private"]) == (0, False)
    for table in (tmp_path / "estimates").rglob("*.csv"):
        lines = table.read_text(encoding="utf-8").splitlines()
        assert all(
            line.endswith('"NOT PRIVATE"' if at == 0 else '"seeded"')
            for at, line in enumerate(lines)
        )


def test_households_from_the_totals_in_their_folder(das: Das, tmp_path: Path) -> None:
    given = runs.given(tmp_path / "given", "households")
    code, out, err = das("check", *named(*given, "households"), "--json")
    assert (code, json.loads(out)["input"]["records"]) == (0, 3)
    assert (
        "the totals have no group in any region of state 02: nothing below the nation would be"
        " measured of them" in err
    )
    assert das("run", *named(*given, "households"), "--out", tmp_path / "run", "--quiet")[0] == 0


def test_check_says_how_many_records_are_left_out(
    das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    data = Path(shutil.copytree(given[1], tmp_path / "data"))
    head, first, *rest = (data / "person-records.txt").read_text(encoding="utf-8").splitlines()
    other = first.split("|")
    other[head.split("|").index("TABBLKST")] = "06"
    (data / "person-records.txt").write_text(
        "\n".join([head, first, "|".join(other), *rest]) + "\n", encoding="utf-8"
    )
    there, more = (
        json.loads(das("check", *named(given[0], d), "--json")[1])["input"]
        for d in (given[1], data)
    )
    assert more["left_out"] == there["left_out"] + 1
    assert there["records"] == more["records"]
    assert (
        f"({more['left_out']} more in states of no run are left out)"
        in das("check", *named(given[0], data))[1]
    )


# --- folders
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize("which", [0, 1])
def test_folders_that_are_not_there(
    das: Das, given: tuple[Path, Path], tmp_path: Path, command: str, which: int
) -> None:
    folder = [*given]
    folder[which] = tmp_path / "nowhere"
    out = ["--out", tmp_path / "run"] if command == "run" else []
    refused(das, command, *named(*folder), *out, here=tmp_path, says="nowhere")
    folder[which] = given[which] / ("config.json" if which == 0 else "GRF-C.txt")
    refused(das, command, *named(*folder), *out, here=tmp_path, says=".")


def test_folders_the_wrong_way_round(das: Das, given: tuple[Path, Path], tmp_path: Path) -> None:
    refused(das, "check", *named(*given[::-1]), here=tmp_path, says="config.json")


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "race-and-ethnicity-codes.txt",
        "race-characteristic-iterations.txt",
        "ethnicity-characteristic-iterations.txt",
        "race-and-ethnicity-code-to-iteration.txt",
        "GRF-C.txt",
        "person-records.txt",
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_files_that_are_missing_empty_cut_or_in_another_encoding(
    das: Das, given: tuple[Path, Path], tmp_path: Path, command: str, name: str
) -> None:
    path = next(f / name for f in given if (f / name).exists())
    whole = path.read_bytes()
    args = (command, *named(*given), *(["--out", tmp_path / "run"] if command == "run" else []))
    contents: list[bytes] = [
        b"",
        whole[: whole.rindex(b"|") - 1] if b"|" in whole else whole[:-9],
        b"\xff" + whole,
        b"\x00" * 99,
        whole.replace(b"|", b",").replace(b'":', b'"'),
        whole.splitlines()[0][: 9999 if name.endswith(".txt") else 40],
    ]
    for content in contents:
        path.write_bytes(content)
        refused(das, *args, here=tmp_path, says=name)
    path.unlink()
    refused(das, *args, here=tmp_path, says=name)
    path.mkdir()
    refused(das, *args, here=tmp_path, says=name)


def test_all_faults_are_told_at_once_and_none_of_them_with_the_truth_of_others(
    das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    text = folders.PEOPLE.replace("028|1|", "200|1|").replace("115|2|", "115|3|")
    folders.written(given[1], {"person-records.txt": text})
    err = refused(das, "check", *named(*given), here=tmp_path, says="2 faults")
    assert "QAGE" in err
    assert "QSEX" in err


def test_records_of_no_run(das: Das, given: tuple[Path, Path], tmp_path: Path) -> None:
    """Nobody lives in Puerto Rico, or nobody anywhere."""
    head, *lines = folders.PEOPLE.splitlines()
    for kept in ([x for x in lines if "|72|" not in x], [x for x in lines if "|06|" in x], []):
        folders.written(given[1], {"person-records.txt": "\n".join([head, *kept]) + "\n"})
        for command in (
            ["check", *named(*given)],
            ["run", *named(*given), "--out", tmp_path / "run"],
        ):
            refused(das, *command, here=tmp_path, says="person-records.txt: has no person of")


# --- products and totals
# -----------------------------------------------------------------------------------------


def test_folders_of_the_other_product(das: Das, given: tuple[Path, Path], tmp_path: Path) -> None:
    refused(
        das,
        "run",
        *named(*given, "households"),
        "--out",
        tmp_path / "run",
        here=tmp_path,
        says="config.json",
    )
    homes = runs.given(tmp_path / "h", "households")
    refused(
        das, "run", *named(*homes), "--out", tmp_path / "run", here=tmp_path, says="config.json"
    )
    refused(
        das,
        "run",
        *named(homes[0], given[1], "households"),
        "--out",
        tmp_path / "run",
        here=tmp_path,
        says="household-records.txt",
    )
    refused(
        das,
        "run",
        *named(given[0], homes[1]),
        "--out",
        tmp_path / "run",
        here=tmp_path,
        says="person-records.txt",
    )


def test_totals_that_are_not_there_or_of_another_place(das: Das, tmp_path: Path) -> None:
    given = runs.given(tmp_path / "given", "households")
    args = ("run", *named(*given, "households"), "--out", tmp_path / "run")
    refused(
        das, *args, "--set", f"data.totals={tmp_path / 'nowhere'}", here=tmp_path, says="nowhere"
    )
    other = tmp_path / "other.txt"
    other.write_text(folders.TOTALS.splitlines()[0] + "\n48|STATE|2001|9\n", encoding="utf-8")
    refused(
        das,
        *args,
        "--set",
        f"data.totals={other}",
        here=tmp_path,
        says="has no group in any region of the geography",
    )
    other.write_text("", encoding="utf-8")
    refused(das, *args, "--set", f"data.totals={other}", here=tmp_path, says="other.txt")
    (tmp_path / "empty").mkdir()
    refused(
        das,
        *args,
        "--set",
        f"data.totals={tmp_path / 'empty'}",
        here=tmp_path,
        says="has no groups",
    )
    (given[1] / "pop-group-totals.txt").unlink()
    refused(das, *args, here=tmp_path, says="pop-group-totals.txt")


def test_totals_are_of_households_alone(das: Das, given: tuple[Path, Path], tmp_path: Path) -> None:
    totals = folders.written(tmp_path, {"totals.txt": folders.TOTALS}) / "totals.txt"
    refused(
        das,
        "run",
        *named(*given),
        "--out",
        tmp_path / "run",
        "--set",
        f"data.totals={totals}",
        here=tmp_path,
        says="totals are given",
    )


def test_a_table_of_a_seeded_run_does_not_feed_another(
    das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    """Its column says that it is not private."""
    assert (
        das("run", *named(*given), "--out", tmp_path / "p", "--set", "run.seed=3", "--quiet")[0]
        == 0
    )
    homes = runs.given(tmp_path / "h", "households")
    refused(
        das,
        "run",
        *named(*homes, "households"),
        "--out",
        tmp_path / "run",
        "--set",
        f"data.totals={tmp_path / 'p' / 'release' / 'tables' / 't1'}",
        here=tmp_path,
        says="NOT PRIVATE",
    )


# --- where to
# --------------------------------------------------------------------------------------------------------


def test_a_run_is_not_put_where_something_is(
    das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    for inside in (given[1], given[1] / "run", given[1] / "a" / "b", given[0] / "run"):
        refused(das, "run", *named(*given), "--out", inside, here=tmp_path, says=inside.name)
    link = tmp_path / "link"
    link.symlink_to(given[1])
    refused(das, "run", *named(*given), "--out", link / "run", here=tmp_path, says="which is read")
    full = tmp_path / "full"
    folders.written(full, {"mine.txt": "x"})
    refused(das, "run", *named(*given), "--out", full, here=tmp_path, says="is there already")
    refused(das, "run", *named(*given), "--out", full / "mine.txt", here=tmp_path, says="mine.txt")
    assert das("run", *named(*given), "--out", tmp_path / "run", "--quiet")[0] == 0
    for inside in ("release", "release/tables", "release/new", "."):
        refused(
            das,
            "run",
            *named(*given),
            "--out",
            tmp_path / "run" / inside,
            here=tmp_path,
            says="run",
        )


@pytest.mark.parametrize("delta", ["0", "1", "2", "-1e-10", "x", "", "nan", "inf", "1/0"])
def test_a_delta_that_is_none(
    das: Das, given: tuple[Path, Path], tmp_path: Path, delta: str
) -> None:
    refused(
        das,
        "run",
        *named(*given),
        "--out",
        tmp_path / "run",
        "--set",
        f"detailed.delta={delta}",
        here=tmp_path,
        says="detailed.delta",
    )


# --- resume
# --------------------------------------------------------------------------------------------------------


def test_nothing_to_resume(das: Das, given: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    folders.written(tmp_path / "full", {"mine.txt": "x"})
    for name in ("nowhere", "empty", "full"):
        refused(
            das,
            "run",
            *named(*given),
            "--out",
            tmp_path / name,
            "--resume",
            here=tmp_path,
            says="nothing to resume",
        )
    refused(das, "run", *named(*given), "--resume", here=tmp_path, says="--resume with --out")
    refused(
        das,
        "run",
        *named(*given),
        "--out",
        tmp_path / "run",
        "--accept-spent",
        here=tmp_path,
        says="--accept-spent goes with --resume",
    )


def test_resumed_with_other_folders(das: Das, given: tuple[Path, Path], tmp_path: Path) -> None:
    assert das("run", *named(*given), "--out", tmp_path / "run", "--quiet")[0] == 0
    other = Path(shutil.copytree(given[1], tmp_path / "other"))
    text = folders.PEOPLE.replace("028|1|", "027|1|")
    folders.written(other, {"person-records.txt": text})
    refused(
        das,
        "run",
        *named(given[0], other),
        "--out",
        tmp_path / "run",
        "--resume",
        here=tmp_path,
        says="person-records.txt is not the one",
    )
    parameters = runs.copied(
        given[0], tmp_path / "parameters", lambda said: said.update(max_race_codes=7)
    )
    refused(
        das,
        "run",
        *named(parameters, given[1]),
        "--out",
        tmp_path / "run",
        "--resume",
        here=tmp_path,
        says="config.json is not the one",
    )
    refused(
        das,
        "run",
        *named(*given),
        "--out",
        tmp_path / "run",
        "--resume",
        "--set",
        "run.seed=1",
        here=tmp_path,
        says="seed",
    )
    shutil.rmtree(other)
    refused(
        das,
        "run",
        *named(given[0], other),
        "--out",
        tmp_path / "run",
        "--resume",
        here=tmp_path,
        says="other",
    )


def test_a_folder_of_another_kind_of_run(
    das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    folders.written(
        run, {"confidential/inputs.json": "{}", "release/spec.toml": "[run]\nname = 'x'\n"}
    )
    refused(das, "run", *named(*given), "--out", run, "--resume", here=tmp_path, says="run")


def test_a_release_of_groups_is_told_from_others(
    commands: Commands, das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    """And its parameters are found in it."""
    run = tmp_path / "run"
    assert das("run", *named(*given), "--out", run, "--quiet")[0] == 0
    assert commands.named("nmf")("summary", run)[0] == 0
    for command in (("tables", run, "--level", "State"), ("compare", run)):
        code, _, err = commands.named(command[0])(*command[1:])  # type: ignore[arg-type]
        assert code == 2
        assert "the Detailed DHC" in err
    again = commands.named("estimate")("--from", run / "release", "--out", tmp_path / "again")
    assert again[0] == 0
    tables = [
        {p.name: p.read_bytes() for p in (folder / "release" / "tables").rglob("*.csv")}
        for folder in (run, tmp_path / "again")
    ]
    assert tables[0] == tables[1]
    assert tables[0]
    for command in ("plan", "risk"):
        assert das(command, run)[1] == das(command, given[0])[1]
    out = commands.named("account")("verify", run)[1]
    assert "das estimate" not in out


# --- what a hostile hand did
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "budget"),
    [("zcdp", "1e-12"), ("puredp", "0.00001"), ("zcdp", "1e-299"), ("zcdp", "1e300")],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_budget_that_means_nothing_is_refused_before_anything_is_drawn(
    das: Das, given: tuple[Path, Path], tmp_path: Path, definition: str, budget: str, command: str
) -> None:
    path = given[0] / "config.json"
    said = json.loads(path.read_text()) | {"privacy_defn": definition}
    key = next(
        k for k, v in said.items() if k.startswith("privacy_budget_") and "fraction" not in k and v
    )
    path.write_text(json.dumps(said | {key: "?"}).replace('"?"', budget))
    refused(
        das,
        command,
        *named(*given),
        *(["--out", tmp_path / "run"] if command == "run" else []),
        here=tmp_path,
        says="config.json",
    )


def test_records_are_not_counted_twice(das: Das, given: tuple[Path, Path], tmp_path: Path) -> None:
    first = given[1] / "person-records.txt"
    (given[1] / "person-records_old.txt").write_bytes(first.read_bytes())
    refused(das, "check", *named(*given), here=tmp_path, says="twice")
    first.rename(given[1] / "person-records-a.txt")
    refused(das, "check", *named(*given), here=tmp_path, says="person-records_old.txt")
    (given[1] / "person-records_old.txt").rename(given[1] / "person-records-b.txt")
    refused(das, "check", *named(*given), here=tmp_path, says="counted twice")
    (given[1] / "person-records-b.txt").unlink()
    (given[1] / "person-records-b.txt").symlink_to(given[1] / "person-records-a.txt")
    refused(das, "check", *named(*given), here=tmp_path, says="counted twice")


def test_geography_may_be_compressed_and_is_there_once(
    das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    plain = given[1] / "GRF-C.txt"
    packed = given[1] / "GRF-C.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    refused(das, "check", *named(*given), here=tmp_path, says="GRF-C.txt twice")
    plain.unlink()
    code, out, err = das("check", *named(*given))
    assert (code, err) == (0, "")
    assert "3 records" in out


@pytest.mark.parametrize("name", ["GRF-C.txt", "config.json", "race-and-ethnicity-codes.txt"])
def test_a_pipe_is_no_file(das: Das, given: tuple[Path, Path], name: str) -> None:
    path = next(f / name for f in given if (f / name).exists())
    path.unlink()
    os.mkfifo(path)
    code, _, err = das("check", *named(*given))
    assert code == 2
    assert name in err
    assert "no file" in err


@pytest.mark.parametrize(
    "options",
    [
        ("--coverage", "nan"),
        ("--coverage", "1e-300"),
        ("--margin", "detailed=" + "9" * 400),
        ("--margin", "detailed=" + "9" * 5000),
        ("--population", "9" * 400),
    ],
)
def test_options_that_no_plan_has(
    das: Das, given: tuple[Path, Path], options: tuple[str, str]
) -> None:
    code, _, err = das("plan", given[0], *options)
    assert code == 2
    assert options[0] in err
    assert "Traceback" not in err


def test_estimates_replace_estimates_alone(
    das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    run, out = tmp_path / "run", tmp_path / "estimates"
    assert das("run", *named(*given), "--out", run, "--quiet")[0] == 0
    assert das("estimate", run, "--out", out, "--csv")[0] == 0
    (tmp_path / "link").symlink_to(out)
    assert das("estimate", run, "--out", tmp_path / "link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert not list(out.rglob("*.csv"))
    (out / "thesis.txt").write_text("years of work")
    refused(das, "estimate", run, "--out", out, here=tmp_path, says="thesis.txt")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "estimates.json").write_text("{}")
    (tmp_path / "other" / "notes.txt").write_text("x")
    refused(das, "estimate", run, "--out", tmp_path / "other", here=tmp_path, says="notes.txt")
    for inside in (run / "confidential" / "e", run):
        refused(das, "estimate", run, "--out", inside, here=tmp_path, says="next to it")
    before = everything(tmp_path)
    code, _, err = das("estimate", run, "--out", run / "release" / "estimates")
    assert (code, "which may be published" in err, everything(tmp_path) == before) == (
        2,
        True,
        True,
    )
    refused(
        das, "estimate", run, "--out", out / "thesis.txt" / "x", here=tmp_path, says="no folder"
    )


def test_a_name_that_is_no_text(
    commands: Commands, das: Das, given: tuple[Path, Path], tmp_path: Path
) -> None:
    code, _, err = das("run", *named(*given), "--out", os.fsdecode(bytes(tmp_path) + b"/o\xff"))
    assert code == 2
    assert "UTF-8" in err
    code, _, err = commands.named("data")(
        "simulate", "detailed", "--out", tmp_path / "x", "--seed", 1, "--share", "nan"
    )
    assert code == 2
    assert "--share" in err
