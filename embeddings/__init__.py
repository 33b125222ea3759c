"""Embeddings: the protocol of embedders, which every package may import, and the models that implement it."""
