"""What the memory plugin keeps: namespaces, which are banks, and memories, which are units of origin `memory` there."""
