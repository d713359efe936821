"""The exact epsilons of packaged configurations, which come with the package
(:mod:`das.files.kept_epsilons`).

``python -m docs.kept`` runs the commands below in processes of their own with an empty cache, and
writes what they computed. A test runs some of them again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from das.accounting.worst import WorstLoss
from das.files import kept_epsilons, packaged

#: Configurations whose packaged data a run takes. The others are only checked.
RUNS = ("1940", "kazan-reiter", "pl94-2010", "pl94-2010-areas", "pl94-2010-best", "pl94-2010-fair")
#: Configurations of pure differential privacy: their epsilons are sums.
PURE = ("1940-pure-dp", "detailed-dhc")


def commands() -> list[list[str]]:
    """Arguments of ``das``: every packaged configuration and list of sources, and the runs."""
    return [
        *(
            [what, name]
            for what in ("check", "account")
            for name in packaged.names()
            if name not in PURE
        ),
        *(["account", name] for name in packaged.accounts()),
        *(["run", name, "--out", name] for name in RUNS),
    ]


def computed(asked: Iterable[list[str]]) -> dict[str, WorstLoss]:
    """What commands compute when nothing is kept, by key."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, kept_epsilons.FOLDER: folder, kept_epsilons.WITHOUT: "1"}
        for arguments in asked:
            subprocess.run(
                [sys.executable, "-m", "das", *arguments],
                cwd=folder,
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        (path,) = Path(folder).glob("epsilons-*")
        return kept_epsilons.written_in(path)


def main() -> None:
    lines = sorted(computed(commands()).items())
    text = ",\n".join(f'"{key}": {json.dumps([at.low, at.high, at.at])}' for key, at in lines)
    kept_epsilons.PACKAGED.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
