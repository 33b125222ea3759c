"""Embeddings: the protocol that every package may import, and its models."""
