"""Functions and classes as Markdown that reads without a build: signature, and the docstring with
its formulas.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

#: The page of the Python functions: section, and what stands in it.
SECTIONS: Mapping[str, Sequence[str]] = {
    "From arrays": [
        "das.Spine",
        "das.Schema",
        "das.Plan",
        "das.count",
        "das.measure",
        "das.Noisy",
        "das.bounds",
        "das.topdown",
        "das.full_information",
        "das.epsilon",
        "das.Estimator",
        "das.estimate.family.Family",
        "das.model.solution.Certificate",
        "das.api.arrays.estimating.Result",
        "das.api.arrays.estimating.LevelCounts",
        "das.api.arrays.estimating.LevelEstimates",
    ],
    "Runs": [
        "das.load_spec",
        "das.run",
        "das.publications.published.public.estimate_from",
        "das.intervals",
        "das.tools.sweep.runs.sweep",
        "das.tools.comparison.page.compare_two",
        "das.release.outcome.Outcome",
    ],
    "Reading what a run wrote": [
        "das.read_nmf",
        "das.read_microdata",
        "das.read_tables",
        "das.read_intervals",
        "das.read_areas",
        "das.read_estimates",
        "das.read_errors",
        "das.read_noisy",
    ],
    "Errors": [
        "das.errors",
        "das.DasError",
        "das.UserError",
        "das.SpecError",
        "das.InputError",
        "das.ReleaseError",
        "das.PluginError",
        "das.RegisterError",
        "das.PrivacyError",
        "das.InfeasibleError",
        "das.SolverError",
        "das.StoreError",
    ],
    "Noise": [
        "das.noise.discrete_gaussian.sample",
        "das.noise.entropy.system",
        "das.noise.entropy.seeded",
    ],
    "Accounting": [
        "das.accounting.profile.delta",
        "das.accounting.profile.curve",
        "das.accounting.calibrate",
        "das.accounting.tradeoff",
        "das.accounting.draws.Composition",
        "das.accounting.zcdp.bun_steinke",
        "das.accounting.zcdp.tight",
        "das.accounting.zcdp.implied",
    ],
    "Risk": [
        "das.risk.one_level",
        "das.risk.one_level.posterior",
        "das.risk.one_level.ratio",
        "das.risk.one_level.release_probability",
        "das.risk.one_level.marginal_posterior",
        "das.risk.one_level.marginal_ratio",
        "das.risk.one_level.decision_probability",
        "das.risk.hierarchy",
        "das.risk.hierarchy.hierarchical_posterior",
        "das.risk.hierarchy.levels_posterior",
        "das.risk.hierarchy.upper_posterior",
        "das.risk.joint",
        "das.risk.joint.joint_posterior",
        "das.risk.joint.joint_marginal_posterior",
        "das.risk.joint.joint_decision_probability",
        "das.risk.decisions.Truth",
        "das.risk.decisions.Decisions",
        "das.risk.decisions.decisions",
        "das.risk.decisions.decision_map",
    ],
    "Solvers": [
        "das.solve.children.children_qp",
        "das.solve.network.round_children",
        "das.model.solution.Solution",
    ],
    "Errors of a run": [
        "das.truth.evaluation",
        "das.truth.evaluation.tally_queries",
        "das.truth.evaluation.QueryTally",
        "das.evaluate.comparison.headline",
        "das.model.error_rows.ErrorRow",
    ],
    "Values": [
        "das.model.query.Grouping",
        "das.model.query",
        "das.model.query.Query",
        "das.model.histogram.Histogram",
        "das.model.confidential.Confidential",
        "das.model.mechanisms",
        "das.model.mechanisms.Mechanism",
        "das.model.mechanisms",
        "das.model.budget",
        "das.model.budget.Neighbours",
        "das.model.budget.Allocation",
        "das.model.budget.PlannedMeasurement",
        "das.model.ledger.Event",
        "das.model.ledger.Ledger",
        "das.model.constraint.Constraint",
        "das.model.measurement.Measurement",
        "das.model.release.Release",
    ],
}


def api() -> str:
    """Markdown: each section, and in it each function, class, or what a module is about."""
    return "\n".join(
        line for title, names in SECTIONS.items() for line in [f"## {title}", "", *_each(names)]
    )


def _each(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        thing = resolve(name)
        if inspect.ismodule(thing):
            yield from [markdown(thing.__doc__ or ""), ""]
            continue
        yield from [
            f"### `{name}`",
            "",
            "```python",
            _signature(name, thing),
            "```",
            "",
            markdown(thing.__doc__ or ""),
            "",
        ]
        if inspect.isclass(thing):
            yield from _members(thing)


def resolve(name: str) -> Any:
    """A module, or what a module has under the last part of the name."""
    parent, _, last = name.rpartition(".")
    above = import_module(parent)
    return getattr(above, last) if hasattr(above, last) else import_module(name)


def _members(kind: type) -> Iterator[str]:
    """The documented public methods and properties of a class: a line for each."""
    for name, member in vars(kind).items():
        inner = getattr(
            member, "__func__", getattr(member, "func", getattr(member, "fget", member))
        )
        if name.startswith("_") or not inspect.isfunction(inner) or not inner.__doc__:
            continue
        called = (
            "" if inner is not member and not hasattr(member, "__func__") else _arguments(inner)
        )
        first = markdown(inner.__doc__).split("\n\n")[0]
        if "```" not in first:
            yield f"* `{name}{called}`: {first}"
    yield ""


def _signature(name: str, thing: Any) -> str:
    return name.rpartition(".")[2] + _arguments(thing)


def _arguments(thing: Any) -> str:
    """Names and defaults, without types: what a reader types. Of an enumeration its values."""
    if inspect.isclass(thing) and issubclass(thing, Enum):
        return f"({' | '.join(repr(m.value) for m in thing)})"
    try:
        parts = list(inspect.signature(thing).parameters.values())
    except ValueError:
        return "(...)"
    if inspect.isclass(thing) and is_dataclass(thing):
        parts = [p for p in parts if not p.name.startswith("_")]
    plain = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in parts
        if p.name not in ("self", "cls")
    ]
    text = str(inspect.Signature(plain))
    return re.sub(r"<factory>", "...", re.sub(r"<([\w.]+): [^<>]*>", r"\1", text))


def markdown(text: str) -> str:
    """A docstring as Markdown: formulas between dollars, roles as code, sessions in fences."""
    out: list[str] = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if block.startswith(">>> "):
            out.append(f"```python\n{block}\n```")
        elif block.startswith(".. math::"):
            out.append(f"$$\n{inspect.cleandoc(block.removeprefix('.. math::'))}\n$$")
        elif block.startswith("    "):
            out.append(f"```text\n{inspect.cleandoc(block)}\n```")
        else:
            out.append(_inline(block))
    return "\n\n".join(out)


def _inline(text: str) -> str:
    text = re.sub(r":math:`([^`]*)`", lambda m: f"${m[1]}$", text)
    text = re.sub(r":\w+:`~?([^`]*)`", lambda m: f"`{m[1]}`", text)
    return text.replace("``", "`").removesuffix("::") + (":" if text.endswith("::") else "")
