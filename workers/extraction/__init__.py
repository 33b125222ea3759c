"""The extraction stage: what follows from a turn by rules or by a model, written once."""
