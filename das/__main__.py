"""``python -m das``."""

from das.cli import main

if __name__ == "__main__":
    main()
