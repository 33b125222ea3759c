"""What is true lives here: the event log, its projections, the ledger and recall."""
