"""What is remembered: turns, units, documents, directives, links and corrections, written through the log."""
