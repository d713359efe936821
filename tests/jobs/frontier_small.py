"""A tiny office: 120 persons of two attributes and one to find out, in two towns of five blocks,
without households; and a study of them that takes seconds."""

from __future__ import annotations

import random
from pathlib import Path

STUDY = """
[study]
name = "towns"
repeats = 2
seed = 3

[data]
reader = "table"
path = "{folder}/people.csv"
[data.columns.geography]
Town = "town"
Block = "block"

[geography]
levels = ["All", "Town", "Block"]

[schema]
name = "own"
[schema.attributes]
sex = ["f", "m"]
age = ["young", "middle", "old"]
origin = ["north", "south", "other"]

[published]
set = "own"
levels = ["Town", "Block"]
[tables.A]
title = "Total"
query = "total"
[tables.B]
title = "Sex by age"
query = "sex * age"
[tables.C]
title = "Origin"
query = "origin"

[attack]
known = ["sex", "age"]
sensitive = ["origin"]

[uses.total]
query = "total"
[uses.origin]
query = "origin"
[uses.crossed]
title = "All attributes crossed"
query = "sex * age * origin"

[methods.none]
title = "No protection"
method = "none"
[methods.swap]
title = "Swapping"
method = "swapping"
unit = "person"
settings = [{{ rate = 0.2, label = "as in 2010" }}, {{ rate = 0.6 }}]
[methods.round]
title = "Rounding"
method = "rounding"
how = "nearest"
base = 5
[methods.coarse]
method = "coarsening"
categories = ["origin"]
"""
OTHER = '[tables.D]\ntitle = "Everything"\nquery = "sex * age * origin"\n'


#: The first two methods alone.
SHORT = STUDY[: STUDY.index("[methods.round]")]


def write(folder: Path) -> Path:
    """The records, the study and another product's tables; the path of the study."""
    rng = random.Random(5)
    rows = ["town,block,sex,age,origin"]
    for i in range(120):
        town = "AB"[i % 2]
        who = (rng.choice("fm"), rng.choice(["young", "middle", "old"]))
        origin = rng.choices(["north", "south", "other"], [7, 3, 1])[0]
        rows.append(",".join((town, f"{town}{rng.randrange(5)}", *who, origin)))
    (folder / "people.csv").write_text("\n".join(rows) + "\n")
    (folder / "other.toml").write_text(OTHER)
    path = folder / "study.toml"
    path.write_text(STUDY.format(folder=folder))
    (folder / "short.toml").write_text(SHORT.format(folder=folder))
    return path
