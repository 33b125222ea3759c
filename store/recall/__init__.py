"""Recall: arms that score units by words and by meaning, and their fusion.

Public names: `Recaller` (recaller), `RecallQuery`, `RecallAnswer`, `Recalled` (query).
"""
