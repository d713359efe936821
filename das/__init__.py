"""The TopDown disclosure-avoidance system.

A run, from files to files:

>>> import das
>>> spec = das.load_spec("pl94-2010")  # doctest: +SKIP
>>> das.run(spec, "runs/first", paths=["ri2010.pl.zip"])  # doctest: +SKIP
>>> das.read_nmf("runs/first", level="County", query="total")  # doctest: +SKIP

The same stages on arrays:

>>> spine = das.Spine.from_frame({"Block": ["a1", "a2"]}, ["Town", "Block"])
>>> schema = das.Schema.from_attributes("people", {"sex": ["f", "m"]})
>>> truth = das.count({"Block": ["a1", "a1", "a2"], "sex": ["f", "m", "m"]}, schema, spine)
>>> truth, das.measure(truth, das.Plan.of_rho(1, ["Town", "Block"], ["total", "sex"]))
(<Counted: confidential>, <Noisy: people, 4 queries, rho = 1>)

The public names are those of ``__all__``, and what ``docs/reference/api.md`` lists below them; everything
else is internal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from das.version import __version__

if TYPE_CHECKING:
    from das.accounting import epsilon
    from das.api.arrays.counting import count
    from das.api.arrays.estimating import full_information, topdown
    from das.api.arrays.known import bounds
    from das.api.arrays.measuring import measure
    from das.api.arrays.noisy import Noisy, read_noisy
    from das.api.intervals import intervals
    from das.api.reading import (
        read_areas,
        read_errors,
        read_estimates,
        read_intervals,
        read_microdata,
        read_nmf,
        read_tables,
    )
    from das.engine import Progress
    from das.errors import (
        DasError,
        InfeasibleError,
        InputError,
        PluginError,
        PrivacyError,
        RegisterError,
        ReleaseError,
        SolverError,
        SpecError,
        StoreError,
        UserError,
    )
    from das.estimate.family import Estimator
    from das.model.plan import Plan
    from das.model.schema import Schema
    from das.model.spine import Spine
    from das.release.outcome import Outcome
    from das.spec import Specification

__all__ = [
    "DasError",
    "Estimator",
    "InfeasibleError",
    "InputError",
    "Noisy",
    "Plan",
    "PluginError",
    "PrivacyError",
    "RegisterError",
    "ReleaseError",
    "Schema",
    "SolverError",
    "SpecError",
    "Spine",
    "StoreError",
    "UserError",
    "__version__",
    "bounds",
    "count",
    "epsilon",
    "full_information",
    "intervals",
    "load_spec",
    "measure",
    "read_areas",
    "read_errors",
    "read_estimates",
    "read_intervals",
    "read_microdata",
    "read_nmf",
    "read_noisy",
    "read_tables",
    "run",
    "topdown",
]

#: Where each name is, loaded when it is asked for: some bring NumPy, SciPy or pandas.
_LATE = {
    "DasError": "das.errors",
    "Estimator": "das.estimate.family",
    "InfeasibleError": "das.errors",
    "InputError": "das.errors",
    "Noisy": "das.api.arrays.noisy",
    "Plan": "das.model.plan",
    "PluginError": "das.errors",
    "PrivacyError": "das.errors",
    "RegisterError": "das.errors",
    "ReleaseError": "das.errors",
    "Schema": "das.model.schema",
    "SolverError": "das.errors",
    "SpecError": "das.errors",
    "Spine": "das.model.spine",
    "StoreError": "das.errors",
    "UserError": "das.errors",
    "bounds": "das.api.arrays.known",
    "count": "das.api.arrays.counting",
    "epsilon": "das.accounting",
    "full_information": "das.api.arrays.estimating",
    "intervals": "das.api.intervals",
    "measure": "das.api.arrays.measuring",
    "read_areas": "das.api.reading",
    "read_errors": "das.api.reading",
    "read_estimates": "das.api.reading",
    "read_intervals": "das.api.reading",
    "read_microdata": "das.api.reading",
    "read_nmf": "das.api.reading",
    "read_noisy": "das.api.arrays.noisy",
    "read_tables": "das.api.reading",
    "topdown": "das.api.arrays.estimating",
}


#: Packages whose functions ``docs/reference/api.md`` lists, to be reached from here without an import of
#: their own.
_ROOMS = ("accounting", "noise", "risk", "solve")


def load_spec(
    path: Path | str, overrides: Sequence[str] = (), *, note: Callable[[str], None] | None = None
) -> Specification:
    """Load and check a configuration: a TOML file, or a packaged one by its name
    (``pl94-2010``). ``overrides`` are ``dotted.key=value``. ``note`` is called with each
    deviation from the file's text."""
    from das.errors import SpecError
    from das.files.packaged import configuration
    from das.spec import load

    if isinstance(overrides, str) or not all(isinstance(o, str) for o in overrides):
        raise SpecError(
            "overrides are a list of texts",
            where="load_spec",
            remedy='write for instance ["budget.rho=1/2"]',
        )
    text, folder = configuration(Path(path))
    return load(text, where=str(path), overrides=overrides, folder=folder, note=note)


