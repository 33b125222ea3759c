"""Storage of the memory plugin: namespaces are banks, memories are units of origin `memory`."""
