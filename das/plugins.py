"""What installed packages add: publications, readers of records, protection methods and commands.

A package declares each as an entry point, and so does this one, in its ``pyproject.toml``. What a
clone declares is read from that file, so that it holds for its code also after ``git pull``. A value
is loaded when its name is asked for. It names its other parts, such as the half of a publication
that sees the truth, as ``"module:Name"``; :meth:`Plugins.load_part` loads these on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from das.errors import PluginError

#: The name of this package where packages are found.
DISTRIBUTION = "topdown-das"

#: Of a clone of this package: its declarations beside its code.
PROJECT = Path(__file__).parents[1] / "pyproject.toml"

Plugin = TypeVar("Plugin")


class Declaration(NamedTuple):
    """Where a plugin is, ``"module:Name"``, and the ``package`` that says so, with its version."""

    value: str
    package: str


class Plugins(Mapping[str, Plugin]):
    """The plugins of the entry-point ``group``, by name: those ``first`` in their order, which come
    with ``das``, then all others in alphabetical order.

    ``noun`` names one in messages. Each must be an instance of ``kind``; with ``classes``, a
    subclass of it. Raises :class:`PluginError` if one of ``first`` is not declared. Raises it for a
    name that two packages declare, or whose value cannot be loaded."""

    def __init__(
        self, group: str, noun: str, kind: type, first: Sequence[str], *, classes: bool = False
    ) -> None:
        self.group, self.noun, self.first = group, noun, tuple(first)
        self._kind, self._classes = kind, classes

    def __iter__(self) -> Iterator[str]:
        return iter((*self.first, *sorted(self._declared.keys() - set(self.first))))

    def __len__(self) -> int:
        return len(self._declared)

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __getitem__(self, name: str) -> Plugin:
        value = self._declared[name][0].value
        plugin: Any = self._load(name, value)
        is_class = isinstance(plugin, type) and issubclass(plugin, self._kind)
        if not (is_class if self._classes else isinstance(plugin, self._kind)):
            wanted = f"{self._kind.__module__}.{self._kind.__qualname__}"
            raise PluginError(
                f"the {self.noun} {name!r} of {self._declared[name][0].package} is no"
                f" {'class below' if self._classes else 'value of'} {wanted}",
                where=value,
                remedy="its author must name one in the package's pyproject.toml",
            )
        return plugin

    def load_part(self, name: str, which: str) -> Any:
        """What the attribute ``which`` of the plugin ``name`` names."""
        plugin = self[name]
        if not (value := getattr(plugin, which, None)):
            raise PluginError(
                f"the {self.noun} {name!r} of {self._declared[name][0].package} has no {which!r}",
                where=self._declared[name][0].value,
                remedy='its author must add one, such as "module:Name"',
            )
        return self._load(name, value)

    @property
    def _declared(self) -> Mapping[str, Sequence[Declaration]]:
        declared = _declarations().get(self.group, {})
        if lacking := [name for name in self.first if name not in declared]:
            raise PluginError(
                "das is not installed in this environment, or its installation is older than its"
                f" {self.noun} {lacking[0]!r}",
                remedy="install it; in the folder of a clone: pip install -e .",
            )
        return declared

    def _load(self, name: str, value: str) -> Any:
        packages = [declaration.package for declaration in self._declared[name]]
        if len(packages) > 1:
            raise PluginError(
                f"{' and '.join(sorted(packages))} both declare the {self.noun} {name!r}",
                where=self.group,
                remedy="uninstall one of these packages",
            )
        module, _, path = value.partition(":")
        try:
            found: Any = import_module(module)
            for attribute in filter(None, path.split(".")):
                found = getattr(found, attribute)
        except MemoryError:
            raise
        except Exception as error:
            raise PluginError(
                f"the {self.noun} {name!r} of {packages[0]} cannot be loaded:"
                f" {type(error).__name__}: {error}",
                where=value,
                remedy="install that package again, in a version for this das, or uninstall it",
            ) from error
        return found


@cache
def _declarations() -> Mapping[str, Mapping[str, Sequence[Declaration]]]:
    """By group and name, what all installed packages declare in groups of ours, and a clone."""
    from importlib.metadata import Distribution, entry_points  # it takes longer to load than click

    out: dict[str, dict[str, list[Declaration]]] = {}
    clone, packages = _clone(), dict[Distribution | None, str]()
    for group, names in clone.items():
        out[group] = {name: [Declaration(value, DISTRIBUTION)] for name, value in names.items()}
    found = entry_points()
    for group in (group for group in found.groups if group.startswith("das.")):
        for entry in found.select(group=group):
            by = entry.dist
            if by not in packages:
                packages[by] = f"{by.name} {by.version}" if by else "an unnamed package"
            if clone and packages[by].startswith(f"{DISTRIBUTION} "):
                continue
            declared = Declaration(entry.value, packages[by])
            out.setdefault(group, {}).setdefault(entry.name, []).append(declared)
    return out


def _clone() -> Mapping[str, Mapping[str, str]]:
    """What the project file of a clone declares, by group; nothing of an installed package."""
    if not PROJECT.is_file():
        return {}
    import tomllib

    try:
        project = tomllib.loads(PROJECT.read_text(encoding="utf-8")).get("project")
        if not isinstance(project, dict) or project.get("name") != DISTRIBUTION:
            return {}
        return {group: dict(names) for group, names in project["entry-points"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PluginError(
            f"what this clone declares cannot be read: {type(error).__name__}: {error}",
            where=str(PROJECT),
            remedy="repair that file, for instance what a merge has left in it",
        ) from error


@dataclass(frozen=True)
class Reader:
    """A format of records. It is loaded to verify a release too, so its module imports no records.

    ``module`` has ``read(paths, schema, progress=...)``, which returns an
    :class:`das.model.records.Extract`, and if parts of its input can be read by themselves,
    ``states(paths)``, which returns the files of each. ``notes`` are sentences for the privacy
    statement; ``assigned`` has, by attribute of persons that the module may have to assign, the
    sentence that says so. ``structures``: whether the input says how many housing units and
    facilities each place has. ``options``: which of the keys ``columns`` (then required),
    ``encoding`` and ``places`` of a configuration ``read`` takes as arguments."""

    module: str
    notes: tuple[str, ...] = ()
    assigned: Mapping[str, str] = field(default_factory=dict)
    structures: bool = True
    options: frozenset[str] = frozenset()


READERS: Plugins[Reader] = Plugins(
    "das.readers", "reader", Reader, ("pl94-2010", "pl94-2020", "ext1940", "ppmf", "table")
)
