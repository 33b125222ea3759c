"""Operators leave ten consoles open; each streams the figures of the service. No attack by intent."""

import asyncio

from deploy.lab.bench.attacks.attack import attack
from deploy.lab.bench.attacks.attacker import Attacker
from store.database import Database
from store.settings import DatabaseSettings
from store.tenancy.operator_keys import OperatorKeys

CONSOLES = 10
#: How long they are open, in seconds; a stream ends with the reading after that.
SECONDS = 10


@attack("consoles", "ten open consoles stream the figures", seconds=SECONDS)
async def _open_consoles(attacker: Attacker) -> None:
    key = await _create_operator_key(attacker)
    stream = f"/api/v1/operator/figures/stream?for_s={SECONDS}"
    await asyncio.gather(*(attacker.call("GET", stream, key=key) for _ in range(CONSOLES)))


async def _create_operator_key(attacker: Attacker) -> str:
    stack = attacker.stack
    database = Database(DatabaseSettings(url=stack.database_url, operator_url=stack.operator_url, pool_size=1))
    try:
        return await OperatorKeys(database).create("ten consoles")
    finally:
        await database.close()
