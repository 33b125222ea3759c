"""Counting what a stack holds, straight from its database."""

import asyncio
from collections.abc import Callable

from sqlalchemy import NullPool, text
from sqlalchemy.exc import SQLAlchemyError

from deploy.local.stack import Stack
from store.connections import create_owner_engine
from tests.patience import PATIENCE_S, wait_until

#: Work of any stage that has not ended.
UNDONE = "select count(*) from afterturn.ledger_t where undone"
#: A look is a connection of its own, which costs the stack as much as a turn does.
LOOK_AGAIN_S = 0.2


def ask(stack: Stack, query: str) -> int | None:
    """Run one counting query as the owner, who sees every host; None while the server is down."""
    return asyncio.run(_ask(stack.owner_url.get_secret_value(), query))


async def _ask(url: str, query: str) -> int | None:
    engine = create_owner_engine(url, timeout_s=5, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            found: int | None = (await connection.execute(text(query))).scalar()
            return found
    except (OSError, SQLAlchemyError):
        return None
    finally:
        await engine.dispose()


def wait_for(
    stack: Stack, query: str, enough: Callable[[int], bool], what: str, patience_s: float = PATIENCE_S
) -> None:
    """Wait until a count is as it should be."""

    def holds() -> bool:
        found = ask(stack, query)
        return found is not None and enough(found)

    wait_until(holds, what, patience_s, pause_s=LOOK_AGAIN_S)


def count(stack: Stack, query: str) -> int:
    """Run one counting query on a server that is up."""
    found = ask(stack, query)
    assert found is not None
    return found
