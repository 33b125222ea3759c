"""Two ways to write an agent's memory behind one protocol: commands to a portal, or SQL into the platform's own tables.

`open_memory_store` opens the one that the configuration names; commands are the default.
"""
