"""The contract kit tests a memory plugin (contract v1) over HTTP, and imports nothing of ours but the client.

GUIDE.md is for authors of plugins; `flat_plugin.py` is its example; `command.contract_test_command` is the command.
"""
