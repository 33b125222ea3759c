"""Serves memory plugin contract v1: `wire` has its requests and answers, validated as the contract says.

`app.PluginApp` answers its seven routes over any `store.PluginStore`.
"""
