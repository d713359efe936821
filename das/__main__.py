"""``python -m das``, and the command ``das``."""

from __future__ import annotations

import sys


def run() -> None:
    """Ctrl-C while the command line itself is loaded ends as it does later
    (:mod:`das.cli.lazy`).
    """
    try:
        from das.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("das: interrupted\n")
        sys.exit(130)
    main()


if __name__ == "__main__":
    run()
