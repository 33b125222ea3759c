"""What happens after the turn: one file per stage, claimed from the ledger."""
