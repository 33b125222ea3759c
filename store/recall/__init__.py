"""Recall: arms that score units by words, by meaning, by time and by pins, and the fusion of their scores.

Public names: `Recaller` (recaller), `RecallQuery`, `RecallAnswer`, `Recalled` (query).
"""
