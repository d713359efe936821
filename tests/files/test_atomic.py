"""Whatever is written is there whole or not at all, whenever the process is killed, and is forced
to disk before its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from das.files import atomic, rows_csv
from das.files.measurements import nmf
from das.files.microdata import writing as microdata
from das.files.release import areas, estimates, statement, tables
from das.files.release import spine as spine_file
from das.files.run.run_directory import RunDirectory
from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.constraint import Constraint
from das.model.histogram import Histogram
from das.model.measurement import Measurement
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.model.universe import PERSONS, Universe
from das.tables import published
from das.truth import files
from tests.stopped import Killed

SPINE = Spine(
    ("US", "State"), (np.array(["0"]), np.array(["01", "02"])), (np.zeros(1, int), np.zeros(2, int))
)
TOTAL = PL94.query("total")


def histogram(n: int) -> Histogram:
    return Histogram.from_triplets(
        2, PL94.cells, np.array([0, 1]), np.array([3, 5]), np.array([n, 2])
    )


def measured(n: int) -> Iterator[Measurement]:
    for start in (0, 1):
        yield Measurement("State", "total", start, np.array([[n + start]]), np.array([2.0]))


def constraint(n: int) -> Constraint:
    return Constraint("total", "State", "total", "=", np.array([[n], [2]]), "exactly")


def kinds(n: int) -> Areas:
    return Areas(f"Town{n}", np.array(["1"]), np.array([0, 0]), np.array([0, 1]), np.array(["x"]))


def adopt(folder: Path, n: int) -> None:
    release = folder.parent / f"other-{n}"
    if not release.exists():
        nmf.write(release / "nmf", "State", PL94, SPINE, measured(n))
        spine_file.write(release / "spine.parquet", SPINE)
    statement.adopt(release, folder)


def estimate(folder: Path, n: int) -> None:
    values = np.array([[n], [2.0]])
    estimates.write(
        folder / "e", "State", PL94, SPINE, [(TOTAL, values, values), (TOTAL, values + 1, values)]
    )


#: What writes the ``n``-th version of something into a folder.
WRITERS: dict[str, Callable[[Path, int], object]] = {
    "text": lambda f, n: atomic.write_text(f / "deep" / "a.txt", f"text {n}\n" * 999),
    "json": lambda f, n: atomic.write_json(f / "a.json", {"n": n}),
    "private": lambda f, n: RunDirectory(f).write_manifest(
        {"n": n, "outputs": {}, "private": True}
    ),
    "rows": lambda f, n: rows_csv.write(f / "a.csv", ["n"], [[n], [n + 1]]),
    "spine": lambda f, n: spine_file.write(
        f / "s.parquet", Spine(("US",), (np.array([str(n)]),), (np.zeros(1, int),))
    ),
    "areas": lambda f, n: areas.write(f / "a.parquet", [kinds(n)], SPINE),
    "truth": lambda f, n: files.write(f / "t" / "t.parquet", Confidential(histogram(n))),
    "tables": lambda f, n: tables.write(
        f / "tables", "State", SPINE.codes[1], published(PL94)[:2], histogram(n)
    ),
    "estimates": estimate,
    "measurements": lambda f, n: nmf.write(f / "nmf", "State", PL94, SPINE, measured(n)),
    "constraints": lambda f, n: nmf.write_constraints(f / "nmf", PL94, SPINE, [constraint(n)]),
    "microdata": lambda f, n: microdata.write(
        f / "m" / "persons", histogram(n), SPINE.codes[1], Universe(PERSONS, PL94), csv=True
    ),
    "adoption": adopt,
}
#: Folders that appear as one.
WHOLE = {"adoption": "nmf", "microdata": "m/persons"}


def modes(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): f"{p.stat().st_mode & 0o777:o}" for p in folder.rglob("*")}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_below_confidential_is_its_owners_alone(
    name: str, memory: None, tmp_path: Path
) -> None:
    """Whatever the umask; below ``release`` nobody is kept out by us, also where the run lies in a
    folder of that name.
    """
    before = os.umask(0)
    try:
        for folder, allowed in (
            ("run/confidential/in", {"600", "700"}),
            ("confidential/run/release/in", {"644", "666", "755", "777"}),
        ):
            WRITERS[name](tmp_path / folder, 1)
            found = modes(tmp_path / folder)
            found.pop("manifest.json", None)  # a run's own: nobody else's wherever it lies
            found = {
                k: v for k, v in found.items() if not k.startswith("t/") or "release" not in folder
            }  # true counts
            assert set(found.values()) <= allowed, found
    finally:
        os.umask(before)


def killed(step: int, work: Callable[[], object]) -> bool:
    """Whether ``work`` comes to a ``step``-th call that changes what the disk holds. That, and all
    that handlers call after it, changes nothing: as if the process were gone.
    """
    calls = iter(range(1, step))

    def trapped(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            if next(calls, None) is None:
                raise Killed
            return real(*args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "replace", "rename", "mkdir", "rmdir", "unlink", "link"):
            patch.setattr(os, name, trapped(getattr(os, name)))
        try:
            work()
        except Killed:
            return True
    return False


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def content(folder: Path) -> dict[str, bytes]:
    """All files but drafts, by their paths."""
    found = (p for p in folder.rglob("*") if p.is_file())
    paths = [(p, p.relative_to(folder)) for p in found]
    return {
        str(at): p.read_bytes() for p, at in paths if not any(x.startswith(".") for x in at.parts)
    }


def inside(tree: dict[str, bytes], folder: str) -> dict[str, bytes]:
    return {k: v for k, v in tree.items() if k.startswith(f"{folder}/")}


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("kind", "before"),
    [
        *((k, True) for k in WRITERS),
        *((k, False) for k in ("text", "measurements", "constraints", *WHOLE)),
    ],
)
def test_a_kill_at_any_step_leaves_the_old_or_the_new(
    kind: str, before: bool, tmp_path: Path
) -> None:
    write = WRITERS[kind]
    for n in (1, 2):
        write(tmp_path / str(n), n)
    old, new = (content(tmp_path / str(n)) for n in (1, 2))
    assert old != new
    for step in count(1):
        folder = tmp_path / f"at-{step}"
        if before:
            write(folder, 1)
        if not killed(step, lambda at=folder: write(at, 2)):  # type: ignore[misc]
            break
        found = content(folder)
        for name, data in found.items():
            assert data in ((old if before else new).get(name), new.get(name)), (step, name)
        if kind in WHOLE:
            assert inside(found, WHOLE[kind]) in (
                {},
                inside(old, WHOLE[kind]),
                inside(new, WHOLE[kind]),
            ), step
        elif before:
            assert set(found) >= {*old} & {*new}, step
        write(folder, 2)  # again, over whatever is left
        assert content(folder) == new | {
            k: v for k, v in content(folder).items() if k not in new and k in old
        }
        assert not list(folder.rglob(".*")), step
    assert step > 4
    assert content(folder) == new or before


@pytest.mark.parametrize("kind", WRITERS)
def test_an_exception_leaves_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WRITERS[kind](tmp_path / "a", 1)
    there = content(tmp_path / "a")

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(atomic, "make_folder", lambda path: path.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(atomic, "force", full)
    with pytest.raises(OSError, match="No space left"):
        WRITERS[kind](tmp_path / "a", 1)
    assert content(tmp_path / "a") == there
    assert not list((tmp_path / "a").rglob(".*"))


def test_what_is_renamed_is_on_disk_and_so_is_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def told(name: str, of: Callable[..., object], to_path: Callable[..., str]) -> None:
        def call(*args: object, **options: object) -> object:
            steps.append(f"{name} {to_path(args[0])}")
            return of(*args, **options)

        monkeypatch.setattr(os, name, call)

    def relative(x: object) -> str:
        return os.path.relpath(os.fspath(x), tmp_path)  # type: ignore[call-overload]

    told("fsync", os.fsync, lambda descriptor: relative(os.readlink(f"/proc/self/fd/{descriptor}")))
    told("replace", os.replace, relative)
    told("rename", os.rename, relative)
    atomic.write_text(tmp_path / "a" / "b.txt", "x")
    assert steps == ["fsync .", "fsync a/.b.txt.tmp", "replace a/.b.txt.tmp", "fsync a"]
    steps.clear()
    with atomic.folder(tmp_path / "c") as draft:
        (draft / "in").mkdir()
        for name in ("in/1", "2"):
            (draft / name).write_text("x")
    assert steps == [
        "fsync .c.tmp/2",
        "fsync .c.tmp/in/1",
        "fsync .c.tmp/in",
        "fsync .c.tmp",
        "rename .c.tmp",
        "fsync .",
    ]


def test_several_files_are_on_disk_before_one_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what their folders are called, once for each folder that has a new one in it."""
    steps: list[str] = []
    force, replace = atomic.force, Path.replace

    def forced(path: Path) -> None:
        steps.append(f"force {path.relative_to(tmp_path)}")
        force(path)

    def replaced(path: Path, to: Path) -> Path:
        steps.append(f"name {to.relative_to(tmp_path)}")
        return replace(path, to)

    monkeypatch.setattr(atomic, "force", forced)
    monkeypatch.setattr(Path, "replace", replaced)
    atomic.write_all({tmp_path / "x" / name: b"1" for name in ("a/1", "b/2", "b/3")})
    assert steps == [
        *("force .", "force x"),
        *(f"force x/{draft}" for draft in ("a/.1.tmp", "b/.2.tmp", "b/.3.tmp")),
        *("name x/a/1", "name x/b/2", "name x/b/3"),
        *("force x/a", "force x/b"),
    ]
    assert content(tmp_path) == dict.fromkeys(("x/a/1", "x/b/2", "x/b/3"), b"1")


