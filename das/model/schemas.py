"""The schemas that have names, each loaded when it is asked for."""

from __future__ import annotations

from das.model.schema import Schema
from das.plugins import Plugins

SCHEMAS: Plugins[Schema] = Plugins(
    "das.schemas", "schema", Schema, ("pl94", "h1", "1940-e2e", "dhcp", "dhch", "tenvacgq")
)
