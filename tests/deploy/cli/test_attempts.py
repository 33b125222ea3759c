"""`afterturn jobs show` and `gateway show` on a real database: what went wrong before a row came to its end."""

from datetime import timedelta

from store.ledger.ledger import Ledger, Outcome
from store.ledger.stages import Stage
from tests.deploy.operated import LEASE, Busy


async def put_off(busy: Busy, category: str, reason: str) -> None:
    """Fail at what is ready in extraction, to be tried again at once."""
    async with busy.opened() as database:
        ledger = Ledger(database)
        claims = await ledger.claim(Stage.EXTRACTION, streams=8, rows=8, lease=LEASE, worker="w", max_attempts=5)
        again = [Outcome(r.item_id, "pending", category, reason, timedelta(0)) for c in claims for r in c.rows]
        await ledger.end(claims, again)


async def test_the_story_of_a_dead_row_names_the_error_of_every_attempt(busy: Busy) -> None:
    await busy.append(("monday", "1"))
    await put_off(busy, "timeout", "slow")
    await put_off(busy, "database", "OperationalError")
    await busy.end(Stage.EXTRACTION)
    for command in ("jobs", "gateway"):
        told = (await busy.answer(command, "show", "monday/1"))["history"]
        assert {note["event"] for note in told} == {"attempt_failed"}
        details = [note["details"] for note in told]
        assert [(one["stage"], one["attempt"], one["category"], one["reason"]) for one in details] == [
            ("extraction", 1, "timeout", "slow"),
            ("extraction", 2, "database", "OperationalError"),
            ("extraction", 3, "internal", "Broken"),
        ]
        words = (await busy.run(command, "show", "monday/1")).stdout
        assert all(cause in words for cause in ("timeout", "OperationalError", "Broken"))
