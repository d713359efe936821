"""What the benchmarks share: figures as JSON lines, clocks, where real data is."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "configs" / "pl94-2010.toml"
CONFIG_AREAS = ROOT / "configs" / "pl94-2010-areas.toml"
CONFIG_BEST = ROOT / "configs" / "pl94-2010-best.toml"
CONFIG_FAIR = ROOT / "configs" / "pl94-2010-fair.toml"
RHODE_ISLAND = Path("pl94_2010", "ri", "ri2010.pl.zip")
VALUES = np.random.default_rng(0).random(20_000)
METRICS = Path("reference", "metrics_20230403_flat.csv.gz")


class Figures:
    """Prints figures: one JSON line each, with the target and whether it is met."""

    def __init__(self, benchmark: str) -> None:
        self.benchmark = benchmark

    def __call__(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        **more: object,
    ) -> None:
        """``more`` are further fields of the line: figures measured with this one, or an
        explanation.
        """
        line: dict[str, object] = {
            "benchmark": self.benchmark,
            "name": name,
            "value": short(value),
            "unit": unit,
        }
        if at_least is not None:
            line |= {"target": f">= {at_least:g}", "met": bool(value >= at_least)}
        if at_most is not None:
            line |= {"target": f"<= {at_most:g}", "met": bool(value <= at_most)}
        self.put(line | {k: short(v) for k, v in more.items()})

    def skipped(self, name: str, why: str) -> None:
        self.put({"benchmark": self.benchmark, "name": name, "skipped": why})

    def put(self, line: dict[str, object]) -> None:
        """Prints a line, with the machine that it was measured on."""
        print(json.dumps(line | machine(), ensure_ascii=False), flush=True)


def compared(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> tuple[float, float]:
    """The ratio of the means of paired runs, and its standard error: that of the mean of
    ``ours / mean - theirs / mean``, to first order. An error of 0 is like any other."""
    ratio = float(ours.mean() / theirs.mean())
    if len(ours) < 2:
        return ratio, float("nan")
    apart = ours / ours.mean() - theirs / theirs.mean() if ours.any() else np.zeros(len(ours))
    return ratio, ratio * float(apart.std(ddof=1)) / len(ours) ** 0.5


def short(value: object) -> object:
    """Floats to four digits, also in lists; everything else as it is."""
    if isinstance(value, list):
        return [short(v) for v in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def machine() -> dict[str, object]:
    """What a figure depends on besides the code; ``load`` is the other load of the machine, where
    it reports it, and ``pace_ms`` its present speed."""
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    return {
        "cores": os.cpu_count(),
        "load": load,
        "pace_ms": short(pace()),
        "cpu": _cpu(),
        "python": platform.python_version(),
    }


def pace() -> float:
    """Milliseconds of a fixed piece of work on one core, the best of five. A machine that is shared
    with others has days on which all takes three times as long: seconds compare where the pace
    does."""

    def work() -> None:
        total = 0
        for i in range(200_000):
            total += i & 7
        for _ in range(20):
            np.sort(VALUES) @ VALUES

    return 1000 * min(_seconds(work) for _ in range(5))


def _seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")),
        platform.machine(),
    )


@dataclass(frozen=True)
class Timing:
    """Medians over the repeats: ``seconds`` by the clock on the wall, ``cpu`` of this process's
    processors.
    """

    seconds: float
    cpu: float


def timed(work: Callable[[], object], repeats: int) -> Timing:
    """Time ``work`` on one thread, after one call that does not count where there are repeats.

    Linear-algebra libraries let their idle threads spin for some milliseconds; the clock starts
    when that is over."""
    wall, cpu = [], []
    with threadpool_limits(1):
        if repeats > 1:
            work()
        sleep(0.2)
        for _ in range(repeats):
            began, began_cpu = perf_counter(), process_time()
            work()
            wall.append(perf_counter() - began)
            cpu.append(process_time() - began_cpu)
    return Timing(median(wall), median(cpu))


def shared_data(wanted: Path) -> Path | None:
    """A file of the real public data, under ``DAS_SHARED_DATA`` or ``../shared/data`` next to the
    checkout.
    """
    named = os.environ.get("DAS_SHARED_DATA")
    path = (Path(named) if named else ROOT.parent / "shared" / "data") / wanted
    return path if path.is_file() else None


def no_data(wanted: Path) -> str:
    return (
        f"there is no {wanted.as_posix()} under DAS_SHARED_DATA or ../shared/data beside the"
        " checkout"
    )
