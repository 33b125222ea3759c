"""What the memory finds when it is asked: arms that score units by word and by meaning, and their fusion.

Public names: `Recaller` (recaller), `RecallQuery`, `RecallAnswer`, `Recalled` (query).
"""
