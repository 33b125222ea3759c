"""Erasing units, sessions, users and banks: from the log, from every row, from work in progress.

Hands out `Erasures`, which opens, continues and accounts for erasures, and `Target`, what is to be gone.
"""

from store.erasure.erasures import Erasures
from store.erasure.requests import Kind, Receipt, Target

__all__ = ["Erasures", "Kind", "Receipt", "Target"]
