"""The MCP interface: memory tools for agents that speak the Model Context Protocol."""
