"""The perimeter between a platform's agents and a memory plugin of contract v1.

`perimeter.Perimeter` is the core: the caller comes from a key, the caller's namespaces from a tree of workspaces that
is read at every call; secrets are replaced before a text is sent, and memories of an organisation are marked when read.
`client.PluginClient` is the client of the plugin; `tools` and `http` are the interfaces for agents and platforms.
"""
