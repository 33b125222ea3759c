"""Compares derived state outside the log with what the pipeline computes, and rebuilds it."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from store.derived import bank_state
from store.derived.completion import complete_bank
from store.derived.entity_profiles import EntityName, resolve_aliases
from store.derived.facts import MANY_VALUED
from store.derived.postings import find_wrong_words
from store.replay.digest import NAMED, BankIdentity, find_first_differences
from store.replay.expected import EXPECTED, WORDS
from store.replay.report import DerivedStateReport, Difference
from store.replay.shadow import ReplayScope
from store.tenancy import languages

# Expected profiles (`name` and following columns) beside stored ones (`live_name` and following), ordered by stem. The
# stored profile of an entity that waits for a refresh is accepted.
PROFILES = text("""
    with said as materialized (
        select l.host_id, l.bank_id, l.entity_id, coalesce(nullif(l.name, ''), n.canonical_name) as name,
               coalesce(nullif(l.kind, ''), n.metadata->>'kind', '') as kind, l.mentions
          from afterturn.agent_memory_unit_entity_t l
          join afterturn.agent_memory_entity_t n
            on n.host_id = l.host_id and n.bank_id = l.bank_id and n.entity_id = l.entity_id
         where afterturn.in_scope(l.host_id, l.bank_id, :host, :bank) and l.counted
    ), changed as (
        select l.host_id, l.bank_id, l.entity_id from afterturn.agent_memory_unit_entity_t l
         where afterturn.in_scope(l.host_id, l.bank_id, :host, :bank) and l.counted <> (l.removed_at is null)
        union
        select s.host_id, s.bank_id, s.entity_id from afterturn.stale_entity_t s
            where afterturn.in_scope(s.host_id, s.bank_id, :host, :bank)
    ), named as (
        select distinct on (c.host_id, c.bank_id, c.entity_id) c.*
          from (select host_id, bank_id, entity_id, name, sum(mentions) as n from said group by 1, 2, 3, 4) c
         order by c.host_id, c.bank_id, c.entity_id, c.n desc, c.name
    ), kinds as (
        select distinct on (c.host_id, c.bank_id, c.entity_id) c.*
          from (select host_id, bank_id, entity_id, kind, sum(mentions) as n from said group by 1, 2, 3, 4) c
         order by c.host_id, c.bank_id, c.entity_id, c.n desc, c.kind
    ), made as (
        select t.host_id, t.bank_id, t.entity_id, n.name, k.kind, afterturn.folded(n.name) as folded, t.mentions
          from (select host_id, bank_id, entity_id, sum(mentions)::int as mentions from said group by 1, 2, 3) t
          join named n using (host_id, bank_id, entity_id)
          join kinds k using (host_id, bank_id, entity_id)
         where t.mentions > 0
    ), beside as (
        select host_id, bank_id, entity_id, c.entity_id is not null as waits, m.name, m.kind, m.folded, m.mentions,
               p.canonical_id as live_canonical, p.name as live_name, p.kind as live_kind, p.folded as live_folded,
               p.stem as live_stem, p.mentions as live_mentions
          from made m
          full join (select p.* from afterturn.entity_profile_t p
           where afterturn.in_scope(p.host_id, p.bank_id, :host, :bank)) p
              using (host_id, bank_id, entity_id)
          left join changed c using (host_id, bank_id, entity_id)
    )
    select host_id, bank_id, entity_id, waits, live_canonical, live_name, live_kind, live_folded, live_stem,
           live_mentions, case when waits then live_name else name end as name,
           case when waits then live_kind else kind end as kind,
           case when waits then live_folded else folded end as folded,
           case when waits then live_mentions else mentions end as mentions
      from beside
     order by host_id, bank_id, split_part(case when waits then live_folded else folded end, ' ', 1)""")

PROFILE_COLUMNS = ("canonical_id", "name", "kind", "folded", "stem", "mentions")
OF_TENANT = text("select set_config('afterturn.host', :host, true)")
BANKS = text("""
    select r.host_id, r.bank_id from afterturn.agent_memory_bank_t r
     where afterturn.in_scope(r.host_id, r.bank_id, :host, :bank) order by 1, 2""")


async def check_derived(connection: AsyncConnection, scope: ReplayScope) -> list[DerivedStateReport]:
    """Compare derived state with what its pipeline gives for the rows it has counted so far; see `expected.py`.

    Every turn of the log has its guard. Every living unit has the right words, and every vector belongs to a living
    unit or reflection; every living unit of a turn has a vector, or a ledger row that will make it.
    """
    known = {"many": list(MANY_VALUED), "languages": languages.list_nameable_languages()}
    arguments = {"host": scope.host, "bank": scope.bank, **known}
    found = []
    for name, expected in EXPECTED.items():
        wrong: list[Difference] = []
        for one in expected:
            wrong += await find_first_differences(
                connection, arguments, one.key, one.sides, right="derived", shown=one.shown
            )
        if name == WORDS:
            wrong += await _wrong_words(connection, scope)
        found.append(DerivedStateReport(name, wrong[:NAMED]))
    return [*found, DerivedStateReport("aliases", await _find_wrong_aliases(connection, arguments))]


async def _wrong_words(connection: AsyncConnection, scope: ReplayScope) -> list[Difference]:
    """Return the first units whose words are missing or wrong."""
    found: list[Difference] = []
    rules: dict[UUID, Mapping[UUID, languages.Rules]] = {}
    for bank in await read_banks(connection, scope):
        if bank.host not in rules:
            rules[bank.host] = await languages.read_languages(connection, bank.host)
        place = {"host_id": str(bank.host), "bank_id": str(bank.bank)}
        of_bank = languages.choose_rules(rules[bank.host], bank.bank)
        async with aclosing(find_wrong_words(connection, bank.host, bank.bank, of_bank)) as pages:
            async for page in pages:
                found += [
                    Difference(
                        {**place, "unit_id": str(one.terms.unit_id)}, "both" if one.worded else "derived", one.columns
                    )
                    for one in page
                ]
                if len(found) >= NAMED:
                    return found
    return found


async def _find_wrong_aliases(connection: AsyncConnection, arguments: Mapping[str, Any]) -> list[Difference]:
    """Return the first profiles that differ from what the counted mentions of their entities give.

    Compared by bank and stem: only entities of one stem can be the same.
    """
    found: list[Difference] = []
    together: list[Row[Any]] = []
    place: tuple[Any, ...] = ()
    async with connection.stream(PROFILES, arguments) as rows:
        async for row in rows:
            here = row.host_id, row.bank_id, None if row.folded is None else row.folded.partition(" ")[0]
            if here != place:
                found += _compare_profiles(together)
                together = []
            if len(found) >= NAMED:
                break
            place = here
            together.append(row)
    return [*found, *_compare_profiles(together)][:NAMED]


def _compare_profiles(rows: Sequence[Row[Any]]) -> Iterator[Difference]:
    profiles = {
        row.entity_id: EntityName(row.entity_id, row.name, row.kind, row.folded, row.mentions)
        for row in rows
        if row.name is not None
    }
    same = resolve_aliases(list(profiles.values()))
    for row in rows:
        live = (row.live_canonical, row.live_name, row.live_kind, row.live_folded, row.live_stem, row.live_mentions)
        yield from _compare_profile(row, live, profiles.get(row.entity_id), same)


def _compare_profile(
    row: Row[Any], live: tuple[Any, ...], profile: EntityName | None, same: Mapping[UUID, UUID]
) -> Iterator[Difference]:
    key = {"host_id": str(row.host_id), "bank_id": str(row.bank_id), "entity_id": str(row.entity_id)}
    derived = None
    if (one := profile) is not None:
        derived = (same[one.entity_id], one.name, one.kind, one.folded, one.stem, one.mentions)
    if derived is None or row.live_name is None:
        if derived is not None or row.live_name is not None:
            yield Difference(key, "live" if derived is None else "derived", ())
    elif derived != live:
        yield Difference(
            key, "both", [name for name, a, b in zip(PROFILE_COLUMNS, derived, live, strict=True) if a != b]
        )


async def read_banks(connection: AsyncConnection, scope: ReplayScope) -> list[BankIdentity]:
    """Return all banks of a scope."""
    rows = await connection.execute(BANKS, {"host": scope.host, "bank": scope.bank})
    return [BankIdentity(*row) for row in rows]


async def rebuild_derived(engine: AsyncEngine, concerned: Iterable[BankIdentity]) -> None:
    """Rebuild the derived state of banks, a transaction for each; then make what they lack, and open work for it."""
    for bank in concerned:
        async with engine.begin() as connection:
            await bank_state.rebuild_bank(connection, bank.host, bank.bank)
        await complete_bank(partial(_begin_as_tenant, engine, bank.host), bank.host, bank.bank, datetime.now(UTC))


@asynccontextmanager
async def _begin_as_tenant(engine: AsyncEngine, host: UUID) -> AsyncGenerator[AsyncConnection]:
    async with engine.begin() as connection:
        await connection.execute(OF_TENANT, {"host": str(host)})
        yield connection
