"""LLM enrichment: a model reads a turn besides the rules; only what the turn's text supports is kept."""
