"""Two estimates, such as two methods on one noise or two runs, held against each other: with the
truth where it is at hand, for ``confidential/`` only, and by their published counts alone where it
is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from das.errors import UserError
from das.evaluate import differences, errors_of_two
from das.files import rows_csv
from das.files.provenance import privacy_of
from das.files.run.ledger import measurements
from das.files.run.run_directory import RunDirectory, release_of
from das.model.closed import Closed
from das.model.error_rows import DifferenceRow, TwoErrorsRow
from das.model.kinds import kind_of
from das.model.not_private import Private, weakest
from das.release.post import Opened, open_release
from das.truth.assessment import published_of, truth_of


@dataclass(frozen=True, repr=False)
class Two(Closed):
    """Rows by universe: errors of both where there is a ``truth`` (the run that holds it; then they
    are ``written`` there), else differences. ``one_noise``: both are estimates of the same
    measurements."""

    names: tuple[str, str]
    rows: Mapping[str, Sequence[TwoErrorsRow] | Sequence[DifferenceRow]]
    one_noise: bool
    private: Private
    truth: Path | None
    written: tuple[Path, ...]


def compare_two(a: Path, b: Path, truth: Path | None = None) -> Two:
    """``a`` and ``b`` are runs or releases of the same published spine and schema, whatever they
    were measured over: what is compared are published counts. The truth is that of the run
    ``truth``, else of ``a`` or ``b`` if one of them has a confidential part.

    Raises:
        UserError: they do not count the same persons' attributes over the same tree.
    """
    one, other = (open_release(release_of(p)) for p in (a, b))
    shared = [
        u.name for u in one.after.universes if u.name in {v.name for v in other.after.universes}
    ]
    _check_same_world(one, other, shared, a, b)
    counts = {x.folder: published_of(x, shared) for x in (one, other)}
    names, private = (_name(a), _name(b)), weakest([privacy_of(a), privacy_of(b)])
    noise = [measurements(x.folder) for x in (one, other)]
    truth = truth or next((p for p in (a, b) if RunDirectory(p).has_truth()), None)
    rows: dict[str, Sequence[TwoErrorsRow] | Sequence[DifferenceRow]] = {}
    known = None
    if truth is not None:
        opened, known = truth_of(truth)
        _check_same_world(one, opened, shared, a, truth)
        private = weakest([private, privacy_of(truth)])
    for u in one.after.universes:
        if u.name not in shared:
            continue
        x, y = counts[one.folder][u.name], counts[other.folder][u.name]
        draws = [*u.draws, *other.after.universe(u.name).draws]
        queries = {
            level: [n.query for n in draws if n.level == level] for level in one.spine.levels
        }
        if known is None:
            rows[u.name] = list(differences(x, y, one.spine, u.schema, queries))
        else:
            rows[u.name] = list(errors_of_two(known[u.name], x, y, one.spine, u.schema, queries))
    written = _write(truth, names, rows, private) if truth is not None else ()
    return Two(names, rows, noise[0] == noise[1], private, truth, written)


def _name(path: Path) -> str:
    """The name of the run, for a run or its folder ``release/``."""
    path = path.resolve()
    return path.parent.name if path.name == "release" else path.name


def _write(
    truth: Path, names: tuple[str, str], rows: Mapping[str, Sequence[object]], private: Private
) -> tuple[Path, ...]:
    """One table for each universe, beside the other errors of the run that holds the truth."""
    folder = RunDirectory(truth).errors.parent
    out = []
    for universe, found in rows.items():
        stem = kind_of(universe).file("-".join(("compare", *names)))
        out.append(
            rows_csv.write_rows(folder / f"{stem}.csv", TwoErrorsRow, found, private=private)
        )
    return tuple(out)


def _check_same_world(one: Opened, other: Opened, shared: Sequence[str], a: Path, b: Path) -> None:
    schemas = [{u.name: u.schema for u in x.after.universes} for x in (one, other)]
    same = one.spine.levels == other.spine.levels
    if not (same and all(map(np.array_equal, one.spine.codes, other.spine.codes))):
        raise UserError(
            f"its places are not those of {a}",
            where=b,
            remedy="compare estimates over the same tree",
        )
    if not shared or any(schemas[0].get(u) != schemas[1].get(u) for u in shared):
        raise UserError(
            f"its attributes are not those of {a}",
            where=b,
            remedy="compare estimates of the same schema",
        )
