"""Runs in the environment of OpenDP: the time of its discrete Gaussian. Arguments: draws, repeats,
sigma^2 ...
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from statistics import median
from time import process_time
from typing import Any

import opendp.prelude as dp


def seconds(measurement: Any, zeros: list[int], repeats: int) -> float:
    measurement(zeros)
    times = []
    for _ in range(repeats):
        began = process_time()
        measurement(zeros)
        times.append(process_time() - began)
    return median(times)


def main(draws: int, repeats: int, *variances: float) -> None:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    zeros = [0] * draws
    rates = {
        str(s): draws / seconds(dp.m.make_gaussian(*space, scale=s**0.5), zeros, repeats)
        for s in variances
    }
    print(json.dumps({"version": version("opendp"), "per_second": rates}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *map(float, sys.argv[3:]))
