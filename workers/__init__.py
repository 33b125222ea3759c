"""The workers: one file per stage, claimed from the ledger; Redis only notifies.

Hands out `create_broker`, `register`, `pools` and `worker` (broker), `Runner` (runner), `Sweeper` (sweeper), the
stages (`gateway`, `extraction.stage`, `embedding`, `projection`) and `RecallWork` (recall); only `deploy` builds them.
"""
