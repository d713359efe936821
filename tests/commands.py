"""Commands called in this process: their exit code, their output, and their messages on stderr."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from das.cli import main

#: The exit code, standard output and standard error of a call.
Das = Callable[..., tuple[int, str, str]]


class Commands:
    """Of one test, which holds standard output and error. Lines have 200 characters."""

    def __init__(self, streams: pytest.CaptureFixture[bytes]) -> None:
        self._streams = streams

    def named(self, name: str) -> Das:
        """One of the commands, such as ``run status``, with its arguments still to come."""

        def call(*args: object) -> tuple[int, str, str]:
            self._streams.readouterr()
            with pytest.raises(SystemExit) as end:
                main([*name.split(), *map(str, args)])
            out, err = self._streams.readouterr()
            return int(end.value.code or 0), out.decode(), err.decode()

        return call
