"""Projections are disposable: here they are made again from the log, compared row for row, and put in place.

`verify` compares, `swap` compares and then replaces, `repair` mends one host or bank in place.
"""

from store.replay.report import ReplayReport, TableReport
from store.replay.run import repair_scope, swap_tables, verify_log
from store.replay.shadow import ReplayScope

__all__ = ["ReplayReport", "ReplayScope", "TableReport", "repair_scope", "swap_tables", "verify_log"]
