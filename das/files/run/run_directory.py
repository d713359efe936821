"""The folders of a run: ``release/`` may be published, ``confidential/`` never."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from das.errors import ReleaseError, SpecError, UserError
from das.files import atomic
from das.files.atomic import file_digest, files_below
from das.files.delimited import distinct
from das.files.release.own_bytes import refuse_pipes, refuse_special
from das.model.universe import PERSONS, kind_of

#: What is in the folder of a sweep.
SWEEP = ("runs", "sweep.html", "privacy.json")
#: And how its tables begin, of every universe.
SWEEP_TABLES = ("sweep", "summary", "paired")
#: The most bytes of a text that is read whole; /dev/zero has more.
LONGEST = 1 << 28


class RunDirectory:
    """Paths of one run. ``entered_in`` is what the folder of a new one says of its register."""

    def __init__(self, root: Path, entered_in: Mapping[str, Any] | None = None) -> None:
        self.root = Path(root)
        self._entered_in = entered_in
        self.release = self.root / "release"
        self.confidential = self.root / "confidential"
        self.manifest = self.root / "manifest.json"
        self.carried = self.root / "carried.jsonl"
        self.ledger = self.release / "ledger.jsonl"
        self.inputs = self.confidential / "inputs.json"
        self.noise_key = self.confidential / "noise.key"
        self.register_link = self.confidential / "register.json"
        self.errors = self.errors_of(PERSONS.name)
        self.report = self.confidential / "report.html"
        self.page = self.release / "report.html"
        self.linked = self.root / "linked"

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.root)!r})"

    def create(self, *, confidential: bool = True) -> None:
        """Make the folders. A folder with anything in it is refused: a run never replaces
        another."""
        self.refuse_if_taken()
        try:
            self.release.mkdir(parents=True)
            if confidential:
                self.confidential.mkdir(mode=0o700)
            if self._entered_in is not None:
                atomic.write_json(self.register_link, self._entered_in, 0o600)
        except OSError as error:
            raise _not_created(self.root, error) from None

    def refuse_if_taken(self) -> None:
        refuse_inside_release(self.root)
        if self.root.exists() and (not self.root.is_dir() or any(self.root.iterdir())):
            interrupted = self.can_go_on() and not self.manifest.exists()
            go_on = "; or go on with the interrupted run that it is, by --resume" * interrupted
            raise UserError(
                "is there already, and not empty",
                where=self.root,
                remedy=f"choose another --out; a run is never overwritten{go_on}",
            )

    def can_go_on(self) -> bool:
        """Whether a run was begun here that need not begin again: what is to be measured is written
        down, whole."""
        return self.inputs.exists()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for this process alone: two processes that measured at once would both
        spend its budget. The system releases the lock when the process ends, for any reason."""
        folder = os.open(self.root, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    "another process is at work in this folder",
                    where=self.root,
                    remedy="wait until it has ended",
                ) from None
            yield
        finally:
            os.close(folder)

    def is_locked(self) -> bool:
        """Whether a process of this machine is at work in the folder."""
        folder = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(folder)
        return False

    @contextmanager
    def whole_or_nothing(self) -> Iterator[None]:
        """A failure inside leaves no folder. For steps of a run before anything is drawn."""
        try:
            yield
        except BaseException:
            self.remove()
            raise

    def claim(self, *names: object) -> bool:
        """Whether the caller is the first to claim these names: for what must not be done twice. On
        disk before it returns."""
        path = self.confidential / "claimed" / ",".join(quote(str(n), safe="") for n in names)
        atomic.make_folder(path.parent)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        atomic.force(path.parent)
        return True

    def remove_claims(self) -> None:
        shutil.rmtree(self.confidential / "claimed", ignore_errors=True)

    def remove(self) -> None:
        """Delete the folder of a run that has drawn nothing; first, what it needs to go on."""
        self.inputs.unlink(missing_ok=True)
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def resume_state(self) -> Path:
        """What a run of counts keeps of its input besides the counts."""
        return self.confidential / "resume.json"

    @property
    def whole(self) -> Path:
        """All that was counted: one unit of each universe."""
        return self.confidential / "work" / "whole.npz"

    def truth_of(self, universe: str, part: int = 0) -> Path:
        """The true counts of the lowest units of a subtree, or of all of a run that is not cut."""
        return self.confidential / "truth" / f"{universe}.parquet" / f"part-{part:05d}.parquet"

    def sums_of(self, subtree: int) -> Path:
        """The file of the true counts of a subtree's part of the upper tree."""
        return self.confidential / "work" / "sums" / f"{subtree:05d}.npz"

    def tallies_of(self, subtree: int) -> Path:
        """What was counted of the errors of a subtree."""
        return self.confidential / "work" / "tallies" / f"{subtree:05d}.npz"

    def nmf(self, universe: str) -> Path:
        return nmf_folder(self.release, universe)

    def errors_of(self, universe: str) -> Path:
        return self.confidential / "evaluation" / f"{kind_of(universe).file('errors')}.csv"

    def digests(self) -> dict[str, str]:
        """SHA-256 of every finished file of the run, by its path; without work in progress and the
        list of uploads."""
        passing, work = {self.manifest.name, self.carried.name}, ("work/", "confidential/work/")
        return {
            name: file_digest(self.root / name)
            for name in files_below(self.root)
            if name not in passing and not name.startswith(work)
        }

    def write_manifest(self, value: Mapping[str, Any]) -> None:
        """Its owner's alone: digests of the input, and of the truth, could confirm a guess."""
        from das.files.messages import check_marked  # pyarrow, which few commands need

        check_marked(self.root, value["outputs"], value["private"])
        atomic.write_json(self.manifest, value, 0o600)

    def bytes_of_truth(self) -> int:
        """The size of all confidential files."""
        return sum(p.stat().st_size for p in self.confidential.rglob("*") if p.is_file())

    def has_truth(self) -> bool:
        """Whether it has the truth: a run that measured has; a release and an estimate have not."""
        return (self.confidential / "truth").is_dir()

    def require_truth(self) -> None:
        """Raises :class:`UserError` for a release that was estimated from another: it has no
        confidential part."""
        if self.manifest.is_file() and not self.confidential.exists():
            raise UserError(
                "there is no truth here: it has no folder confidential/",
                where=self.root,
                remedy=(
                    "name the run that measured the records; `das compare A B` holds two estimates "
                    "against each other without the truth"
                ),
            )

    def read_manifest(self) -> dict[str, Any]:
        return read_json(self.manifest)


