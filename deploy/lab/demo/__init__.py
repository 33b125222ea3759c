"""The demo: a prepared conversation passes through the whole pipeline, and questions about it are asked.

Exports nothing; `deploy.cli` starts it.
"""
