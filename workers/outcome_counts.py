"""Counts how pieces of work ended."""

import collections
from collections.abc import Sequence
from datetime import datetime

from store.ledger.ledger import Claim, Outcome, public_status
from workers.metrics import STAGE_AGE, STAGE_TOTAL


def count_outcomes(claims: Sequence[Claim], outcomes: Sequence[Outcome], now: datetime) -> None:
    """Count how the rows of one stage's claims ended; of a turn that is done, observe how long ago it was accepted."""
    rows = {row.item_id: row for claim in claims for row in claim.rows}
    ages, ended = list[float](), collections.Counter[str]()
    for outcome in outcomes:
        status = public_status(outcome.status)
        ended["retried" if status in {"pending", "running"} else status] += 1
        row = rows[outcome.item_id]
        if status == "done" and row.item_id == row.turn_id:
            ages.append(max(0.0, (now - row.accepted_at).total_seconds()))
    stage = claims[0].stage.value
    STAGE_AGE.labels(stage).observe_all(ages)
    for status, number in ended.items():
        STAGE_TOTAL.labels(stage, status).inc(number)
