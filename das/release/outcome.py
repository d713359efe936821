"""What a command has made: a run, or a release estimated again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from das.files.run.run_directory import RunDirectory
from das.model.error_rows import ErrorRow
from das.model.not_private import WARNING, Private


@dataclass(frozen=True, repr=False)
class Outcome:
    """What a run has written, and its errors. Fields that its publication does not have are empty.

    ``rows``: errors by universe, over units other than the published ones where ``own_spine``.
    ``settled``: levels whose facilities are settled at the level above, with that level.
    ``beside``: a comparison with the errors of another run, a record a line, with
    ``beside_title``. ``tables``: the number of rows of each. ``cost``: sentences on the cost of
    changes of records. Without the truth there are no errors. ``notes``: published files that
    could not be imported as they are, and pages that could not be made. ``was_finished``: the
    run to resume had ended, and nothing was done. ``private``: the noise was not seeded."""

    directory: RunDirectory
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    was_finished: bool = False
    private: Private = True
    rows: Mapping[str, Sequence[ErrorRow]] = field(default_factory=dict, repr=False)
    own_spine: bool = field(default=False, repr=False)
    settled: Mapping[str, str] = field(default_factory=dict, repr=False)
    beside: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    beside_title: str = field(default="", repr=False)
    tables: Mapping[str, int] = field(default_factory=dict, repr=False)
    cost: Sequence[str] = field(default=(), repr=False)

    @property
    def files(self) -> dict[str, Path]:
        """What a person opens of it, by what it is; what is confidential says so."""
        places = {
            "release": self.directory.release,
            "page": self.directory.page,
            "linked (experimental)": self.directory.linked,
            "report (confidential)": self.directory.report,
            "errors (confidential)": self.directory.errors,
        }
        return {name: path for name, path in places.items() if path.exists()}

    def _summary(self) -> str:
        done = "had ended already" if self.was_finished else f"written in {self.seconds:.1f} s"
        return f"{self.directory.root}: {done}"

    def __repr__(self) -> str:
        lines = [self._summary(), *(f"  {name:22} {path}" for name, path in self.files.items())]
        return "\n".join([*([] if self.private else [WARNING]), *lines, *self.notes])

    def _repr_html_(self) -> str:
        """For a notebook: links to the pages, which open from where the notebook lies."""
        links = "".join(
            f'<li><a href="{escape(quote(str(path)))}">{escape(name)}</a></li>'
            for name, path in self.files.items()
        )
        warning = "" if self.private else f"<p><b>{escape(WARNING)}</b></p>"
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"{warning}<p>{escape(self._summary())}</p><ul>{links}</ul>{notes}"
