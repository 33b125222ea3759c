"""Selects the tools of a key: its own switches, else its tenant's, else the default."""

from collections.abc import Mapping

from producers.mcp.settings import ToolSettings
from producers.mcp.tools import TOOLS, McpTool
from store import identity
from store.tenancy.keys import Grant


class ToolSwitches:
    """Answers which tools there are for a key. A tool that is switched off does not exist for it."""

    def __init__(self, settings: ToolSettings) -> None:
        """Go by these settings."""
        self._settings = settings
        self._tenants = {identity.host_id(name): switches for name, switches in settings.tenants.items()}

    def tools_of(self, grant: Grant) -> Mapping[str, McpTool]:
        """Return the tools that a key is served, by name."""
        layers = (self._settings.keys.get(grant.key_id, {}), self._tenants.get(grant.host_id, {}), self._settings.each)
        merged: dict[str, bool] = {}
        for layer in layers:
            merged = {**{str(name): on for name, on in layer.items()}, **merged}
        return {name: tool for name, tool in TOOLS.items() if merged.get(name, tool.on)}
