"""The rules of a turn's items, pure: what is current, what is new, what a history keeps, what the reference holds."""
