"""``python -m das``, and the command ``das``."""

from __future__ import annotations

import codecs
import gc
import sys
from io import TextIOWrapper


def run() -> None:
    """Ctrl-C while the command line itself is loaded ends as it does later
    (:mod:`das.cli.kit.lazy`)."""
    # what is loaded and counted stays: to look for cycles is a tenth of a short command
    gc.set_threshold(50_000, 20, 100)
    if isinstance(sys.stdout, TextIOWrapper) and codecs.lookup(sys.stdout.encoding).name != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # it may have no sign for plus or minus
    try:
        from das.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("das: interrupted\n")
        sys.exit(130)
    main()


if __name__ == "__main__":
    run()
