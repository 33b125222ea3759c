"""The ledger: undone work of each turn, claims and leases, deliveries, dead letters."""
