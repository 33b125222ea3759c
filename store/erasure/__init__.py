"""Erasing units, sessions, users and banks: from the log, from every row, from work in progress.

Exports `Erasures`, which opens, continues and accounts for erasures, and `ErasureTarget`, the target of one.
"""

from store.erasure.erasures import Erasures
from store.erasure.requests import ErasureTarget, Kind, Receipt

__all__ = ["ErasureTarget", "Erasures", "Kind", "Receipt"]
