"""Memory: turns, units, documents, directives, links and corrections, written through the log."""
