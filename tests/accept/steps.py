"""What a reader of the documentation does with official files, in chains of commands: each chain in
a folder of its own, in the order of the documentation."""

from __future__ import annotations

from tests.accept.reader import Step

RI = "pl94_2010/ri/ri2010.pl.zip"
BRISTOL = "pl94_2010/ri/ri2010_bristol_44001.pl.zip"
GUERNSEY = "guernsey_oh/oh2020_guernsey_39059_blocks.pl.zip"
PROTOTYPE = "pl94_2020/ri_2018_e2e_prototype"
PERRY = "ppmf/ppmf_20210428_eps12-2_P_01105_perry_al.csv.gz"
BLUEDOWN = "nmf_bluedown"
RUN = "das run CONFIG [--data PATH] [--out DIR] [--set KEY=VALUE] [--workers N]"


def _run(name: str, config: str, path: str, change: str, source: str = "") -> Step:
    """The row on ``das run`` of the commands by task; the file at ``path`` is that of an earlier step, or ``source``."""
    given = {"CONFIG": config, "PATH": path, "DIR": name, "KEY=VALUE": change}
    return Step(name, "by-task.md", RUN, given, files={path: source} if source else {}, out=name)


#: A whole state, as README and docs have it.
STATE = (
    Step(
        "state",
        "README.md",
        "das run pl94-2010 --data downloads/ri2010.pl.zip",
        files={"downloads/ri2010.pl.zip": RI},
        called="runs/first",
    ),
    Step("verify", "privacy-statement.md", "das account verify RUN", {"RUN": "@state"}),
    Step(
        "full",
        "configurations.md",
        "das estimate --from RUN --method full-information --out DIR",
        {"RUN": "@state", "DIR": "full"},
        out="full",
    ),
    Step(
        "margins at blocks",
        "start.md",
        "das tables RUN --level L --table T --margins",
        {"RUN": "@full", "L": "Block", "T": "P1"},
    ),
    Step("where is Providence", "tables.md", "das tables runs/first --name Providence"),
    Step(
        "the city of Providence",
        "tables.md",
        "das tables runs/first --level Place --table P1 --name Providence",
    ),
    Step("the city", "tables.md", "das tables runs/first --table P1 --name Providence"),
    Step(
        "the town of Narragansett",
        "tables.md",
        'das tables runs/first --table P1 --name "Narragansett town"',
    ),
    Step("reservations", "areas.md", "das area RUN --kind AIAN", {"RUN": "@state"}),
)

#: A county of 2020, over trees that are not the published one, with every configuration that has
#: full information.
GUERNSEY_STEPS = tuple(
    step
    for kind in ("best", "fair", "areas")
    for step in (
        _run(kind, f"pl94-2010-{kind}", "oh2020.pl.zip", "data.reader=pl94-2020", source=GUERNSEY),
        Step(
            f"verify {kind}",
            "by-task.md",
            "das account verify RUN",
            {"RUN": f"@{kind}"},
            more="--recompute",
        ),
    )
)

#: A small county, and everything that is done with a run.
BRISTOL_STEPS = (
    Step(
        "county",
        "reconstruction.md",
        "das run pl94-2010 --data ri2010_bristol_44001.pl.zip --out red",
        files={"ri2010_bristol_44001.pl.zip": BRISTOL},
        out="red",
        called="runs/first",
    ),
    _run("seeded", "pl94-2010", "ri2010_bristol_44001.pl.zip", "run.seed=7"),
    Step("verify", "by-task.md", "das account verify RUN", {"RUN": "@county"}),
    Step(
        "verify seeded",
        "by-task.md",
        "das account verify RUN",
        {"RUN": "@seeded"},
        more="--recompute",
    ),
    Step("evaluate", "by-task.md", "das evaluate RUN [--areas FILE]", {"RUN": "@county"}),
    Step("compare", "by-task.md", "das compare RUN", {"RUN": "@county"}),
    Step(
        "compare two",
        "by-task.md",
        "das compare A B [--truth RUN]",
        {"A": "@county", "B": "@seeded"},
    ),
    Step("risk", "by-task.md", "das risk RUN", {"RUN": "@county"}),
    Step(
        "coarse",
        "coarsening.md",
        "das frontier protect coarsen-least --data ri2010.pl.zip --out coarse --districts SLDL",
        files={"ri2010.pl.zip": BRISTOL},
        out="coarse",
    ),
    Step("verify coarse", "coarsening.md", "das frontier verify coarse"),
    Step(
        "combine",
        "coarsening.md",
        "das risk combine runs/first coarse --out both --truth",
        out="both",
    ),
    Step("account of both", "coarsening.md", "das account runs/first coarse"),
    Step(
        "push",
        "stores.md",
        "das store push RUN s3://BUCKET/PREFIX",
        {"RUN": "@county", "s3://BUCKET/PREFIX": "file://{folder}/store"},
        out="store",
    ),
    Step(
        "pull",
        "stores.md",
        "das store pull s3://BUCKET/PREFIX DIR",
        {"s3://BUCKET/PREFIX": "file://{folder}/store", "DIR": "pulled"},
        out="pulled",
    ),
    Step(
        "intervals",
        "intervals.md",
        "das intervals RUN --replicates 25 --level Tract --table P1 --coverage 0.9",
        {"RUN": "@seeded"},
    ),
    Step("evaluate intervals", "intervals.md", "das evaluate RUN", {"RUN": "@seeded"}),
)

#: The Bureau's own format of 2020, as it came out of its test of 2018.
PROTOTYPE_STEPS = (
    _run("best", "pl94-2010-best", "ri2018", "data.reader=pl94-2020", source=PROTOTYPE),
    Step("verify", "by-task.md", "das account verify RUN", {"RUN": "@best"}),
)

