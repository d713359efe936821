"""An attack on the published tables of a finished run, compared with the truth (confidential)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from das import tables
from das.errors import ReleaseError, UserError
from das.files.release import tables as published_tables
from das.release.opened import OpenedRelease
from das.tools.risk.figure import Report, score
from das.tools.risk.guarantee import most_often_right
from das.tools.risk.table_attack import Tables, guess, read
from das.truth.assessment import truth_of


def attacked(run: Path) -> Report:
    """Attack one finished run. The intruder has its published tables, its spine and its plan."""
    opened, known = truth_of(run)
    u, level = opened.run.persons, opened.spine.levels[-1]
    published, noise = published_by(opened), variance(opened)
    truth = known[u.name][level].open(
        "to score an attack on the published tables; the result stays confidential"
    )
    scores = {v: score(truth, guess(published, opened.spine, v)) for v in (noise, 0.0, None)}
    base = scores[None]
    allowed = most_often_right(
        base.agreement, float(u.plan.cost), u.plan.mechanism, u.plan.neighbours
    )
    return Report(
        opened.after.name,
        str(u.plan.cost),
        u.plan.mechanism.currency,
        float(u.plan.cost),
        noise,
        scores[noise],
        scores[0.0],
        base,
        allowed,
    )


def published_by(opened: OpenedRelease) -> Tables:
    """What the published tables of the lowest level say."""
    schema, level, folder = (
        opened.after.persons.schema,
        opened.spine.levels[-1],
        opened.folder / "tables",
    )
    values, members = [], []
    for table in tables.published(schema):
        path = folder / f"{table.name}_{level}.csv"
        rows = published_tables.read(path)
        if rows.columns != table.columns or not np.array_equal(rows.codes, opened.spine.codes[-1]):
            raise ReleaseError("other columns or other units than the release has", where=path)
        values.append(rows.values)
        members.append(table.masks)
    return read(np.concatenate(members), np.concatenate(values, axis=1), schema)


def variance(opened: OpenedRelease) -> float:
    """The noise in a count of traits of the lowest level, from the public noise: measurements at
    least as fine as ``detailed`` without dwellings, taken together; the finest one, where there is
    none. Where units are measured differently, that of most of them: the guess weighs all blocks
    alike."""
    u, level = opened.after.persons, opened.spine.levels[-1]
    here = [n for n in u.noise if n.level == level]
    answers = {n.query: u.schema.query(n.query).answers for n in here}
    if not answers:
        raise UserError(
            f"nothing is measured at {level}",
            where=opened.folder,
            remedy="attack a run that measures it",
        )
    traits = " * ".join(a.name for a in u.schema.attributes if a.name != u.schema.dwelling)
    fine = min(u.schema.query(traits).answers, max(answers.values()))
    return 1 / sum(1 / n.variance for n in here if answers[n.query] >= fine)
