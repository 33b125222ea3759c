"""The contract kit tests a memory plugin (contract v1) from outside, over HTTP, and imports no other package of ours.

GUIDE.md is for authors of plugins; `flat_plugin.py` is its example; `command.contract_test_command` is the command.
"""
