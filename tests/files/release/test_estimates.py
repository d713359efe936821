"""Unbiased estimates: what is read is what was written, and only that."""

import numpy as np
import pytest

from das.errors import ReleaseError
from das.files.release.estimates import EstimateReader, folder_of, write
from das.model.schema import Attribute, Schema
from das.model.spine import Spine

TOY = Schema("toy", (Attribute("sex", ("male", "female")),))
SPINE = Spine(("S", "C"), (np.array(["s"]), np.array(["c1", "c2", "c3"])), (np.zeros(1, int), np.zeros(3, int)))


def test_round_trip(tmp_path):
    rng = np.random.default_rng(1)
    answers = {
        q: (rng.normal(size=(3, TOY.query(q).answers)), rng.random((3, TOY.query(q).answers))) for q in ("total", "sex")
    }
    write(folder_of(tmp_path, "housing"), "C", TOY, SPINE, ((TOY.query(q), *a) for q, a in answers.items()))
    reader = EstimateReader(tmp_path / "estimates-housing", SPINE)
    assert reader.queries("C") == ("total", "sex")
    assert reader.queries("S") == ()
    for query in ("sex", "total", "sex"):
        for start, stop in ((0, 3), (1, 2)):
            value, error = reader.read("C", query, start, stop)
            assert np.array_equal(value, answers[query][0][start:stop])  # every digit: 300 million must come out whole
            assert np.array_equal(error, answers[query][1][start:stop].astype(np.float32))


def test_estimates_of_other_units_are_refused(tmp_path):
    write(tmp_path, "C", TOY, SPINE, [(TOY.query("sex"), np.zeros((3, 2)), np.ones((3, 2)))])
    other = Spine(SPINE.levels, (np.array(["s"]), np.array(["c1", "c2", "c4"])), SPINE.parent)
    with pytest.raises(ReleaseError, match="not those of the units"):
        EstimateReader(tmp_path, other).read("C", "sex", 0, 3)
    (tmp_path / "S.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReleaseError, match="not a readable Parquet file"):
        EstimateReader(tmp_path, SPINE).queries("S")
