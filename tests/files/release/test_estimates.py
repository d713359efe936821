"""Unbiased estimates: what is read is what was written, and only that."""

from itertools import combinations, product

import numpy as np
import pytest

from das.errors import ReleaseError
from das.files.release.estimates import EstimateReader, folder_of, write
from das.model.schema import Attribute, Schema
from das.model.spine import Spine

TOY = Schema("toy", (Attribute("sex", ("male", "female")),))
SPINE = Spine(
    ("S", "C"),
    (np.array(["s"]), np.array(["c1", "c2", "c3"])),
    (np.zeros(1, int), np.zeros(3, int)),
)


def test_round_trip(tmp_path):
    rng = np.random.default_rng(1)
    answers = {
        q: (rng.normal(size=(3, TOY.query(q).answers)), rng.random((3, TOY.query(q).answers)))
        for q in ("total", "sex")
    }
    write(
        folder_of(tmp_path, "housing"),
        "C",
        TOY,
        SPINE,
        ((TOY.query(q), *a) for q, a in answers.items()),
    )
    reader = EstimateReader(tmp_path / "estimates-housing", SPINE)
    assert reader.queries("C") == ("total", "sex")
    assert reader.queries("S") == ()
    for query in ("sex", "total", "sex"):
        for start, stop in ((0, 3), (1, 2)):
            value, error = reader.read("C", query, start, stop)
            assert np.array_equal(
                value, answers[query][0][start:stop]
            )  # every digit: 300 million must come out whole
            assert np.array_equal(error, answers[query][1][start:stop].astype(np.float32))


def test_estimates_of_other_units_are_refused(tmp_path):
    write(tmp_path, "C", TOY, SPINE, [(TOY.query("sex"), np.zeros((3, 2)), np.ones((3, 2)))])
    other = Spine(SPINE.levels, (np.array(["s"]), np.array(["c1", "c2", "c4"])), SPINE.parent)
    with pytest.raises(ReleaseError, match="not those of the units"):
        EstimateReader(tmp_path, other).read("C", "sex", 0, 3)
    (tmp_path / "S.parquet").mkdir()
    (tmp_path / "S.parquet" / "part-00000.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReleaseError, match="not a readable Parquet file"):
        EstimateReader(tmp_path, SPINE).queries("S")


def given(spine, shift=0.0):
    """Estimates that tell the unit by its code."""
    unit = shift + WHOLE.find("C", spine.codes[1])
    return [
        (TOY.query(q), unit[:, None] + np.linspace(0, 0.5, n), unit[:, None] + np.ones(n))
        for q, n in (("total", 1), ("sex", 2))
    ]


WHOLE = Spine(
    ("S", "C"),
    (np.array(["s"]), np.array([f"c{i}" for i in range(6)])),
    (np.zeros(1, int), np.zeros(6, int)),
)


@pytest.fixture
def cut(tmp_path):
    """Two subtrees, whose units lie among each other, as on an optimized spine."""
    for subtree, units in ((1, [0, 1, 4]), (2, [2, 3, 5])):
        spine = WHOLE.restricted("C", np.array(units))
        write(tmp_path, "C", TOY, spine, given(spine), subtree)
    return tmp_path


def test_the_whole_is_that_of_its_subtrees(cut):
    reader = EstimateReader(cut, WHOLE)
    assert reader.queries("C") == ("total", "sex")
    for (query, value, error), (start, stop) in product(given(WHOLE), combinations(range(7), 2)):
        got = reader.read("C", query.name, start, stop)
        assert np.array_equal(got[0], value[start:stop])
        assert np.array_equal(got[1], error[start:stop].astype(np.float32))
    second = WHOLE.restricted("C", np.array([2, 3, 5]))
    (cut / "C.parquet" / "part-00001.parquet").write_bytes(b"")
    assert EstimateReader(cut, second, subtree=2).read("C", "total", 1, 3)[0].tolist() == [
        [3.0],
        [5.0],
    ]


def test_parts_that_do_not_make_up_the_level_are_refused(cut):
    first, second = (cut / "C.parquet" / f"part-0000{i}.parquet" for i in (1, 2))
    spine = WHOLE.restricted("C", np.array([2, 3, 5]))
    for damage, word in (
        (second.unlink, "not those of the units of 'C'"),
        (lambda: second.write_bytes(first.read_bytes()), "not those of the units of 'C'"),
        (lambda: write(cut, "C", TOY, spine, given(spine)[:1], 2), "no estimates of 'sex'"),
        (
            lambda: write(
                cut, "C", TOY, spine, [(TOY.query("sex"), np.zeros((3, 1)), np.ones((3, 1)))], 2
            ),
            "other numbers",
        ),
    ):
        damage()
        with pytest.raises(ReleaseError, match=word):
            EstimateReader(cut, WHOLE).read("C", "sex", 0, 6)