#: Noisy measurements of another program, in the Bureau's layout.
BLUEDOWN_STEPS = (
    Step(
        "estimate",
        "by-task.md",
        "das estimate --from RELEASE --out DIR [--method M]",
        {"RELEASE": "US_Person_PL_PROD", "DIR": "theirs"},
        more="--totals state_totals.parquet",
        files={
            "US_Person_PL_PROD": f"{BLUEDOWN}/US_Person_PL_PROD",
            "state_totals.parquet": f"{BLUEDOWN}/state-totals/US/state_totals.parquet",
        },
        out="theirs",
    ),
    Step(
        "compare published",
        "by-task.md",
        "das compare A --published PATH",
        {"A": "@estimate", "PATH": "extracts"},
        files={"extracts": "data/pl94_2010"},
    ),
)

#: Microdata that the Bureau published, protected a second time.
PPMF_STEPS = (
    _run("perry", "kazan-reiter", "perry.csv.gz", "data.reader=ppmf", source=PERRY),
    Step("verify", "by-task.md", "das account verify RUN", {"RUN": "@perry"}),
)

DETAILED = "das run detailed-dhc --data DATA --set data.parameters=PARAMETERS --out DIR"
#: The toy folders of SafeTab and PHSafe.
GROUPS_STEPS = (
    Step(
        "persons",
        "by-task.md",
        DETAILED,
        {"PARAMETERS": "p_toy/input_dir_zcdp", "DATA": "p_toy", "DIR": "groups"},
        files={"p_toy": "safetab/p_toy"},
        out="groups",
    ),
    Step("verify persons", "by-task.md", "das account verify RUN", {"RUN": "@persons"}),
    Step(
        "households",
        "by-task.md",
        DETAILED,
        {"PARAMETERS": "h_toy/input_dir_zcdp", "DATA": "h_toy", "DIR": "homes"},
        more="--set detailed.product=households",
        files={"h_toy": "safetab/h_toy"},
        out="homes",
    ),
    Step("verify households", "by-task.md", "das account verify RUN", {"RUN": "@households"}),
    Step(
        "joined",
        "sdhc.md",
        "das run sdhc-2020 --data FOLDER --set data.parameters=FOLDER/config.json --out runs/mine",
        {"FOLDER": "phsafe"},
        files={"phsafe": "phsafe/sim", "phsafe/config.json": "phsafe/production/config_us.json"},
        out="runs/mine",
    ),
    Step("verify joined", "by-task.md", "das account verify RUN", {"RUN": "@joined"}),
)

#: Persons and households, over a redistricting release of a county.
LINKED_STEPS = (
    Step(
        "redistricting",
        "dhc.md",
        "das run pl94-2010 --data PATH --out runs/pl94",
        {"PATH": "bristol.pl.zip"},
        files={"bristol.pl.zip": BRISTOL},
        out="runs/pl94",
    ),
    Step(
        "simulate",
        "dhc.md",
        "das data simulate dhc --blocks PATH --out runs/linked --seed 1",
        {"PATH": "bristol.pl.zip"},
        out="runs/linked",
    ),
    Step(
        "dhc",
        "dhc.md",
        "das run dhc-2020 --set constraints.from=runs/pl94 --data runs/linked --out runs/dhc",
        out="runs/dhc",
    ),
    Step("verify", "dhc.md", "das account verify runs/dhc"),
    Step("agreement", "linked.md", "das evaluate runs/dhc --agreement"),
    Step("link", "linked.md", "das link runs/dhc --out DIR", {"DIR": "link"}, out="link"),
    Step(
        "ages", "dhc-ages.md", "das ages runs/dhc --level Tract --first 12", out="ages-Tract.html"
    ),
    Step(
        "sdhc",
        "sdhc.md",
        "das run sdhc-2020 --data FOLDER --out runs/sdhc",
        {"FOLDER": "runs/linked"},
        out="runs/sdhc",
    ),
    Step("verify sdhc", "sdhc.md", "das account verify runs/sdhc"),
)

#: Methods of protection, compared on the records of a small county.
FRONTIER_STEPS = (
    Step(
        "records",
        "reconstruction.md",
        "das data simulate dhc --blocks ri2010_bristol_44001.pl.zip --out linked --seed 1",
        files={"ri2010_bristol_44001.pl.zip": BRISTOL},
        out="linked",
    ),
    Step(
        "init",
        "frontier.md",
        "das frontier init --data linked --points ri2010.pl.zip --quick --out quick.toml",
        files={"ri2010.pl.zip": RI},
        out="quick.toml",
    ),
    Step(
        "whole draft",
        "frontier.md",
        "das frontier init --data linked --points ri2010.pl.zip --out study.toml",
        out="study.toml",
    ),
    Step(
        "study", "frontier.md", "das frontier quick.toml --out studies/quick", out="studies/quick"
    ),
    Step(
        "cell key",
        "frontier.md",
        "das frontier protect cell-key --data linked --set D=2 --set V=1 --out tables",
        out="tables",
    ),
)

#: Those that take longest first: two are done at a time.
CHAINS: dict[str, tuple[Step, ...]] = {
    "frontier": FRONTIER_STEPS,
    "state": STATE,
    "linked": LINKED_STEPS,
    "bristol": BRISTOL_STEPS,
    "guernsey": GUERNSEY_STEPS,
    "prototype": PROTOTYPE_STEPS,
    "bluedown": BLUEDOWN_STEPS,
    "ppmf": PPMF_STEPS,
    "groups": GROUPS_STEPS,
}
