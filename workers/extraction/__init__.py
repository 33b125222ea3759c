"""The extraction stage: derives entities and facts of a turn by rules or an LLM, written once."""
