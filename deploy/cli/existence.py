"""Checks that a named tenant or bank exists: a misspelt name is an error, not an empty result."""

from collections.abc import Sequence
from difflib import get_close_matches
from uuid import UUID

from deploy.cli.operator_command import run_on_database
from deploy.cli.output import exit_with
from deploy.components.bootstrap import HOST
from deploy.local.stack import Stack
from store import identity
from store.clock import DatabaseClock
from store.database import Database
from store.tenancy.banks import Banks
from store.tenancy.keys import Keys
from store.tenancy.spaces import Space

#: Most names that are suggested for an unknown name.
NAMES_SHOWN = 10
#: Banks that are searched for similar names.
BANKS_SEARCHED = 1000


def require_existing(stack: Stack, host: str | None, bank: str | None) -> None:
    """Exit 2 when a named tenant (name or id) or bank does not exist; the message lists similar names.

    A bank without a host belongs to the default host.
    """
    if host is not None or bank is not None:
        wrong = run_on_database(stack, lambda database: _find_missing(database, host or HOST, bank))
        if wrong is not None:
            raise exit_with(wrong, 2)


def find_host_id(host: str) -> UUID:
    """Return the id of a tenant, given by name or id."""
    try:
        return UUID(host)
    except ValueError:
        return identity.host_id(host)


def describe_missing(missing: str, introduced: str, name: str, there: Sequence[str]) -> str:
    """Return a message that says what is missing and lists existing names, those similar to `name` first."""
    if not there:
        return f"{missing}: there is none yet; a first turn makes one"
    alike = get_close_matches(name, there, NAMES_SHOWN)
    shown = [*alike, *(one for one in there if one not in alike)][:NAMES_SHOWN]
    more = " and more" if len(there) > len(shown) else ""
    return f"{missing}: name one that is there; {introduced} {', '.join(shown)}{more}"


async def _find_missing(database: Database, host: str, bank: str | None) -> str | None:
    """Return a message when the tenant or the bank does not exist, else None."""
    hosts = await Keys(database).hosts()
    if find_host_id(host) not in hosts:
        return describe_missing(f"there is no tenant {host!r}", "the tenants are", host, sorted(hosts.values()))
    banks = Banks(database, await DatabaseClock.asked(database))
    if bank is None or await banks.known(find_host_id(host), bank):
        return None
    there = await banks.list(find_host_id(host), Space(), limit=BANKS_SEARCHED)
    return describe_missing(f"tenant {host!r} has no bank {bank!r}", "it has", bank, [one.bank for one in there])
