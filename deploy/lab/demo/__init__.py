"""The demo: a conversation of our own walks through the whole pipeline and is asked for afterwards.

Hands out nothing; `deploy.cli` starts it.
"""
