"""What `make accept-all` does besides: the long commands of the documentation, and every packaged
configuration by each method over each tree on a whole state."""

from __future__ import annotations

from dataclasses import replace

from tests.accept.reader import Step
from tests.accept.steps import BRISTOL, CHAINS, RI, RUN

#: The packaged configurations of redistricting data.
CONFIGURATIONS = (
    "pl94-2010",
    "pl94-2010-areas",
    "pl94-2010-best",
    "pl94-2010-fair",
    "kazan-reiter",
    "dhc-2022-08-25",
)
METHODS, SPINES = ("topdown", "full-information"), ("tabulation", "optimized")

#: These name the areas that their tree aims at, and refuse the tree of tabulation.
OPTIMIZED = ("pl94-2010-areas", "pl94-2010-best", "pl94-2010-fair")

#: Every packaged configuration of redistricting data, by each method over each tree that it has.
MATRIX = tuple(
    Step(
        f"{config}, {method}, {spine}",
        "by-task.md",
        RUN,
        {
            "CONFIG": config,
            "PATH": "ri2010.pl.zip",
            "DIR": f"{config}-{method}-{spine}",
            "KEY=VALUE": f"estimation.method={method}",
        },
        more=f"--set geography.spine={spine}",
        files={"ri2010.pl.zip": RI},
        out=f"{config}-{method}-{spine}",
    )
    for config in CONFIGURATIONS
    for method in METHODS
    for spine in SPINES
    if spine == "optimized" or config not in OPTIMIZED
)

#: A plan of a state's own areas, and the best shares of its budget.
PLANS = (
    Step(
        "policy",
        "strategy.md",
        "das plan pl94-2010 --optimize policy --spare --data downloads/ri2010.pl.zip"
        " --set geography.spine=tabulation",
        files={"downloads/ri2010.pl.zip": RI},
    ),
    Step(
        "fair",
        "strategy-results.md",
        "das plan pl94-2010 --optimize fair --units 1,52,3221,73057,217740,6500000 --toml",
    ),
    Step(
        "recipes",
        "other-tools.md",
        "das run pl94-2010 --data downloads/ri2010.pl.zip --out runs/ri",
        out="runs/ri",
    ),
)

#: What needs no file: simulated records come with `das`.
PACKAGED = (
    Step("simulated", "README.md", "das run pl94-2010", called="runs/first"),
    Step("half", "start.md", "das run pl94-2010 --set budget.rho=1/2"),
    Step("sweep", "start.md", "das sweep pl94-2010 --rho 1/10,1,10 --out sweep", out="sweep"),
    Step(
        "another sweep",
        "by-task.md",
        "das sweep CONFIG --rho 1/10,1,10 --out DIR",
        {"CONFIG": "pl94-2010", "DIR": "other"},
        out="other",
    ),
    Step(
        "again",
        "estimation.md",
        "das estimate --from RUN --method full-information --out again",
        {"RUN": "@simulated"},
        out="again",
    ),
    Step("compare", "estimation.md", "das compare RUN again", {"RUN": "@simulated"}),
    Step("intervals", "intervals.md", "das intervals RUN --workers 2", {"RUN": "@simulated"}),
    Step("default intervals", "by-task.md", "das intervals RUN", {"RUN": "@half"}),
    Step("another rule", "intervals.md", "das intervals RUN --rule ct", {"RUN": "@again"}),
    Step("sdhc", "sdhc.md", "das run sdhc-2020 --out runs/sdhc", out="runs/sdhc"),
    Step(
        "to a store",
        "by-task.md",
        "das run CONFIG --store s3://BUCKET/PREFIX",
        {"CONFIG": "pl94-2010", "s3://BUCKET/PREFIX": "file://{folder}/.store"},
    ),
    Step(
        "tenth",
        "detailed.md",
        "das data simulate detailed --out tenth --seed 1 --states AZ,RI --share 0.001 --workers 2",
        out="tenth",
    ),
)

#: The DHC of a whole state, its link and its intervals.
STATE_DHC = tuple(
    replace(step, files=dict.fromkeys(step.files, RI))
    for step in CHAINS["linked"]
    if step.name in ("redistricting", "simulate", "dhc", "verify", "agreement", "link", "ages")
)
BEST = (
    Step(
        "redistricting",
        "dhc.md",
        "das run pl94-2010-best --data PATH --out runs/pl94",
        {"PATH": "state.pl.zip"},
        files={"state.pl.zip": RI},
        out="runs/pl94",
    ),
    Step(
        "simulate",
        "dhc.md",
        "das data simulate dhc --blocks PATH --out runs/linked --seed 1",
        {"PATH": "state.pl.zip"},
        out="runs/linked",
    ),
    Step(
        "dhc",
        "dhc.md",
        "das run dhc-best --set constraints.from=runs/pl94 --data runs/linked --out runs/dhc",
        out="runs/dhc",
    ),
    Step(
        "ages", "dhc-ages.md", "das ages runs/dhc --level Tract --first 12", out="ages-Tract.html"
    ),
)

#: Its intervals, of a county: 25 replicates of a whole state take the hour that all may take.
BEST_COUNTY = (
    *(replace(step, files=dict.fromkeys(step.files, BRISTOL)) for step in BEST[:3]),
    Step(
        "intervals",
        "dhc.md",
        "das intervals runs/dhc --replicates 25 --table P12 --level County --earlier runs/pl94",
    ),
)

#: What an attacker rebuilds of a small county.
ATTACK = (
    Step(
        "redistricting",
        "reconstruction.md",
        "das run pl94-2010 --data ri2010_bristol_44001.pl.zip --out red",
        files={"ri2010_bristol_44001.pl.zip": BRISTOL},
        out="red",
    ),
    Step(
        "records",
        "reconstruction.md",
        "das data simulate dhc --blocks ri2010_bristol_44001.pl.zip --out linked --seed 1",
        out="linked",
    ),
    Step(
        "dhc",
        "reconstruction.md",
        "das run dhc-2020 --set constraints.from=red --data linked --out dhc",
        out="dhc",
        called="runs/dhc",
    ),
    Step("reconstruct", "reconstruction.md", "das risk reconstruct dhc --truth linked"),
    Step(
        "sdhc",
        "sdhc.md",
        "das run sdhc-2020 --data FOLDER --set sdhc.dhc=runs/dhc --out runs/sdhc",
        {"FOLDER": "linked"},
        out="runs/sdhc",
    ),
    Step(
        "link with targets",
        "linked.md",
        "das link runs/dhc --targets runs/sdhc --out DIR",
        {"DIR": "link"},
        out="link",
    ),
    Step(
        "who is in the link",
        "linked.md",
        "das risk link runs/dhc --truth RECORDS --linked DIR",
        {"RECORDS": "linked", "DIR": "link"},
    ),
    Step("agreement", "by-task.md", "das evaluate RELEASE --agreement", {"RELEASE": "dhc"}),
)

#: Measurements that are commands of benchmarks, as docs name them: 28 tracts of real persons, and a
#: twentieth of the nation.
BENCHMARKS = (
    Step("28 tracts", "", "python -m benchmarks.dhc --only tracts"),
    Step(
        "a twentieth of the nation",
        "",
        "python -m benchmarks.nation --share 0.05 --method topdown --engine dask",
    ),
)

WHOLE: dict[str, tuple[Step, ...]] = {
    "matrix": MATRIX,
    "plans": PLANS,
    "packaged": PACKAGED,
    "state-dhc": STATE_DHC,
    "best": BEST,
    "best-county": BEST_COUNTY,
    "attack": ATTACK,
    "benchmarks": BENCHMARKS,
}
