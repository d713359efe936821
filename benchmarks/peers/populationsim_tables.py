"""Runs in the environment of PopulationSim: its reader of households and persons, from a folder
with ``households.csv`` and ``persons.csv``."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

from populationsim.core import inject
from populationsim.core.input import read_from_table_info

#: Each table, its index, and the columns that it must have.
TABLES = {
    "households": ("household_id", ["NP", "BLOCK", "HHAGE", "TEN"]),
    "persons": ("person_id", ["household_id", "per_num", "SEX", "AGEP", "RELSHIPP"]),
}


def main(folder: str) -> None:
    inject.add_injectable("data_dir", [folder])
    inject.add_injectable("settings", {})
    homes, people = (
        read_from_table_info(
            {"tablename": name, "filename": f"{name}.csv", "index_col": index, "keep_columns": kept}
        )
        for name, (index, kept) in TABLES.items()
    )
    size = people.groupby("household_id").size().reindex(homes.index)
    first = people[people.per_num == 1]
    found = {
        "version": version("populationsim"),
        "persons": len(people),
        "households": len(homes),
        "sizes_agree": int((size == homes.NP).sum()),
        "first_persons": int(first.household_id.is_unique) * len(first),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
