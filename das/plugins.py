"""What installed packages add: publications, readers of records, protection methods and commands.

A package declares each as an entry point, and so does this one, in its ``pyproject.toml``. A value
is loaded when its name is asked for. It names its other parts, such as the half of a publication
that sees the truth, as ``"module:Name"``; :meth:`Plugins.load_part` loads these on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from das.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Plugin = TypeVar("Plugin")


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
        found: Any = self._load(name, value)
        is_class = isinstance(found, type) and issubclass(found, self._kind)
        if not (is_class if self._classes else isinstance(found, self._kind)):
            wanted = f"{self._kind.__module__}.{self._kind.__qualname__}"
            raise PluginError(
                f"the {self.noun} {name!r} of {self._packages(name)[0]} is no"
                f" {'class below' if self._classes else 'value of'} {wanted}",
                where=value,
                remedy="its author must name one in the package's pyproject.toml",
            )
        return found

    def load_part(self, name: str, which: str) -> Any:
        """What the attribute ``which`` of the plugin ``name`` names."""
        plugin = self[name]
        if not (value := getattr(plugin, which, None)):
            raise PluginError(
                f"the {self.noun} {name!r} of {self._packages(name)[0]} has no {which!r}",
                where=self._declared[name][0].value,
                remedy='its author must add one, such as "module:Name"',
            )
        return self._load(name, value)

    @property
    def _declared(self) -> Mapping[str, Sequence[EntryPoint]]:
        found = _entry_points().get(self.group, {})
        if lacking := [name for name in self.first if name not in found]:
            raise PluginError(
                "das is not installed in this environment, or its installation is older than its"
                f" {self.noun} {lacking[0]!r}",
                remedy="install it; in the folder of a clone: pip install -e .",
            )
        return found

    def _packages(self, name: str) -> list[str]:
        """Who declares it."""
        of = [entry.dist for entry in self._declared[name]]
        return [f"{d.name} {d.version}" if d else "an unnamed package" for d in of]

    def _load(self, name: str, value: str) -> Any:
        packages = self._packages(name)
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
def _entry_points() -> Mapping[str, Mapping[str, Sequence[EntryPoint]]]:
    """By group and name, the entry points of all installed packages in groups of ours."""
    from importlib.metadata import entry_points  # it takes longer to load than click

    found = entry_points()
    out: dict[str, dict[str, list[EntryPoint]]] = {}
    for group in found.groups:
        if group.startswith("das."):
            for entry in found.select(group=group):
                out.setdefault(group, {}).setdefault(entry.name, []).append(entry)
    return out


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
