"""A DHC run compared with the truth: everything under ``confidential/evaluation/``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from das.evaluate.dhc import PublishedCounts, TrueCounts, figures, query_errors
from das.evaluate.dhc_impossible import dhc_impossible
from das.files import rows_csv
from das.files.run import errors_csv
from das.files.run.run_directory import RunDirectory
from das.model.closed import Closed, ClosedRows
from das.model.dhc.figures import SCHEMAS
from das.model.error_rows import ErrorRow, FigureRow, ImpossibleRow
from das.model.measured_spine import MeasuredSpine
from das.model.plan import Plan
from das.truth.assessment import over_tree

#: In ``confidential/evaluation/``.
FIGURES, IMPOSSIBLE = "figures.csv", "impossible.csv"


@dataclass(frozen=True, repr=False)
class DhcErrors(Closed):
    """What the comparison found: figures, impossible results, and errors of measured queries by
    universe.
    """

    figures: Sequence[FigureRow]
    odd: Sequence[ImpossibleRow]
    queries: Mapping[str, Sequence[ErrorRow]]


def dhc_errors(
    truth: TrueCounts,
    published: PublishedCounts,
    levels: Sequence[str],
    measured: Mapping[str, tuple[MeasuredSpine, Plan]],
) -> DhcErrors:
    """``truth`` and ``published`` are by universe (``persons``, ``units``, ``households``) and
    level. ``levels`` are the levels of the published spine, root first. ``measured`` has, by
    universe, the measured tree and the plan."""
    queries = {}
    for name, (tree, plan) in measured.items():
        true, out = over_tree(tree, truth[name], published[name])
        queries[name] = ClosedRows(query_errors(true, out, tree, SCHEMAS[name], plan))
    return DhcErrors(
        ClosedRows(figures(truth, published, levels)),
        ClosedRows(dhc_impossible(truth, published, levels)),
        queries,
    )


def write(errors: DhcErrors, directory: RunDirectory, private: bool) -> None:
    """Write ``figures.csv``, ``impossible.csv``, and ``errors.csv`` (``errors-<name>.csv`` for
    other universes).
    """
    folder = directory.errors.parent
    rows_csv.write_rows(folder / FIGURES, FigureRow, errors.figures, private=private)
    rows_csv.write_rows(folder / IMPOSSIBLE, ImpossibleRow, errors.odd, private=private)
    for name, rows in errors.queries.items():
        errors_csv.write(directory.errors_of(name), rows, private=private)
