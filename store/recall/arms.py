"""The arms: each finds units and scores what all of them found; one that fails is left out and named in the answer."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from store.recall.pool import CandidatePool
from store.recall.state import ArmResult, RecallState


class Arm(Protocol):
    """One way to find units; it applies the question's filters itself."""

    @property
    def name(self) -> str:
        """The arm's name in answers, explanations and `without`."""
        ...

    @property
    def needs_vector(self) -> bool:
        """Whether the arm searches by the question's vector; the others may be queried before the model is done."""
        ...

    @property
    def weight(self) -> float:
        """The weight of the arm's scores in the sum, where a lexical score has weight 1."""
        ...

    async def find(self, connection: AsyncConnection, state: RecallState) -> ArmResult:
        """Return the arm's best units of the bank, and its scores, inside the tenant's transaction."""
        ...


class ArmFailed(Exception):
    """An arm failed in the transaction that all arms share and thereby aborted it; its error is the cause."""


async def query_arms(connection: AsyncConnection, arms: Sequence[Arm], state: RecallState, *, apart: bool) -> None:
    """Query one arm after the other and fill `state.found`; with `apart`, each in a savepoint, so that others survive.

    Savepoints cost round trips, so they are used only after an arm has failed: without them, the first failure
    raises ArmFailed.
    """
    for arm in arms:
        try:
            state.found[arm.name] = await (
                _query_in_savepoint(connection, arm, state) if apart else arm.find(connection, state)
            )
        except Exception as error:  # after an error of any kind the other arms answer
            if not apart:
                raise ArmFailed(arm.name) from error
            state.degraded.append(f"{arm.name}: {type(error).__name__}")
        state.steps.done(arm.name)


def score_pool(
    found: Mapping[str, ArmResult], pool: CandidatePool
) -> tuple[Mapping[str, NDArray[np.float64]], Sequence[str]]:
    """Return each arm's scores of the pool, shape (len(pool),), and the arms that failed to score it, with errors."""
    scores: dict[str, NDArray[np.float64]] = {}
    failed = []
    for name, arm in found.items():
        try:
            scores[name] = _check_scores(arm.score(pool), len(pool))
        except Exception as error:  # noqa: BLE001 - after an error of any kind the other arms answer
            failed.append(f"{name}: {type(error).__name__}")
    return scores, failed


async def _query_in_savepoint(connection: AsyncConnection, arm: Arm, state: RecallState) -> ArmResult:
    async with connection.begin_nested():
        return await arm.find(connection, state)


def _check_scores(scores: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the scores if there is a finite one for each unit, else raise ValueError: NaN would upset the order."""
    if scores.shape != (count,) or not np.isfinite(scores).all():
        raise ValueError("an arm's scores are not one number for each unit")
    return scores
