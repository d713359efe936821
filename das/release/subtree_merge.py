"""What the subtrees of a release have made, put together: whole files, sums, certificates.

Nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from das import tables
from das.engine import Progress
from das.engine.tasks import Answer
from das.files import messages
from das.files.messages import parted
from das.files.microdata import writing as microdata
from das.files.release import table_columns
from das.files.release.table_columns import LineColumns
from das.model.histogram import Histogram
from das.model.release import Release
from das.model.solution import Certificates
from das.model.universe import Universe
from das.release.opened import OpenedRelease, open_part
from das.release.residuals import ResidualSums, merged, residual_sums
from das.release.work_files import WorkFiles


def _write_lines(
    work: WorkFiles,
    opened: OpenedRelease,
    u: Universe,
    histograms: Mapping[str, Histogram],
    part: int,
) -> None:
    """The lines of a part in its tables."""
    every = tables.of(u, opened.assigned(u.name))
    for level in opened.levels:
        columns = LineColumns.read(work.columns(), level)
        for table in every:
            table_columns.write_lines(
                work.rows(table.name, level, part),
                table,
                opened.spine,
                level,
                columns,
                histograms[level],
                opened.after.private,
            )


def sums(work: WorkFiles, opened: OpenedRelease, u: Universe) -> dict[str, Histogram]:
    """Published counts of the upper tree's levels: the sums of those of the subtrees."""
    level, subtrees = opened.cut.level, range(1, len(opened.cut) + 1)
    parts = [Histogram.of_arrays(parted(messages.read(work.sums(i)), u.name)) for i in subtrees]
    return Histogram.concatenate(parts).upward(opened.spine.truncated(level))


def certificates(
    answers: Sequence[Answer], upper_tree: Mapping[str, Release]
) -> dict[str, dict[str, Certificates]]:
    """The worst of each level, by universe."""
    out = {name: dict(release.certificates) for name, release in upper_tree.items()}
    for found in (f for answer in answers for subtree in answer["subtrees"] for f in subtree):
        of_u = out[found["universe"]]
        for level, c in found["certificates"].items():
            of_u[level] = of_u.get(level, Certificates()).merge(Certificates.of(c))
    return out


def residuals(
    opened: OpenedRelease, answers: Sequence[Answer], upper_tree: Mapping[str, Release]
) -> list[ResidualSums]:
    """The residuals of all parts, the upper tree first."""
    own = [
        r
        for u in opened.after.universes
        for r in residual_sums(
            u, opened.source(u), {lv: upper_tree[u.name].histograms[lv] for lv in opened.levels}
        )
    ]
    return merged(
        [
            *own,
            *(
                ResidualSums(**r)
                for a in answers
                for subtree in a["subtrees"]
                for f in subtree
                for r in f["residuals"]
            ),
        ]
    )


def merge(
    work: WorkFiles,
    opened: OpenedRelease,
    published: Mapping[str, Mapping[str, Histogram]],
    progress: Progress,
) -> None:
    """Join the parts of the published files into whole files and folders."""
    after, subtrees = opened.after, range(1, len(opened.cut) + 1)
    below = open_part(work.release, 1)
    for u in after.universes:
        folder = work.release / "microdata" / u.kind.folder
        progress.stage(f"microdata: {u.name}", None)
        microdata.publish_parts(
            (work.microdata(u, i) for i in subtrees), folder, csv=after.csv, private=after.private
        )
        if not after.tables:
            continue
        progress.stage(f"tables: {u.name}", len(below.spine))
        _write_lines(work, opened, u, published[u.name], 0)
        every = tables.of(u, opened.assigned(u.name))
        for level in below.spine.levels:
            columns, numbers = (
                LineColumns.read(work.columns(), level),
                [0] if level in opened.levels else subtrees,
            )
            for table in every:
                table_columns.join(
                    work.release / "tables" / f"{table.name}_{level}.csv",
                    table,
                    columns,
                    after.private,
                    (work.rows(table.name, level, i) for i in numbers),
                )
            progress.advance()
