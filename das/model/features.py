"""The features of publications, by name, in words. A publication's public half says which it has,
with a reason for each that it lacks (docs/publications.md)."""

from __future__ import annotations

#: Features by name, in the words of a message.
FEATURES = {
    "engine": "a run by Dask or by array jobs (--engine)",
    "store": "copying a run's files to a store (--store)",
    "tasks": "`das status`, `das tasks` and `das task`",
    "resume": "resuming an interrupted run",
    "sealed": "a seal, and `das account verify`",
    "recompute": "`das account verify --recompute`",
    "check": "`das check`, the plan of a configuration",
    "check --data": "the size of a run on given data (das check --data)",
    "plan": "`das plan`, margins of error and what they cost",
    "plan --margin": "other plans to choose from (das plan --margin, --add, --toml)",
    "plan --areas": "how well areas will be known (das plan --areas)",
    "optimise": "`das plan --optimise`",
    "spine": "an optimized spine",
    "area": "`das area`",
    "estimate": "`das estimate --from`",
    "estimate --set": "another way to estimate (das estimate --set)",
    "tables": "`das tables`",
    "tables --areas": "tables of areas (das tables --areas)",
    "tables --margins": "tables with margins of error (das tables --margins)",
    "intervals": "`das intervals`",
    "sweep": "`das sweep`",
    "compare": "`das compare`",
    "evaluate": "`das evaluate`, again",
    "map": "`das map`",
    "risk": "`das risk` on a run",
    "nmf": "`das nmf summary` and `das nmf show`",
    "nmf verify": "`das nmf verify`",
    "look-up": "a page that looks up every place",
    "arrays": "arrays in, arrays out (das.measure, das.topdown)",
}
