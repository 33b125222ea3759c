"""Derived state: what is counted and computed from the log, disposable and rebuilt by replay."""
