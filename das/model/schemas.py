"""The schemas that have names, each built when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from das.model.redistricting import E2E_1940, H1, PL94
from das.model.schema import Schema


class _Named(Mapping[str, Schema]):
    """Schemas by name. Asking which names there are builds none."""

    def __init__(self, made: Mapping[str, Callable[[], Schema]]) -> None:
        self._made = made

    def __getitem__(self, name: str) -> Schema:
        return self._made[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _dhcp() -> Schema:
    from das.model.dhc.persons import DHCP

    return DHCP


def _dhch() -> Schema:
    from das.model.dhc.households import DHCH

    return DHCH


def _tenvacgq() -> Schema:
    from das.model.dhc.units import TENVACGQ

    return TENVACGQ


SCHEMAS: Mapping[str, Schema] = _Named(
    {
        "pl94": lambda: PL94,
        "h1": lambda: H1,
        "1940-e2e": lambda: E2E_1940,
        "dhcp": _dhcp,
        "dhch": _dhch,
        "tenvacgq": _tenvacgq,
    }
)