def refuse_inside_release(path: Path) -> None:
    """Raises :class:`UserError` where ``path`` is in a folder that may be published, however deep:
    what tells of the truth must not go there."""
    for folder in (path.resolve(), *path.resolve().parents):
        if (folder / "spec.toml").exists() and (
            (folder / "ledger.jsonl").exists() or (folder / "privacy.json").exists()
        ):
            raise UserError(
                f"is in the release {folder}, which may be published",
                where=path,
                remedy="choose a place outside it",
            )


def refuse_to_resume(folder: Path) -> NoReturn:
    """Raises :class:`UserError`: nothing in ``folder`` can be resumed. If somebody has mistyped the
    folder's name, a new run must not begin instead: it would spend the budget again."""
    if not folder.exists():
        raise UserError(
            "nothing to resume: there is no such folder",
            where=folder,
            remedy="check the path; without --resume a new run begins, and spends its budget",
        )
    raise UserError(
        "nothing to resume: nothing was begun here, or it was stopped before anything was drawn",
        where=folder,
        remedy="check the path; or delete the folder, and run again without --resume",
    )


def refuse_full(folder: Path) -> None:
    """Raises :class:`UserError` where there is something in it, or it is none."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            "is there already, and not empty", where=folder, remedy="choose a new folder"
        )


def create_private(folder: Path) -> None:
    """Make a confidential folder: only its owner can read it, and it is not in a release."""
    refuse_inside_release(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise _not_created(folder, error) from None


def _not_created(folder: Path, error: OSError) -> UserError:
    what = f"cannot be created ({error.strerror})"
    return UserError(what, where=folder, remedy="choose another --out")


def check_sweep(out: Path, grid: set[str]) -> None:
    """Before a sweep is resumed: ``out`` is one, and every run that it has made is in the grid, for
    its statement counts them all. Raises :class:`UserError`."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        refuse_inside_release(out)
        refuse_to_resume(out)
    if not out.is_dir() or any(
        not (
            p.name in SWEEP
            or p.name.startswith(".")
            or (p.suffix == ".csv" and p.name.startswith(SWEEP_TABLES))
        )
        for p in out.iterdir()
    ):
        raise UserError(
            "is no sweep: there are other things in it",
            where=out,
            remedy="choose the folder of a sweep, or a new one",
        )
    made = {p.name for p in (out / "runs").iterdir()} if (out / "runs").is_dir() else set()
    if lost := sorted(made - grid):
        raise UserError(
            f"run {lost[0]!r} has been made, and is not in this grid",
            where=out / "runs",
            remedy="name all budgets, methods and repeats of before: what they cost stays counted",
        )


