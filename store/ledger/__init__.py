"""The ledger: what is still to be done for each turn, claims and leases, deliveries, dead letters."""
