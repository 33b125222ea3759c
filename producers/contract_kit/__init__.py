"""The contract kit tests a memory plugin (contract v1) over HTTP, and imports nothing of ours but the client.

GUIDE.md is for authors of plugins; `flat_plugin.py` is its example.
`cases` are its tests, `suite` their plugin of pytest, `command` a run of both.
"""
