"""Replay: rebuilds projections from the log, compares them row by row, and swaps or repairs them.

`verify_log` compares, `swap_tables` compares and then replaces, `repair_scope` mends one tenant or bank in place.
"""

from store.replay.report import ReplayReport, TableReport
from store.replay.run import repair_scope, swap_tables, verify_log
from store.replay.shadow import ReplayScope

__all__ = ["ReplayReport", "ReplayScope", "TableReport", "repair_scope", "swap_tables", "verify_log"]
