"""The ledger: the work of each turn, claims and leases, deliveries, and quarantined rows."""