def run(
    spec: Specification,
    out: Path | str,
    *,
    paths: Path | str | Sequence[Path | str] = (),
    workers: int = 1,
    engine: str = "local",
    scheduler: str | None = None,
    tls: Path | str | None = None,
    wait: bool = False,
    partition: int | None = None,
    progress: bool | Progress | None = None,
    resume: bool = False,
    accept_spent: bool = False,
    ignore_memory: bool = False,
) -> Outcome:
    """Run the whole pipeline into the new folder ``out``; ``paths`` replace ``data.path``.

    With several ``workers``, call it under ``if __name__ == "__main__":``, because the workers
    import your script. ``engine``, ``scheduler``, ``tls``, ``wait`` and ``partition`` are the
    options of ``das run`` (docs/how-to/engines.md): ``"dask"`` with ``scheduler="tls://HOST:8786"`` and
    the folder ``tls`` of certificates; with ``"array"`` and no ``wait``, it raises
    ``das.engine.tasks.HandedOver`` when you must call ``das run task``; ``resume`` continues.

    ``progress=True`` shows progress: a bar for each stage in a terminal, a line for each in a
    notebook or a log (a notebook shows it by default). Or pass an object with ``stage(name,
    total)`` and ``advance(n)`` (``das.engine.tasks.Progress``).

    ``resume`` continues an interrupted run in ``out`` (a note to the ``KeyboardInterrupt`` says
    that there is one). Measurements in progress are drawn again with the same noise. If that is
    impossible, ``accept_spent`` draws them a second time, and both spendings are stated. A run
    that needs more memory than the machine has is refused before anything is measured, unless
    ``ignore_memory`` is set."""
    from das.engine.choice import SIZE, EngineChoice
    from das.engine.display import display
    from das.errors import UserError
    from das.model.not_private import WARNING
    from das.runs.pipeline import run as run_pipeline
    from das.spec import Specification

    if not isinstance(spec, Specification):
        raise UserError(
            "this is no specification",
            where=f"run: {spec!r}",
            remedy="give das.load_spec(...) of it",
        )
    if not spec.run.private:
        warnings.warn(WARNING, stacklevel=2)
    folder, size = None if tls is None else Path(tls), SIZE if partition is None else partition
    choice = EngineChoice(engine, workers, scheduler, folder, wait, size)
    inputs = [Path(p) for p in ([paths] if isinstance(paths, str | Path) else paths)]
    try:
        with display(progress) as shown:
            return run_pipeline(
                spec,
                Path(out),
                paths=inputs,
                engine=choice,
                progress=shown,
                resume=resume,
                accept_spent=accept_spent,
                ignore_memory=ignore_memory,
            )
    except KeyboardInterrupt as stop:
        if (Path(out) / "release" / "ledger.jsonl").exists():
            stop.add_note(
                "das: measurements are kept; to continue: "
                f"das.run(spec, {str(out)!r}, resume=True), with what this run was given"
            )
        raise


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"das.{name}")
    if name not in _LATE:
        raise AttributeError(f"module 'das' has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
