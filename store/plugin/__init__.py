"""Stores what the memory plugin writes: namespaces are banks, memories are units of origin `memory`."""
