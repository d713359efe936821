"""A method from a file of yours: ``path.py:Class``, the class of a :class:`ProtectionMethod`."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from das.errors import SpecError
from das.tools.protection.truth.method import ProtectionMethod


def own_method(spelled: str, folder: Path, where: str) -> type[ProtectionMethod]:
    """The class that ``file.py:Class`` names; the file is looked for in ``folder``, and run. Raises
    :class:`SpecError` where there is none."""
    file, _, name = spelled.rpartition(":")
    path = folder / file
    module_name = f"das_own_method_{path.stem}"
    found = spec_from_file_location(module_name, path) if path.is_file() else None
    if found is None or found.loader is None:
        raise SpecError(
            f"there is no file {path}", where=where, remedy="write file.py:Class, with its path"
        )
    module = module_from_spec(found)
    sys.modules[module_name] = module  # a dataclass looks its module up
    found.loader.exec_module(module)
    kind = getattr(module, name, None)
    if not (isinstance(kind, type) and issubclass(kind, ProtectionMethod)):
        raise SpecError(
            f"{path.name} has no method {name!r}",
            where=where,
            remedy="name a class below das.tools.protection.truth.method.ProtectionMethod",
        )
    return kind
