"""A link of random small tracts, or a proof that there is none: a small part of
``benchmarks.small_links``."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.small_links import linked_as_proved, random_tract
from das.errors import InputError
from das.tools.link.linking import link_tract


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_small_tracts_have_a_link_or_none_can_be(first: int) -> None:
    assert all(linked_as_proved(np.random.default_rng(i))[1] for i in range(first, first + 4))


def test_people_without_housing_are_refused() -> None:
    """The first random tract with persons at home where there is no unit."""
    for case in range(40):
        given = random_tract(np.random.default_rng(case))
        if not linked_as_proved(np.random.default_rng(case))[0]:
            with pytest.raises(InputError, match="no housing units"):
                link_tract(given)
            return
    pytest.fail("every random tract has a link")
