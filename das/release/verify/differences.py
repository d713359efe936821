"""Where two trees of JSON differ, ignoring rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from das.files.json_lines import RecordKey

#: Relative difference of floats that another machine may give.
CLOSE = 1e-9


def differences(
    again: Any, said: Any, at: tuple[RecordKey, ...]
) -> Iterator[tuple[tuple[RecordKey, ...], Any, Any]]:
    """Path, computed and stated value wherever two trees differ. Floats may differ by rounding;
    intervals that both hold one number overlap."""
    if isinstance(again, dict) and isinstance(said, dict):
        for key in {**again, **said}:
            yield from differences(again.get(key), said.get(key), (*at, key))
    elif at and at[-1] == "pld" and _is_interval(said):
        if not (
            0 <= said[0] <= said[1]
            and said[0] <= again[1]
            and again[0] <= said[1] <= again[1] * (1 + CLOSE)
        ):
            yield at, again, said
    elif isinstance(again, list) and isinstance(said, list):
        for i in range(max(len(again), len(said))):
            one, other = (x[i] if i < len(x) else None for x in (again, said))
            yield from differences(one, other, (*at, i))
    elif isinstance(again, float) and isinstance(said, int | float):
        if not abs(again - said) <= CLOSE * abs(again):
            yield at, again, said
    elif again != said or type(again) is not type(said):
        yield at, again, said


def _is_interval(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(x, int | float) for x in value)
    )
