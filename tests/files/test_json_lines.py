"""Lines of values in JSON text, against text in which each line says what it holds."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from das.files.messages import line_of

keys = st.text(max_size=4)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(tree, dict) and tree:
        return [p for k, v in tree.items() for p in leaves(v, (*path, k))]
    if isinstance(tree, list) and tree:
        return [p for i, v in enumerate(tree) for p in leaves(v, (*path, i))]
    return [path]


def marked(tree: Any, at: tuple[Any, ...]) -> Any:
    """The tree with the value at ``at`` replaced by one that occurs nowhere else."""
    if not at:
        return "<<here>>"
    out = dict(tree) if isinstance(tree, dict) else list(tree)
    out[at[0]] = marked(out[at[0]], at[1:])
    return out


@given(trees, st.data())
def test_the_line_of_any_value(tree: Any, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from(leaves(tree)))
    text = json.dumps(marked(tree, at), indent=2, ensure_ascii=data.draw(st.booleans()))
    lines = text.split("\n")
    assert "<<here>>" in lines[line_of(text, at) - 1]


def test_what_is_not_there_has_the_line_of_what_would_hold_it() -> None:
    text = '{\n "a": {\n  "b": [\n   1]}}'
    assert line_of(text, ("a", "b", 0)) == 4
    assert line_of(text, ("a", "b", 7)) == 3
    assert line_of(text, ("a", "c", "d")) == 2
    assert line_of(text, ("z",)) == 1
