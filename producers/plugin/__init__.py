"""Memory plugin contract v1 on our side: `wire` has the objects that cross it, checked as the contract says.

`app.PluginApp` answers its seven routes before any `store.PluginStore`.
"""
