"""Nothing gets out of the box but through ``open``."""

from __future__ import annotations

import copy
import json
import logging
import operator
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest

from das.errors import PrivacyError
from das.model.confidential import Confidential

SECRET = "four people live at 12 Elm Street"


@pytest.fixture
def box() -> Confidential[str]:
    return Confidential(SECRET)


def test_open_gives_the_value_for_a_reason(box: Confidential[str]) -> None:
    assert box.open("to test") == SECRET


@pytest.mark.parametrize("reason", ["", "  ", "\n"])
def test_open_wants_a_reason(box: Confidential[str], reason: str) -> None:
    with pytest.raises(PrivacyError, match="stated reason"):
        box.open(reason)


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        "{}".format,
        "{!r}".format,
        "{!s:>40}".format,
        lambda b: f"{b}",
        lambda b: f"{[b]} {{'x': {b!r}}}",
        lambda b: "%s %r" % (b, b),  # noqa: UP031
        lambda b: ascii([b]),
        lambda b: repr(np.array(b, dtype=object)),
        lambda b: logging.LogRecord("n", 20, "p", 1, "value %s", (b,), None).getMessage(),
    ],
)
def test_it_prints_as_confidential(box: Confidential[str], show: Callable[[Any], str]) -> None:
    text = show(box)
    assert "<confidential>" in text
    assert "Elm" not in text


@pytest.mark.parametrize(
    "leak",
    [
        *(lambda b, p=p: pickle.dumps(b, protocol=p) for p in range(pickle.HIGHEST_PROTOCOL + 1)),
        lambda b: pickle.dumps({"rows": [b]}),
        copy.copy,
        copy.deepcopy,
        lambda b: copy.deepcopy([b]),
        hash,
        lambda b: {b},
        iter,
        list,
        bool,
        lambda b: b or 1,
        lambda b: b == b,
        lambda b: b == SECRET,
        lambda b: b != SECRET,
        lambda b: operator.eq(SECRET, b),
        lambda b: SECRET in b,
        lambda b: b in [SECRET],
    ],
)
def test_it_refuses_to_be_copied_compared_or_walked(
    box: Confidential[str], leak: Callable[[Any], object]
) -> None:
    with pytest.raises(PrivacyError, match="confidential value"):
        leak(box)


@pytest.mark.parametrize(
    "leak",
    [
        json.dumps,
        vars,
        len,
        lambda b: b + "",
        lambda b: b[0],
        lambda b: b < SECRET,
        lambda b: format(b, ">40"),
        int,
    ],
)
def test_it_is_nothing_that_json_or_arithmetic_knows(
    box: Confidential[str], leak: Callable[[Any], object]
) -> None:
    with pytest.raises(TypeError) as caught:
        leak(box)
    assert "Elm" not in str(caught.value)


def test_it_takes_no_other_attributes(box: Confidential[str]) -> None:
    with pytest.raises(AttributeError):
        box.note = SECRET  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Holder:
    name: str
    truth: Confidential[str]


def test_a_dataclass_around_it_leaks_nothing(box: Confidential[str]) -> None:
    holder = Holder("x", box)
    assert "Elm" not in repr(holder)
    for leak in (asdict, pickle.dumps, hash, copy.deepcopy):
        with pytest.raises(PrivacyError):
            leak(holder)
    with pytest.raises(PrivacyError):
        _ = holder == Holder("x", Confidential(SECRET))


def test_errors_do_not_quote_the_value(box: Confidential[str]) -> None:
    with pytest.raises(PrivacyError) as caught:
        pickle.dumps(box)
    assert "Elm" not in str(caught.value)
