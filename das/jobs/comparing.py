"""Two estimates compared, such as two methods on one noise or two runs. Where the truth is
available, both are compared with it, for ``confidential/`` only; otherwise only their published
counts are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from das.accounting.document import NAME, Statement
from das.accounting.stated_losses import stated_losses
from das.errors import UserError
from das.evaluate.dhc import SMALL
from das.evaluate.two import differences, errors_of_two
from das.files import rows_csv
from das.files.provenance import privacy_of
from das.files.release import statement
from das.files.run.ledger import measurements
from das.files.run.run_directory import RunDirectory, release_of
from das.model.closed import Closed
from das.model.error_rows import DifferenceRow, TwoErrorsRow
from das.model.kinds import kind_of
from das.model.not_private import Private, weakest
from das.model.universe import Universe
from das.release.replicate_source import ReleaseSource
from das.release.sources import source_of
from das.truth.assessment import true_counts


@dataclass(frozen=True)
class TwoLosses:
    """Epsilon of both at one delta, of the same relation of neighbors and the same change."""

    between: str
    what: str
    a: float
    b: float


@dataclass(frozen=True, repr=False)
class Two(Closed):
    """Rows by universe: errors of both where there is a ``truth`` (the run that holds it; then they
    are ``written`` there), else differences. ``one_noise``: both are estimates of the same
    measurements. ``losses``: what both privacy statements say, where das drew the noise."""

    names: tuple[str, str]
    rows: Mapping[str, Sequence[TwoErrorsRow] | Sequence[DifferenceRow]]
    one_noise: bool
    private: Private
    truth: Path | None
    written: tuple[Path, ...]
    losses: tuple[TwoLosses, ...] = ()


def compare_two(a: Path, b: Path, truth: Path | None = None) -> Two:
    """Compare the published counts of ``a`` and ``b``, runs or releases with the same published
    spine and schema. Their measured spines may differ. The truth is that of the run ``truth``, else
    of ``a`` or ``b`` if one of them has a confidential part.

    Raises:
        UserError: they do not count the same persons' attributes over the same tree.
    """
    one, other = (source_of(release_of(p), "compare") for p in (a, b))
    theirs = {v.name: v for v in other.universes}
    shared = [u for u in one.universes if u.name in theirs]
    _check_same_world(one, other, a, b)
    names, private = (_name(a), _name(b)), weakest([privacy_of(a), privacy_of(b)])
    noise = [measurements(x.folder) for x in (one, other)]
    truth = truth or next((p for p in (a, b) if RunDirectory(p).has_truth()), None)
    known = None
    if truth is not None:
        _check_same_world(one, source_of(RunDirectory(truth).release, "compare"), a, truth)
        known = true_counts(truth, [u.name for u in shared], one.spine)
        private = weakest([private, privacy_of(truth)])
    rows: dict[str, Sequence[TwoErrorsRow] | Sequence[DifferenceRow]] = {}
    for u in shared:
        x, y = (s.counts(v).upward(s.spine) for s, v in ((one, u), (other, theirs[u.name])))
        asked = _queries(one, other, u, theirs[u.name])
        if known is None:
            rows[u.name] = list(differences(x, y, one.spine, u.schema, asked))
        else:
            rows[u.name] = list(errors_of_two(known[u.name], x, y, one.spine, u.schema, asked))
    written = _write(truth, names, rows, private) if truth is not None else ()
    losses = _losses(one.folder, other.folder)
    return Two(names, rows, noise[0] == noise[1], private, truth, written, losses)


def _losses(one: Path, other: Path) -> tuple[TwoLosses, ...]:
    """What both statements state at the same delta; nothing where das drew the noise of one only."""
    if not all((folder / NAME).exists() for folder in (one, other)):
        return ()
    a, b = statement.read(one), statement.read(other)
    if not isinstance(a, Statement) or not isinstance(b, Statement):
        return ()
    (delta, first), (same, second) = stated_losses(a), stated_losses(b)
    if delta != same:
        return ()
    return tuple(TwoLosses(*key, first[key], second[key]) for key in first if key in second)


def _queries(
    one: ReleaseSource, other: ReleaseSource, u: Universe, same: Universe
) -> dict[str, list[str]]:
    """By level what was measured of a universe in one or the other; of measurements on request the
    queries whose answers can be held.
    """
    most = SMALL if one.measured is None else u.schema.cells
    first, second = one.queries(u), other.queries(same)
    return {
        level: [q for q in (*first[level], *second[level]) if u.schema.query(q).answers <= most]
        for level in one.spine.levels
    }


def _name(path: Path) -> str:
    """The name of the run, for a run or its folder ``release/``."""
    path = path.resolve()
    return path.parent.name if path.name == "release" else path.name


def _write(
    truth: Path, names: tuple[str, str], rows: Mapping[str, Sequence[object]], private: Private
) -> tuple[Path, ...]:
    """One table for each universe, in the folder with the other errors of the run that holds the
    truth."""
    folder = RunDirectory(truth).errors.parent
    out = []
    for universe, found in rows.items():
        stem = kind_of(universe).file("-".join(("compare", *names)))
        out.append(
            rows_csv.write_rows(folder / f"{stem}.csv", TwoErrorsRow, found, private=private)
        )
    return tuple(out)


def _check_same_world(one: ReleaseSource, other: ReleaseSource, a: Path, b: Path) -> None:
    """They count the same attributes, of a universe that both have, over the same tree."""
    same = one.spine.levels == other.spine.levels
    if not (same and all(map(np.array_equal, one.spine.codes, other.spine.codes))):
        raise UserError(
            f"its places are not those of {a}",
            where=b,
            remedy="compare estimates over the same tree",
        )
    schemas, theirs = ({u.name: u.schema for u in x.universes} for x in (one, other))
    shared = schemas.keys() & theirs.keys()
    if not shared or any(schemas[u] != theirs[u] for u in shared):
        raise UserError(
            f"its attributes are not those of {a}",
            where=b,
            remedy="compare estimates of the same schema",
        )
