"""Selects the tools of a key: its own switches, else its tenant's, else the default."""

from collections.abc import Mapping

from producers.mcp.settings import ToolSettings
from producers.mcp.tools import TOOLS, McpTool
from store import identity
from store.tenancy.keys import Grant


class ToolSwitches:
    """The switches that select a key's tools. A tool that is switched off does not exist for it."""

    def __init__(self, settings: ToolSettings) -> None:
        """Keep the settings of the switches."""
        self._settings = settings
        self._tenants = {identity.host_id(name): switches for name, switches in settings.tenants.items()}

    def tools_of(self, grant: Grant) -> Mapping[str, McpTool]:
        """Return the tools that a key may use, by name."""
        layers = (self._settings.keys.get(grant.key_id, {}), self._tenants.get(grant.host_id, {}), self._settings.each)
        merged: dict[str, bool] = {}
        for layer in layers:
            merged = {**{str(name): on for name, on in layer.items()}, **merged}
        return {name: tool for name, tool in TOOLS.items() if merged.get(name, tool.on)}
