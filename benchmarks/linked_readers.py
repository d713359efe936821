"""Other people's tools read a linked population: ActivitySim, PopulationSim and GerryChain.

The files that these tools want have whole numbers for names of households and persons, and their
own names for columns (``crosswalk.csv`` of a link). :func:`model_tables` writes them with pandas. A
resident of group quarters is a household of one there, as these models take them. Then each tool
reads them, in an environment of its own (``benchmarks.peers``), with its own checks, and says what
it has found."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

from benchmarks.common import ROOT, Figures
from benchmarks.peers import PeerUnavailable, ask, environment

#: The tools, the packages of their environments, and their scripts.
ACTIVITYSIM, POPULATIONSIM, GERRYCHAIN = "ActivitySim", "PopulationSim", "GerryChain"
PEERS = {
    ACTIVITYSIM: (["activitysim==1.6.0"], "activitysim_tables.py"),
    POPULATIONSIM: (["populationsim==0.10.0"], "populationsim_tables.py"),
    GERRYCHAIN: (["gerrychain==1.0.0"], "gerrychain_districts.py"),
}
BLOCKS = "blocks.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--linked", type=Path, help="the folder of a link; else a small one is made"
    )
    given = parser.parse_args()
    figures = Figures("linked_readers")
    with tempfile.TemporaryDirectory() as made:
        linked = given.linked or _linked(Path(made))
        for tool in (ACTIVITYSIM, POPULATIONSIM):
            folder = Path(made, tool)
            homes, people = model_tables(linked, tool, folder)
            _read(figures, tool, folder, people=len(people), homes=len(homes))
        blocks = adults_of_blocks(linked, Path(made, BLOCKS))
        _read(figures, GERRYCHAIN, Path(made, BLOCKS), people=int(blocks.persons.sum()))


def _linked(folder: Path) -> Path:
    """A link of the small simulated DHC."""
    run, out = folder / "dhc", folder / "linked"
    for command in (
        ["run", "dhc-2020", "--out", run, "--set", "run.seed=1", "--set", "output.report=false"],
        ["link", run, "--out", out, "--no-tables"],
    ):
        line = [sys.executable, "-m", "das", *map(str, command), "--quiet"]
        subprocess.run(line, cwd=ROOT, check=True, capture_output=True)
    return out


def _read(figures: Figures, tool: str, given: Path, *, people: int, homes: int = 0) -> None:
    packages, script = PEERS[tool]
    try:
        found = ask(environment(tool.lower(), packages), script, str(given))
    except PeerUnavailable as error:
        figures.skipped(f"{tool} reads the link", str(error))
        return
    share = found["persons"] / people
    figures(f"{tool} reads the link: persons", share, "share", at_least=1, **found)
    if homes:
        agree = found["sizes_agree"] / homes
        figures(f"{tool}: households with their size", agree, "share", at_least=1)


def model_tables(linked: Path, tool: str, out: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write ``households.csv``, ``persons.csv`` and ``land_use.csv`` with a tool's names; returns
    households and persons."""
    homes, people = (read(linked, name) for name in ("households", "persons"))
    away = people.household.isna()
    people["household"] = people.household.where(~away, people.person_id)
    people["per_num"] = people.per_num.where(~away, 1)
    alone = people.loc[away, ["household", "block"]].assign(size=1)
    homes = pd.concat([homes, alone], ignore_index=True)
    number = pd.Series(range(1, len(homes) + 1), index=homes.household)
    homes["household"] = number.to_numpy()
    people["household"] = people.household.map(number)
    people["person_id"] = range(1, len(people) + 1)
    names = pd.read_csv(linked / "crosswalk.csv")
    out.mkdir(parents=True)
    found = []
    for table, frame in (("households", homes), ("persons", people)):
        said = names[names.file == table].dropna(subset=[tool]).set_index("column")[tool]
        found.append(frame[list(said.index)].rename(columns=said))
        found[-1].to_csv(out / f"{table}.csv", index=False)
    zones = homes.groupby("block")["size"].agg(TOTHH="count", TOTPOP="sum")
    zones.rename_axis("zone_id").to_csv(out / "land_use.csv")
    return found[0], found[1]


def adults_of_blocks(linked: Path, out: Path) -> pd.DataFrame:
    """Write persons and adults of each block."""
    people = read(linked, "persons")
    adult = people.age.astype(int) >= 18
    blocks = adult.groupby(people.block).agg(persons="count", adults="sum")
    blocks.to_csv(out)
    return blocks


def read(linked: Path, name: str) -> pd.DataFrame:
    """A table of a link, without categories."""
    frame = pd.read_parquet(linked / f"{name}.parquet")
    return frame.astype({c: object for c in frame if str(frame[c].dtype) == "category"})


if __name__ == "__main__":
    main()
