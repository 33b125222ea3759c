"""The protocol of a stage: the size of its claims, its work, and the results of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from store.ledger.ledger import Claim, Outcome
from store.ledger.stages import Stage


@dataclass(frozen=True, slots=True)
class ClaimSize:
    """How much a stage claims at once: at most `streams`, and of each the first `rows` rows.

    A piece of work is one stream, or the streams of one bank (`by_bank`), or some streams of a tenant (`together`).
    `at_once`: pieces worked on at the same time; each needs a connection, on which the server plans every statement
    anew.
    `oldest_first_after`: claim the newest first, after all rows that were accepted longer ago than this;
    without it the oldest first.
    `most_bytes`: limit for the bytes of all turns of a claim, so that many large ones are not read at once.
    `grace_s`: seconds that work under way gets to end when the worker is told to stop.
    """

    streams: int
    rows: int
    together: int = 1
    by_bank: bool = False
    at_once: int | None = None
    oldest_first_after: timedelta | None = None
    most_bytes: int = 1_048_576
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Worked:
    """The result of a piece of work: how rows ended, and which stages have something to do now."""

    outcomes: Sequence[Outcome] = ()
    ready_stages: frozenset[Stage] = frozenset()


class StageWork(Protocol):
    """A stage. `work` writes its result and closes the claims in one transaction, or raises.

    Two stages differ, and say how: the gateway records each step of a delivery, and projection works inside its
    transaction.
    """

    @property
    def stage(self) -> Stage:
        """The stage whose ledger rows it works on."""
        ...

    @property
    def claim_size(self) -> ClaimSize:
        """How much it claims at once."""
        ...

    async def work(self, claims: Sequence[Claim]) -> Worked:
        """Do the work of these claims (one, or as many as its size puts together).

        It holds no connection while it waits for a model or another service. Raises LeaseLost when the claim is gone,
        Transient and Permanent on purpose, anything else by accident.
        """
        ...


@runtime_checkable
class Gated(Protocol):
    """A stage that at times claims less work than its claim size says."""

    def at_most(self, streams: int) -> int:
        """Return how many streams to claim now, at most `streams`."""
        ...
