"""One tree of errors. Each says what is wrong, where, and what to do about it.

The exit code of the command line is an attribute of the class: 2 if the user can fix the problem
(arguments, configuration, input), 3 if a run failed for another reason."""

from __future__ import annotations

#: The most characters of each part of a message. Input is quoted in it, and may have any length.
LONGEST = {"where": 300, "what": 1000, "remedy": 400}


class DasError(Exception):
    """The root. ``str(error)`` is one message for a person: ``where: what; remedy``, each of
    bounded length, without characters that command a terminal."""

    exit_code = 3

    def __init__(self, what: str, *, where: object = None, remedy: str | None = None) -> None:
        what = bounded(what, LONGEST["what"])
        where = None if where is None else bounded(str(where), LONGEST["where"])
        remedy = None if remedy is None else bounded(remedy, LONGEST["remedy"])
        self.what, self.where, self.remedy = what, where, remedy
        prefix = f"{where}: " if where is not None else ""
        suffix = f"\n  what to do: {remedy}" if remedy else ""
        super().__init__(f"{prefix}{what}{suffix}")


def bounded(text: str, most: int) -> str:
    """``text``, without its middle if it is too long. Control characters, except ends of lines,
    become their codes.

    >>> bounded("abcdefghijklmnopqrstuvwxyz", 11), bounded("a\\x1b[2J", 99)
    ('abcdef[...]vwxyz', 'a\\\\x1b[2J')"""
    if len(text) > most:
        text = f"{text[: most - most // 2]}[...]{text[-(most // 2) :]}"
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


class UserError(DasError):
    """Something that the user gave and can fix."""

    exit_code = 2


class SpecError(UserError):
    """A configuration that does not say one complete, consistent run."""


class PluginError(UserError):
    """A publication, reader, protection method or command whose package does not provide it."""


class InputError(UserError):
    """An input file that is not what it should be."""


class ReleaseError(UserError):
    """A release directory that cannot be read back: incomplete, altered or of another layout."""


class RegisterError(UserError):
    """An office's register that refuses what would pass its cap, or that was altered or restored."""


class PrivacyError(DasError):
    """An operation that would break the stated guarantee. Nothing is released."""


class InfeasibleError(DasError):
    """Constraints that no histogram satisfies together."""


class SolverError(DasError):
    """A solve that ended without an acceptable certificate."""


class StoreError(DasError):
    """A store that existed and does not answer as it should. Its content is whole; missing files
    can be sent again."""