@pytest.mark.parametrize("kind", ["files", "folder"])
def test_each_of_many_files_goes_to_disk_once_before_one_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """And what goes wrong then leaves nothing."""
    steps: list[str] = []
    force, rename = atomic.force, os.replace if kind == "files" else os.rename

    def forced(path: Path) -> None:
        force(path)
        steps.append(path.name.strip(".").removesuffix(".tmp"))

    def named(*args: object, **options: object) -> object:
        steps.append("")
        return rename(*args, **options)  # type: ignore[arg-type]

    def write() -> None:
        if kind == "files":
            atomic.write_all({tmp_path / "x" / name: b"1" for name in "abcde"})
            return
        with atomic.folder(tmp_path / "x") as draft:
            for name in "abcde":
                (draft / name).write_bytes(b"1")

    monkeypatch.setattr(atomic, "AT_ONCE", 4)
    monkeypatch.setattr(atomic, "force", forced)
    monkeypatch.setattr(os, rename.__name__, named)
    write()
    assert sorted(name for name in steps if name in set("abcde")) == list("abcde")
    assert set("abcde") <= set(steps[: steps.index("")])
    before = content(tmp_path)

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(atomic, "force", lambda path: full(path) if "c" in path.name else None)
    with pytest.raises(OSError, match="No space left"):
        write()
    assert content(tmp_path) == before


def test_what_is_confidential_is_nobody_else_s_from_the_first_byte(tmp_path: Path) -> None:
    with atomic.file(tmp_path / "a", 0o600) as draft:
        assert draft.stat().st_mode & 0o777 == 0o600
        draft.write_text("secret")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
