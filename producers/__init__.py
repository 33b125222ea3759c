"""The interfaces: the facade, HTTP, MCP, the memory plugin, the queue, and the client."""
