"""What tells of the truth prints as its name: `print(das.run(...))` is a line, and no line has an
error or a count.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import das
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.error_rows import ErrorRow
from das.model.frozen import NoRepr, NoReprRows
from das.model.histogram import Histogram
from das.model.records import Blocks, Extract, Records
from das.model.schema import Attribute, Schema
from das.release.outcome import Outcome
from das.truth.assessment import AssessmentInput

PACKAGE = Path(das.__file__).parent
#: Where errors are computed or true counts are held in the open: every dataclass there is closed,
#: but those that hold parameters or what is public.
HOLD_THE_TRUTH = (
    "model/error_rows.py",
    "model/histogram.py",
    "model/records.py",
    "truth/evaluation.py",
    "evaluate/comparison.py",
    "evaluate/errors.py",
    "evaluate/impossible.py",
    "tools/risk/truth/exposure.py",
    "publications/counts/report.py",
    "truth/prepared.py",
    "truth/assessment.py",
    "api/arrays/counting.py",
)
PUBLIC = {"Source", "DifferenceRow", "Published", "_Level", "Outlook", "Moments"}
#: Names in the annotation of a field that make its class one that holds the truth.
TRUTH = (
    "ErrorRow",
    "TableRow",
    "ImpossibleRow",
    "Comparison",
    "SweepRow",
    "SummaryRow",
    "PairedRow",
    "TwoErrorsRow",
    "ExposureRow",
    "Records",
)


def dataclasses_of(path: Path) -> Iterator[type]:
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and any(
            "dataclass" in ast.dump(d) for d in node.decorator_list
        ):
            yield getattr(importlib.import_module(module), node.name)


@pytest.mark.parametrize("name", HOLD_THE_TRUTH)
def test_every_class_that_holds_the_truth_is_closed(name: str) -> None:
    found = [c for c in dataclasses_of(PACKAGE / name) if c.__name__ not in PUBLIC]
    assert found
    for c in found:
        assert c.__repr__ is NoRepr.__repr__, c


def test_no_other_class_prints_a_field_that_holds_the_truth() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "@dataclass" not in (text := path.read_text(encoding="utf-8")) or not any(
            t in text for t in TRUTH
        ):
            continue
        for c in dataclasses_of(path):
            open_ = [
                f.name
                for f in dataclasses.fields(c)
                if f.repr and any(t in str(f.type) for t in TRUTH)
            ]
            assert not open_ or issubclass(c, NoRepr), (c, open_)


def row(mae: float) -> ErrorRow:
    return ErrorRow("Block", "total", "nmf", "all", 12345, mae, 2.0, 0.5, 1, 2, 3, None)


def test_what_a_run_returns_is_a_line() -> None:
    outcome = Outcome(RunDirectory(Path("runs/one")), 7.5, rows={"persons": [row(98765.4)] * 9_000})
    assert str(outcome) == f"{outcome!r}"
    assert "runs/one" in repr(outcome)
    assert len(repr(outcome)) < 200
    assert not any(x in repr(outcome) for x in ("98765", "12345", "Block"))
    assert repr(NoReprRows(outcome.rows["persons"])) == "<9000 rows: confidential>"
    assert repr(outcome.rows["persons"][0]) == "<ErrorRow: confidential>"
    assert "NOT PRIVATE" not in repr(outcome) + outcome._repr_html_()
    seeded = replace(outcome, private=False)
    assert repr(seeded).startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in seeded._repr_html_()


def test_true_counts_do_not_print() -> None:
    schema = Schema("s", (Attribute("a", ("x", "y")),))
    one = np.array([0])
    records, h = (
        Records(schema, one, one, np.array([98765])),
        Histogram.from_triplets(1, 2, one, one, np.array([98765])),
    )
    extract = Extract(
        Blocks({"Block": np.array(["1"])}, np.array([[98765, 0]])), Confidential(records), {}, ()
    )
    held = AssessmentInput(
        None, {}, {"persons": {"Block": Confidential(h)}}, {"persons": {"Block": h}}
    )  # type: ignore[arg-type]
    for value in (records, h, extract, extract.blocks, held, [h], {"a": records}):
        assert "98765" not in repr(value)
        assert len(repr(value)) < 100
