"""Embeddings: the protocol of embedders, which every package may import, and the models that implement it.

As the lowest package it also holds what every other uses: the retry loop (`retry`) and the names of this machine
(`loopback`).
"""
