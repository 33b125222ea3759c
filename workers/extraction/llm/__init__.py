"""LLM enrichment: a model beside the rules reads a turn; only what the turn bears out is believed."""