def nmf_folder(release: Path, universe: str) -> Path:
    """The folder of a universe's measurements: ``nmf`` for persons, as published, and a folder next
    to it for each other universe."""
    return release / kind_of(universe).file("nmf")


def entries(folder: Path) -> list[str]:
    """The names in a folder."""
    return sorted(p.name for p in folder.iterdir())


def read_text(path: Path, what: str, remedy: str = "check the path") -> str:
    """A text file that a user names. Raises :class:`SpecError` where it is missing (``remedy``) or
    not UTF-8."""
    refuse_special(Path(path))
    try:
        with Path(path).open("rb") as file:
            if len(data := file.read(LONGEST + 1)) > LONGEST:
                raise SpecError(
                    f"this {what} has more than {LONGEST:,} bytes",
                    where=path,
                    remedy="give the file itself",
                )
        return data.decode("utf-8")
    except FileNotFoundError:
        raise SpecError(f"there is no such {what}", where=path, remedy=remedy) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(
            f"this {what} cannot be read ({error})",
            where=path,
            remedy="give the file itself, a text in UTF-8",
        ) from None


def write_outside(path: Path, data: bytes, *, confidential: bool) -> None:
    """Write a result outside of any release, whole or not at all; only its owner can read a
    confidential one. Raises :class:`UserError` if it would be in a release, or cannot be
    written."""
    refuse_inside_release(path.parent)
    try:
        atomic.write_bytes(path, data, 0o600 if confidential else None)
    except OSError as error:
        raise UserError(
            f"cannot be written ({error.strerror})", where=path, remedy="choose another --out"
        ) from None


def release_of(path: Path) -> Path:
    """The folder ``release/`` of a run, or the release itself. Raises :class:`ReleaseError` where
    reading it would never end."""
    release = path / "release" if (path / "release").is_dir() else path
    refuse_pipes(release)
    return release


def release_above(path: Path) -> Path | None:
    """The release that ``path`` is, has, or is in; ``None`` if there is none."""
    path = path.resolve()
    return next(
        (p for p in (path / "release", path, *path.parents[:4]) if (p / "spec.toml").is_file()),
        None,
    )


def read_json(path: Path) -> dict[str, Any]:
    refuse_special(path)
    try:
        value = json.loads(
            path.read_text(encoding="utf-8"), object_pairs_hook=distinct, parse_constant=_refused
        )
    except (OSError, ValueError, RecursionError) as error:
        raise ReleaseError(
            f"cannot be read ({getattr(error, 'strerror', None) or error})",
            where=path,
            remedy="name the folder of a finished run",
        ) from None
    if not isinstance(value, dict):
        raise ReleaseError(
            "is not a JSON object", where=path, remedy="name the folder of a finished run"
        )
    return value


def _refused(value: str) -> float:
    raise ValueError(f"{value} is no number")


def file_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each Parquet file in a folder, by its name."""
    return {p.name: file_digest(p) for p in sorted(folder.glob("*.parquet"))}


def tree_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder and below, by its path, except for a manifest that lists
    them."""
    names = (name for name in files_below(folder) if name != "manifest.json")
    return {name: file_digest(folder / name) for name in names}


# The input of a resumed run: what exists of it must be what the run began with.


def check_inputs(directory: RunDirectory, paths: Sequence[Path]) -> None:
    """Nothing of the input is read again: what was counted lies in the folder of the run. But
    who names ``paths`` means these: every file that was read must be there, as it was.

    Raises :class:`UserError`."""
    if not paths:
        return
    known = [(s["name"], s["sha256"]) for s in read_json(directory.inputs)["inputs"]]
    names = {name for name, _ in known}
    there = {(f.name, file_digest(f)) for f in _files(paths) if f.name in names}
    if lost := [name for name, sha256 in known if (name, sha256) not in there]:
        raise UserError(
            f"the input is not the one that this run began with: {lost[0]} is not there as it was",
            where=directory.root,
            remedy="resume with the inputs that the run began with, or start another run in a"
            " new folder",
        )


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from (f for f in path.rglob("*") if f.is_file())
        elif path.is_file():
            yield path
