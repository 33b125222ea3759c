"""Derived state: counts and computed rows, disposable and rebuilt by replay."""
