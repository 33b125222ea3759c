"""The rules of a turn's items, pure: what is current, what is new, what is kept of a history, what is said of recall."""
