"""The perimeter between a platform's agents and a memory plugin of contract v1.

`perimeter.Perimeter` is it: who calls comes from a key, what a caller reaches from a tree of workspaces that is read at
every call; secrets are replaced before anything leaves, and what an organisation shares is marked when it is read.
`client.PluginClient` speaks to the plugin, `tools` and `http` are how agents and people reach the perimeter.
"""
