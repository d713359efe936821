"""All benchmarks, one after another, each in a process of its own: memory and caches are nobody
else's.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks import NAMES


def main() -> int:
    """Run them all; 1 if one could not finish (a target that is missed is a figure, not a
    failure).
    """
    failed = [
        n
        for n in NAMES
        if subprocess.run([sys.executable, "-m", f"benchmarks.{n}"], check=False).returncode
    ]
    if failed:
        print(f"these did not finish: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
