r"""How fast exact discrete Gaussian noise is drawn, next to OpenDP's ``make_gaussian``.

Draws per second of one core at variances from 1/2 to 10^4; 500/99 is a production value. Tables of
thresholds are made before the clock starts, and their time is given. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from time import process_time

from benchmarks.common import Figures, timed
from benchmarks.peers import PeerUnavailable, ask, environment
from das.noise import discrete_gaussian, entropy

VARIANCES = (Fraction(1, 2), Fraction(500, 99), Fraction(100), Fraction(10_000))
FASTEST, RATIO = 1e8, 1000.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampler", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer-draws", type=int, default=20_000)
    given = parser.parse_args(arguments)
    figures = Figures("sampler")
    ours = {s: _rates(figures, s, given.repeats) for s in VARIANCES}
    try:
        python = environment("opendp", ("opendp",))
        numbers = [str(float(s)) for s in VARIANCES]
        peer = ask(
            python, "opendp_gaussian.py", str(given.peer_draws), str(given.repeats), *numbers
        )
    except PeerUnavailable as why:
        figures.skipped("ratio to OpenDP", str(why))
        return
    for s in VARIANCES:
        theirs = peer["per_second"][str(float(s))]
        figures(
            f"ratio to OpenDP, sigma^2 = {s}",
            ours[s] / theirs,
            "times",
            at_least=RATIO,
            ours=ours[s],
            opendp=theirs,
            opendp_version=peer["version"],
            opendp_draws=given.peer_draws,
        )


def _rates(figures: Figures, sigma_sq: Fraction, repeats: int) -> float:
    """Print draws per second at 10^6 and 10^7 draws; return the former."""
    source = entropy.system()
    began = process_time()
    discrete_gaussian.sample(sigma_sq, 1000, source)
    first = process_time() - began
    rates = []
    for size in (10**6, 10**7):
        t = timed(partial(discrete_gaussian.sample, sigma_sq, size, source), repeats)
        rates.append(size / t.cpu)
        figures(
            f"draws per second, sigma^2 = {sigma_sq}, {size:.0e} draws",
            rates[-1],
            "draws/s/core",
            at_least=FASTEST,
            seconds=t.seconds,
            table_seconds=first,
        )
    return rates[0]


if __name__ == "__main__":
    main()
