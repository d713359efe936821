"""Where in the text of a JSON file a value stands, for messages that name the line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')

RecordKey = str | int


def line_of(text: str, path: tuple[RecordKey, ...]) -> int:
    """The line, from 1, on which the value at ``path`` (keys and indices) begins; where there is
    none, that of the longest part of the path that is there. ``text`` is valid JSON.

    >>> line_of('{"a": 1,\\n "b": [2,\\n 3]}', ("b", 1))
    3
    """
    found = {p: at for p, at in _values(text) if p == path[: len(p)]}
    return text.count("\n", 0, found[max(found, key=len)]) + 1


def _values(text: str) -> Iterator[tuple[tuple[RecordKey, ...], int]]:
    """Every value, as its path and its offset, in order."""
    path: list[RecordKey] = []
    open_: list[str] = []
    key_next = False
    for token in _TOKEN.finditer(text):
        t = token[0]
        if t in "}]":
            open_.pop()
            path.pop()
        elif t == ",":
            if open_[-1] == "[":
                path[-1] = int(path[-1]) + 1
            key_next = open_[-1] == "{"
        elif t == ":":
            key_next = False
        elif key_next:
            path[-1] = json.loads(t)
        else:
            yield tuple(path), token.start()
            if t in "{[":
                open_.append(t)
                path.append("" if t == "{" else 0)
                key_next = t == "{"
