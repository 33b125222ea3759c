"""The language of a bank: reads and changes it; words are re-indexed afterwards.

The language is the bank's own state, changed by an event. From then on words are written by the new rules, and
questions are analysed by both, until maintenance has analysed every older unit's words anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Row, Select, Text, Uuid, any_, bindparam, delete, func, null, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store import schema
from store.database import Database
from store.errors import NotFound, TurnBusy
from store.log.append import append_events
from store.log.catalog import EventType
from store.log.envelope import Origin, build_command
from store.log.locks import HOLD_BANK
from store.schema import BANK_LANGUAGE, in_bank, same_bank
from store.tenancy.recent_answers import RecentAnswers
from store.text.word_rules import AUTO, NONE, WordRules, rules_of, supported_languages

#: Seconds for which a process caches the rules of a host's banks.
BELIEVED_S = 5.0
#: The most hosts in the cache.
MOST_HOSTS = 10_000

_LANGUAGE, _BANK = BANK_LANGUAGE.c, schema.BANK.c
OF_HOST: Select[*tuple[Any, ...]] = select(_LANGUAGE.bank_id, _LANGUAGE.language, _LANGUAGE.former).where(
    _LANGUAGE.host_id == bindparam("host")
)
# The locks of an append, in its order; two changes of a bank exclude each other.
BANK: Select[*tuple[Any, ...]] = (
    select(
        _BANK.bank_name,
        _BANK.agent_def_id,
        _BANK.user_id,
        _BANK.disposition,
        _BANK.background,
        _BANK.aggregate_version,
        _BANK.expires_at,
        _LANGUAGE.language,
        _LANGUAGE.former,
    )
    .outerjoin_from(schema.BANK, BANK_LANGUAGE, same_bank(BANK_LANGUAGE, schema.BANK))
    .where(in_bank(schema.BANK), _BANK.active)
)
_FOLLOWING = insert(BANK_LANGUAGE)
FOLLOW = _FOLLOWING.on_conflict_do_update(
    index_elements=["host_id", "bank_id"],
    set_={
        "language": _FOLLOWING.excluded.language,
        "former": _FOLLOWING.excluded.former,
        "place": null(),
        "changed_at": _FOLLOWING.excluded.changed_at,
    },
)
# The language of a bank by its events; a language without rules here counts as none.
_SAID = _BANK.disposition["language"].astext
_NAMED = (
    select(_SAID.label("language"), _BANK.update_ts)
    .where(in_bank(schema.BANK), _BANK.active, any_(bindparam("known", type_=ARRAY(Text))) == _SAID)
    .subquery("named")
)
_USUAL_NAME = bindparam("usual", type_=Text)
REBUILD = (
    delete(BANK_LANGUAGE).where(
        in_bank(BANK_LANGUAGE),
        _LANGUAGE.language.is_distinct_from(func.coalesce(select(_NAMED.c.language).scalar_subquery(), _USUAL_NAME)),
    ),
    insert(BANK_LANGUAGE)
    .from_select(
        ["host_id", "bank_id", "language", "changed_at"],
        select(
            bindparam("host", type_=Uuid), bindparam("bank", type_=Uuid), _NAMED.c.language, _NAMED.c.update_ts
        ).where(_NAMED.c.language != _USUAL_NAME),
    )
    .on_conflict_do_nothing(),
)


@dataclass(frozen=True, slots=True)
class Rules:
    """The word rules of a bank: for new words, and for questions (several while older words still follow a change)."""

    writing: WordRules
    asking: tuple[WordRules, ...]


_USUAL = Rules(rules_of(AUTO), (rules_of(AUTO),))


class Languages:
    """A cache of banks' word rules, at most a few seconds old."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = RecentAnswers(self._read, BELIEVED_S, MOST_HOSTS)

    async def of(self, host: UUID) -> dict[UUID, Rules]:
        """Return the rules of a host's banks by id, for those that have others than the usual ones."""
        return await self._known.get(host) or {}

    async def _read(self, host: UUID) -> dict[UUID, Rules]:
        async with self._database.tenant(host) as connection:
            return await read_languages(connection, host)

    async def asking(self, host: UUID, bank: UUID) -> tuple[WordRules, ...]:
        """Return the rules by which a question to a bank is analysed."""
        return choose_rules(await self.of(host), bank).asking


async def read_languages(connection: AsyncConnection, host: UUID) -> dict[UUID, Rules]:
    """Read the current rules of a host's banks by id, for those that have others than the usual ones."""
    return {row.bank_id: _build_rules(row) for row in await connection.execute(OF_HOST, {"host": host})}


def choose_rules(rules: Mapping[UUID, Rules], bank: UUID) -> Rules:
    """Return the rules of a bank, the usual ones where it has no others."""
    return rules.get(bank, _USUAL)


def rules_for_writing(rules: Mapping[UUID, Rules], bank: UUID) -> WordRules:
    """Return the rules for new words of a bank."""
    return choose_rules(rules, bank).writing


def list_nameable_languages() -> list[str]:
    """Return the languages that a bank's state may name besides the usual one."""
    return [NONE, *supported_languages()]


async def rebuild_language(connection: AsyncConnection, host: UUID, bank: UUID) -> None:
    """Set the language of a bank's word rules to the one that its state names; its words stay unchanged."""
    for statement in REBUILD:
        await connection.execute(
            statement, {"host": host, "bank": bank, "known": list_nameable_languages(), "usual": AUTO}
        )


async def change_language(connection: AsyncConnection, origin: Origin, language: str) -> bool:
    """Set a bank's language, inside a tenant's transaction that writes nothing else; return whether it changed.

    `language` is `auto`, `none` or one of word_rules.supported_languages(). Raises NotFound, TurnBusy while the bank's
    words still follow the change before.
    """
    rules_of(language)
    await connection.execute(HOLD_BANK, {"bank": origin.bank})
    place = {"host": origin.host, "bank": origin.bank}
    found = (await connection.execute(BANK, place)).one_or_none()
    if found is None:
        raise NotFound("no such bank")
    known = found.language or AUTO
    if known == language:
        return False
    if found.former is not None:
        raise TurnBusy("the words of this bank still follow another change of its language")
    await append_events(
        connection, origin.host, [build_updated_event(origin, found, disposition={"language": language})]
    )
    row = {"host_id": origin.host, "bank_id": origin.bank, "language": language, "former": known}
    await connection.execute(FOLLOW, {**row, "changed_at": origin.at})
    return True


def _build_rules(row: Row[Any]) -> Rules:
    names: Sequence[str] = [row.language] if row.former is None else [row.language, row.former]
    rules = tuple(rules_of(name) for name in names)
    return Rules(rules[0], rules)


def build_updated_event(
    origin: Origin, bank: Row[Any], *, disposition: Mapping[str, Any] | None = None, **changes: object
) -> dict[str, Any]:
    """Return the event with the whole state of the bank (a row of BANK) and these changes, by the fields' names.

    `disposition`: changes of its disposition, which includes the language. None removes a field.
    """
    fields = {
        "bankName": bank.bank_name,
        "disposition": {**bank.disposition, **(disposition or {})},
        **({"agentDefId": bank.agent_def_id} if bank.agent_def_id else {}),
        **({"userId": bank.user_id} if bank.user_id else {}),
        **({"background": bank.background} if bank.background is not None else {}),
        **({"expiresAt": bank.expires_at} if bank.expires_at is not None else {}),
        **changes,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    version = bank.aggregate_version + 1
    return build_command(origin, EventType.BANK_UPDATED, fields, version=version, identity=uuid4())
