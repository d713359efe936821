"""What a user reads of a release: frames with words for the codes, from the release's own specification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from das.errors import InputError
from das.files.measurements import frame as nmf_frame
from das.files.microdata import reading as microdata_reading
from das.files.release import spine as spine_file
from das.files.run.run_directory import is_private, read_text
from das.model.not_private import CELL, COLUMN
from das.model.schema import Schema
from das.model.universe import PERSONS
from das.release import dictionary
from das.spec import RunSpec, parse


def read_nmf(
    path: Path | str,
    level: str | None = None,
    query: str | None = None,
    geocode: str | Sequence[str] | None = None,
    *,
    tidy: bool = True,
    schema: Schema | None = None,
    kind: str = "DPQuery",
) -> pd.DataFrame:
    """Measurements (``kind="DPQuery"``) or constraints (``"Constraint"``) below ``path``.

    ``path`` is a run, its release, one of its ``nmf`` folders (persons without more ado), or a folder in the Bureau's
    layout. ``level``, ``query`` (with or without its suffix) and ``geocode`` select; case, blanks and the order of
    factors do not matter. Tidy: one row for each answer, with ``level``, ``geocode``, ``query``, a column for each
    attribute holding the code of the group (``*`` where summed out), ``label`` (what was counted, in words), ``value``
    and ``variance`` (or ``sign``). Otherwise one row for each unit and query, lists in ``value``.

    Codes and labels are those of the release's specification. Where there is none, give the ``schema``, or a published
    one that has these attributes is taken; groups of any other are numbered. Rows of a seeded run have a column
    ``NOT PRIVATE``.
    """
    if schema is None and (release := _release(Path(path))) is not None:
        name = Path(path).resolve().name.removeprefix("nmf").removeprefix("-") or PERSONS
        schema = next((u.schema for u in _spec(release).universes if u.name == name), _spec(release).persons.schema)
    if (
        geocode is not None
        and not isinstance(geocode, str)
        and (isinstance(geocode, int) or not all(isinstance(g, str) for g in geocode))
    ):
        raise InputError(f"geocode: {geocode!r} is not text", where=path, remedy='codes are text, such as "04"')
    return _marked(nmf_frame.read_nmf(path, level, query, geocode, tidy=tidy, schema=schema, kind=kind), path)


def read_microdata(path: Path | str, *, labels: bool = False) -> pd.DataFrame:
    """The microdata as a data frame, one row per record, coded columns as categories of strings.

    ``path`` is a folder of parts, one part, a pipe-delimited microdata file, or a run or release folder, of
    which the persons are taken. With ``labels`` the coded columns hold words in place of codes; the file must then lie
    in its release, which says what they mean. Rows of a seeded run have a column ``NOT PRIVATE``.
    """
    frame = microdata_reading.read_frame(path)
    if not labels:
        return frame
    release = _release(Path(path))
    if release is None:
        raise InputError("labels are those of a release, and this is in none", where=path,
                         remedy="name the file in its release, or leave out labels=True")  # fmt: skip
    here = Path(path).resolve()
    words: dict[str, dict[str, str]] = {}
    universe = here.relative_to(release / "microdata").parts[0] if (release / "microdata") in here.parents else PERSONS
    file = f"microdata/{universe.removesuffix('.csv')}/*.parquet"
    for entry in dictionary.entries(_spec(release), spine_file.read(release / "spine.parquet"), {}):
        if (entry.kind, entry.file) == ("code", file):
            words.setdefault(entry.column, {})[entry.code] = entry.label
    return frame.assign(**{c: frame[c].cat.rename_categories(said) for c, said in words.items() if c in frame})


def _marked(frame: pd.DataFrame, path: Path | str) -> pd.DataFrame:
    release = _release(Path(path))
    return frame if release is None or is_private(release) else frame.assign(**{COLUMN: CELL})


def _release(path: Path) -> Path | None:
    """The release that ``path`` is, has, or lies in."""
    path = path.resolve()
    return next((p for p in (path / "release", path, *path.parents[:4]) if (p / "spec.toml").is_file()), None)


def _spec(release: Path) -> RunSpec:
    return parse(read_text(release / "spec.toml", "release specification"), where=str(release / "spec.toml"))
