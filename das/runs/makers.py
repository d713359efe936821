"""How each publication is made from records: the halves that see the truth.

Of the other halves, which see releases alone, it is :mod:`das.release.publications`."""

from __future__ import annotations

from typing import cast

from das.engine.tasks import Silent
from das.errors import UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.runs.protocol import (
    EvaluatingMaker,
    InputOutlook,
    Maker,
    OutlookMaker,
    RunInput,
    SeriesMaker,
)
from das.spec import Specification, load
from das.spec.parse import PUBLICATIONS
from das.stages import Stages


def evaluating(directory: RunDirectory) -> EvaluatingMaker:
    """What made a run, by its release: of a publication that has ``evaluate``."""
    path = directory.release / "spec.toml"
    text = run_directory.read_text(path, "release specification")
    return cast(EvaluatingMaker, maker_of(load(text, where=str(path)), RunInput()))


def outlook_of(spec: Specification, given: RunInput) -> InputOutlook:
    """What an input says of a run on it: of a publication that has ``check --data``."""
    return cast(OutlookMaker, maker_of(spec, given)).outlook(Stages(), Silent())


def series_of(spec: Specification, given: RunInput) -> SeriesMaker:
    """What makes several runs of one input: of a publication that has ``sweep``."""
    return cast(SeriesMaker, maker_of(spec, given))


def maker_of(spec: Specification, given: RunInput) -> Maker:
    """What makes the publication of a specification. Raises :class:`UserError` where there is
    nothing to measure by it.
    """
    if spec.maker is None:
        raise UserError(
            f"this is a specification of {spec.title}: nothing is measured by it",
            where="run",
            remedy=spec.remedy,
        )
    return cast(Maker, PUBLICATIONS.load_part(spec.publication(), "maker")(spec, given))
