"""What a command answers, and the one place that prints it: as JSON, or as text for a reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from das.cli.options import guarded, json_option


@dataclass(frozen=True)
class CommandAnswer:
    """``data``: what ``--json`` prints. ``show``: prints the same for a reader."""

    data: Any
    show: Callable[[], None]


def answering(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    """Give a command the option ``--json``, guard it, and print the answer that it returns."""

    @guarded
    @wraps(command)
    def answered(*args: Any, as_json: bool, **kwargs: Any) -> None:
        print_answer(command(*args, **kwargs), as_json)

    return json_option(answered)


def print_answer(answer: CommandAnswer, as_json: bool) -> None:
    """Print an answer. A command for which ``--json`` changes more than the form calls this
    itself."""
    if as_json:
        click.echo(json.dumps(answer.data, ensure_ascii=False))
    else:
        answer.show()
