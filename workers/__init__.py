"""The workers: one file per stage, claimed from the ledger; Redis only notifies.

`broker` has dramatiq's actors and worker, `runner` claims and works, `sweeper` finds missed work; `gateway`,
`extraction.stage`, `enrichment`, `embedding` and `projection` are the stages, `recall` answers recall jobs. Only
`deploy` builds them.
"""
