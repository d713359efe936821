"""Runs in the environment of ActivitySim: its tables of zones, households and persons, from a
folder with ``households.csv``, ``persons.csv`` and ``land_use.csv``.

ActivitySim refuses identifiers that are no whole numbers or are there twice, persons without a
household, and households without persons."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import activitysim.abm.tables
from activitysim.core import configuration, workflow

#: Each table, its index, and the columns that it must have.
TABLES = {
    "land_use": ("zone_id", ["TOTHH", "TOTPOP"]),
    "households": ("household_id", ["home_zone_id", "hhsize"]),
    "persons": ("person_id", ["household_id", "PNUM", "sex", "age"]),
}


def main(folder: str) -> None:
    assert activitysim.abm.tables  # which registers them
    with tempfile.TemporaryDirectory() as made:
        configs, out = Path(made, "configs"), Path(made, "output")
        configs.mkdir()
        out.mkdir()
        (configs / "settings.yaml").write_text("households_sample_size: 0\n", encoding="utf-8")
        state = workflow.State().initialize_filesystem(
            configs_dir=(str(configs),), data_dir=(folder,), output_dir=str(out)
        )
        listed = [
            {"tablename": name, "filename": f"{name}.csv", "index_col": index, "keep_columns": kept}
            for name, (index, kept) in TABLES.items()
        ]
        state.settings = configuration.Settings.model_validate(
            {"input_table_list": listed, "households_sample_size": 0}
        )
        zones, homes, people = (state.get_dataframe(name) for name in TABLES)
        size = people.groupby("household_id").size().reindex(homes.index)
        at = homes.home_zone_id
        found = {
            "version": version("activitysim"),
            "persons": len(people),
            "households": len(homes),
            "sizes_agree": int((size == homes.hhsize).sum()),
            "zones_known": int(at.isin(zones.index).sum()),
            "zones_agree": int(
                (at.value_counts().reindex(zones.index).fillna(0) == zones.TOTHH).sum()
            ),
            "zones": len(zones),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
