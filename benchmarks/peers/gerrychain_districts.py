"""Runs in the environment of GerryChain: districts of blocks with the adults of a linked
population, and some steps of a chain over them. Argument: a CSV file with a row for each block:
``block``, ``persons``, ``adults``.

Real districts need the map of the blocks. Here each block has the one before and the one behind it
as neighbors, and every seventh one."""

from __future__ import annotations

import csv
import json
import sys
from functools import partial
from importlib.metadata import version

import networkx
from gerrychain import Graph, MarkovChain, Partition, accept, constraints, proposals, updaters

DISTRICTS, STEPS = 2, 20


def main(path: str) -> None:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    graph = networkx.Graph()
    for i, row in enumerate(rows):
        graph.add_node(i, persons=int(row["persons"]), adults=int(row["adults"]))
        graph.add_edges_from((i - j, i) for j in (1, 7) if i >= j)
    people = [int(r["persons"]) for r in rows]
    seen, district = 0, {}
    for i, n in enumerate(people):
        district[i] = min(DISTRICTS - 1, seen * DISTRICTS // max(1, sum(people)))
        seen += n
    start = Partition(
        Graph.from_networkx(graph),
        assignment=district,
        updaters={name: updaters.Tally(name, alias=name) for name in ("persons", "adults")},
    )
    propose = partial(
        proposals.recom,
        pop_col="persons",
        pop_target=sum(people) / DISTRICTS,
        epsilon=0.2,
        node_repeats=0,
    )
    within = constraints.within_percent_of_ideal_population(start, 0.5, pop_key="persons")
    chain = MarkovChain(propose, [within], accept.always_accept, start, STEPS)
    steps = [(sum(p["persons"].values()), sum(p["adults"].values())) for p in chain]
    found = {
        "version": version("gerrychain"),
        "steps": len(steps),
        "persons": steps[0][0],
        "adults": steps[0][1],
        "constant": len(set(steps)) == 1,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
