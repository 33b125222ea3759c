"""Cut-over from a platform's table `agent_memories` to a memory plugin of contract v1, and back.

`backfill` copies, `verify` compares, `reverse` lists and writes back memories written since; `transfer` exports and
imports. Everything may be run again: ids are kept, so that nothing is written twice.
"""
