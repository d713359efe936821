"""What a folder of the Detailed DHC is of, by the names of its files."""

from __future__ import annotations

from pathlib import Path

from das.errors import InputError
from das.model.adaptive import PRODUCTS


def product_of(folder: Path) -> str:
    """Whose records a folder has, by their name. Raises :class:`InputError` where it has those of
    no product, or of several."""
    found = [p.name for p in PRODUCTS.values() if any(folder.glob(f"{p.record}-records*"))]
    if len(found) != 1:
        each = ", ".join(f"{p.record}-records.txt" for p in PRODUCTS.values())
        raise InputError(
            f"has records of {' and of '.join(found) or 'no product'}",
            where=folder,
            remedy=f"name a folder with one of {each}",
        )
    return found[0]
