"""``dictionary.csv`` of a release of the S-DHC: its files, columns and codes. A function of the
specification alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from das.files import atomic
from das.files.sdhc import tables
from das.files.sdhc.measurements import FOLDER, REGION_TYPES
from das.model.sdhc.published import LABELS, TITLES
from das.model.sdhc.sensitivity import PHSAFE
from das.model.sdhc.tables import ITERATIONS
from das.release import dictionary
from das.release.dictionary import NAME, DictionaryLine
from das.release.sdhc import OpenedSdhc

_OFFICIAL = {
    "REGION_ID": "1, or the FIPS code of a state",
    "REGION_TYPE": " or ".join(REGION_TYPES.values()),
    "ITERATION_CODE": "iteration of the table (not PH2 and PH6)",
    "<table>_DATA_CELL": "number of the cell",
    "COUNT": "the count with its noise: may be negative",
    "NOISE_DISTRIBUTION": "the law of the noise",
    "VARIANCE": "of the noise: sigma^2 of a discrete Gaussian",
}
_MODELLED = {
    "COUNT_NOISY": "sum of measurements (of a ratio _NUM and _DENOM)",
    "VARIANCE": "its variance",
    "MOE_NOISY": "its margin of error at 90 %",
    "PRED": "mean of a normal law cut off at 0, rounded: biased upwards near 0",
    "PRED_LO": "5 % quantile",
    "PRED_HI": "95 % quantile",
    "RATIO_PRED": "mean of the ratio of truncated normal laws",
}


def text(opened: OpenedSdhc) -> str:
    return dictionary.written(_lines(opened), opened.spec.run.private)


def write(opened: OpenedSdhc) -> None:
    atomic.write_text(opened.folder / NAME, text(opened))


def _lines(opened: OpenedSdhc) -> Iterator[DictionaryLine]:
    known = dict(dictionary.FILES)
    for file in ("spec.toml", "privacy.json", "privacy.html", "ledger.jsonl", NAME):
        yield DictionaryLine("", "file", file, "", "", known[file])
    yield DictionaryLine(
        "", "file", "report.html", "", "", "tables of the nation, and their errors"
    )
    file = f"{FOLDER}/*/part-00000-das.csv"
    says = "every noisy measurement in the layout of PHSafe; PH5_num and PH8_num follow from others"
    yield from _file(file, says, _OFFICIAL)
    if opened.spec.sdhc.mode == PHSAFE:
        file = "estimates/*/estimates/*_trunc_normal.csv"
        yield from _file(file, "what the Bureau's model makes of the measurements", _MODELLED)
    else:
        for table in TITLES:
            name = f"{tables.FOLDER}/{table}.csv"
            yield from _file(name, TITLES[table], tables.COLUMNS)
            for cell, label in LABELS[table].items():
                yield DictionaryLine("", "code", name, "cell", str(cell), label)
    for code, label in ITERATIONS.items():
        yield DictionaryLine("", "code", "", "iteration", code, label)


def _file(name: str, says: str, columns: Mapping[str, str]) -> Iterator[DictionaryLine]:
    yield DictionaryLine("", "file", name, "", "", says)
    for column, label in columns.items():
        yield DictionaryLine("", "column", name, column, "", label)
