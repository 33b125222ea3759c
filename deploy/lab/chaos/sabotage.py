"""Sabotage: causes errors that must never happen, to prove that a chaos run detects them."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from sqlalchemy import text

from deploy.lab.chaos.database_observer import DatabaseObserver
from deploy.lab.chaos.gateway import GatewayHandle, read_message, run_module
from deploy.lab.chaos.moments import wait_until
from deploy.lab.chaos.relay_process import Tampering
from deploy.local.ports import LOOPBACK, find_free_port

#: Number of adds before the one that is tampered with.
ADDS_BEFORE = 10
#: Longest wait until there is a row to drop, in seconds.
LONGEST_S = 300.0

# Deletes the ledger row of a pending projection, unless a worker is claiming it at this moment.
DROP_ROW = text("""
    delete from afterturn.ledger_t l
     where (l.host_id, l.stage, l.item_id) = (
            select w.host_id, w.stage, w.item_id from afterturn.ledger_t w
             where w.stage = 'projection' and w.item_id = w.turn_id and w.undone and w.status = 'pending'
             order by w.position desc limit 1 for update skip locked)
    returning l.turn_id""")


# These make an accepted document or directive invisible, as if it had never been written.
DROP_DOCUMENT = text("""
    update afterturn.agent_memory_doc_t set active = false
     where (host_id, doc_id) = (select host_id, doc_id from afterturn.agent_memory_doc_t where active limit 1)
    returning 1""")
DROP_DIRECTIVE = text("""
    update afterturn.agent_memory_directive_t set active = false
     where (host_id, directive_id) = (
            select host_id, directive_id from afterturn.agent_memory_directive_t where active limit 1)
    returning 1""")


class Sabotage(StrEnum):
    """The kind of sabotage."""

    DOUBLE_SEND = "double-send"
    DROP = "drop"
    REORDER = "reorder"


#: The figures that must show each kind.
SEEN_IN = {
    Sabotage.DOUBLE_SEND: ("gateway_sent_twice",),
    Sabotage.DROP: ("lost", "documents_lost", "directives_lost"),
    Sabotage.REORDER: ("out_of_order",),
}


@contextmanager
def place_before_gateway(gateway: GatewayHandle, sabotage: Sabotage | None) -> Iterator[str]:
    """Yield the gateway's URL for workers: its own, or that of a relay that tampers with calls."""
    if sabotage in {None, Sabotage.DROP}:
        yield gateway.url
        return
    port, tampering = find_free_port(), Tampering(str(sabotage))
    arguments = (str(port), str(gateway.port), tampering, str(ADDS_BEFORE))
    with run_module("deploy.lab.chaos.relay_process", *arguments) as process:
        read_message(process)
        yield f"http://{LOOPBACK}:{port}"


async def drop_a_row(observer: DatabaseObserver) -> None:
    """Delete a pending ledger row, as soon as there is one."""
    await wait_until(lambda: _try_drop_row(observer), LONGEST_S)


async def drop_knowledge(observer: DatabaseObserver) -> None:
    """Deactivate one accepted document and one accepted directive."""
    for statement in (DROP_DOCUMENT, DROP_DIRECTIVE):
        await observer.query(statement)


async def _try_drop_row(observer: DatabaseObserver) -> bool:
    return bool(await observer.try_query(DROP_ROW))
