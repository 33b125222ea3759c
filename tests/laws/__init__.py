"""The laws of the architecture, each broken on purpose to see that somebody notices."""
