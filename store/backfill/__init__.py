"""Brings memory over that agents of light-portal wrote directly into that platform's tables, as events of the log."""
