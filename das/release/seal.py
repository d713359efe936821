"""A release is sealed: its privacy statement digests all that it holds, itself and its page included.

Whoever alters a file can alter its digest too: a seal finds accidents, and what was altered without care. What a
statement says is computed again by :mod:`das.release.verify`, not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from das.files.release import statement
from das.files.run import run_directory
from das.files.run.ledger import Attempt, digests
from das.report.privacy import privacy_page
from das.version import __version__


def seal(release: Path, said: Mapping[str, Any], name: str, attempts: Iterable[Attempt] = ()) -> dict[str, Any]:
    """Write the statement ``said`` and its page, with the digests of all that is there now; returns it as written.
    Measurements that are among ``attempts`` are not read again."""
    whole = {**said, "software": software(), "digests": digests(release, attempts)}
    run_directory.write_text(release / statement.PAGE, page(whole, name))
    whole["digests"][statement.PAGE] = run_directory.digest(release / statement.PAGE)
    whole["digests"][statement.NAME] = statement.own_digest(whole)
    run_directory.write_json(release / statement.NAME, whole)
    return whole


def page(said: Mapping[str, Any], name: str) -> str:
    """The page of a statement. It shows the digests of the other files."""
    others = {k: v for k, v in said["digests"].items() if k not in (statement.NAME, statement.PAGE)}
    return privacy_page({**said, "digests": others}, name)


def software() -> dict[str, str]:
    """What the bytes of a page depend on."""
    return {"das": __version__, **{name: version(name) for name in ("jinja2", "matplotlib")}}
