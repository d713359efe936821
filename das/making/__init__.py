"""How each publication is made from records: the registry of the halves that see the truth.

Of the other halves, which see releases alone, it is :mod:`das.release.publications`."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from das.errors import UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.making.work import Maker, RunInput
from das.spec import Specification, load

#: By ``run.publication``: where it is made, loaded when it is asked for.
MAKERS = {
    "counts": ("das.making.counts", "CountsMaker"),
    "dhc": ("das.making.dhc", "DhcMaker"),
    "detailed-dhc": ("das.making.detailed", "DetailedMaker"),
}


def maker_of_run(directory: RunDirectory) -> Maker:
    """What made a run, by its release."""
    path = directory.release / "spec.toml"
    text = run_directory.read_text(path, "release specification")
    return maker_of(load(text, where=str(path)), RunInput())


def maker_of(spec: Specification, given: RunInput) -> Maker:
    """What makes the publication of a specification. Raises :class:`UserError` where there is
    nothing to measure by it.
    """
    name = spec.publication()
    if name not in MAKERS:
        raise UserError(
            f"this is a specification of {spec.title}: nothing is measured by it",
            where="run",
            remedy=spec.remedy,
        )
    module, kind = MAKERS[name]
    return cast(Maker, getattr(import_module(module), kind)(spec, given))
