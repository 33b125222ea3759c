"""The store: the event log, its projections, the ledger and recall."""
