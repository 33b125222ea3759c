"""Re-indexes the words of banks whose language changed, a page of units at a time.

It begins once all processes use the new rules, so units written after the change are right; a unit whose words are
right is left as it is. Facts, vectors and the log are not concerned.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Row, Text, Uuid, bindparam, case, cast, delete, func, null, select, text, update

from store.database import Database
from store.derived import locks, postings, projection
from store.derived.postings import lock_unchanged
from store.maintenance.pruning import MORE, PrunedBatch
from store.schema import BANK_LANGUAGE, UNIT, UNIT_WORD, in_bank, same_bank
from store.tenancy import languages
from store.text.word_rules import AUTO, WordRules, rules_of

#: Units of one page.
PAGE = 100
#: Seconds after which every process uses the change: several times the lifetime of its cached rules.
SETTLE_S = 6 * languages.BELIEVED_S

_LANGUAGE, _UNIT, _WORD = BANK_LANGUAGE.c, UNIT.c, UNIT_WORD.c
_IS_UNDONE = _LANGUAGE.former.is_not(None)
NEXT = select(_LANGUAGE.host_id, _LANGUAGE.bank_id).where(_IS_UNDONE).order_by(_LANGUAGE.changed_at).limit(1)
UNDONE = select(func.count()).select_from(BANK_LANGUAGE).where(_IS_UNDONE)
STATE = select(_LANGUAGE.language, _LANGUAGE.former, _LANGUAGE.place, _LANGUAGE.changed_at).where(
    in_bank(BANK_LANGUAGE), _IS_UNDONE
)
UNITS = (
    select(
        _UNIT.unit_id,
        _UNIT.aggregate_version,
        _UNIT.name,
        _UNIT.role,
        _UNIT.context,
        _UNIT.origin,
        _UNIT.event_date,
        _UNIT.content,
        _WORD.length,
        cast(_WORD.terms, Text).label("terms"),
    )
    .outerjoin_from(UNIT, UNIT_WORD, same_bank(UNIT_WORD, UNIT, "unit_id"))
    .where(in_bank(UNIT), _UNIT.active)
    .order_by(_UNIT.unit_id)
)
# The counts of the old words are taken back with them.
DROP = text("""
    with gone as materialized (
        select g.length, g.terms from afterturn.drop_words(:host, :bank, cast(:units as uuid[])) g where g.posted
    ), less as materialized (
        select k.term, count(*) as units from gone g, jsonb_object_keys(g.terms) k(term) group by 1
    ), counted as (
        update afterturn.term_t t set df = t.df - l.units from less l
         where t.host_id = :host and t.bank_id = :bank and t.term = l.term
    ), sized as (
        update afterturn.bank_statistics_t s set units = s.units - x.units, tokens = s.tokens - x.tokens
          from (select count(*) as units, coalesce(sum(g.length), 0) as tokens from gone g) x
         where s.host_id = :host and s.bank_id = :bank
    )
    select l.term from less l""")
_REACHED = bindparam("reached", type_=Uuid)
GO_ON = (
    update(BANK_LANGUAGE)
    .where(in_bank(BANK_LANGUAGE), _LANGUAGE.changed_at == bindparam("read_at"))
    .values(place=_REACHED, former=case((_REACHED.is_(None), null()), else_=_LANGUAGE.former))
    .returning(_LANGUAGE.language, _LANGUAGE.former)
)
SETTLED = delete(BANK_LANGUAGE).where(
    in_bank(BANK_LANGUAGE), _LANGUAGE.former.is_(None), _LANGUAGE.language == bindparam("usual")
)


class WordReanalysis:
    """Analyses words anew in banks whose language changed, over all hosts, each as its own tenant."""

    def __init__(self, database: Database, *, settle_s: float = SETTLE_S, page: int = PAGE) -> None:
        self._database = database
        self._settle_s = settle_s
        self._page = page

    async def undone(self) -> int:
        """Return how many banks have words to be analysed anew."""
        async with self._database.operator() as connection:
            return int((await connection.execute(UNDONE)).scalar_one())

    async def step(self) -> PrunedBatch:
        """Analyse a page of one bank's units; the result counts units whose words changed."""
        async with self._database.operator() as connection:
            settled = _LANGUAGE.changed_at < func.now() - timedelta(seconds=self._settle_s)
            row = (await connection.execute(NEXT.where(settled))).one_or_none()
        if row is None:
            return PrunedBatch(0, None)
        return PrunedBatch(await self._page_of(row.host_id, row.bank_id), MORE)

    async def _page_of(self, host: UUID, bank: UUID) -> int:
        key = {"host": host, "bank": bank}
        async with self._database.tenant(host) as connection:
            state = (await connection.execute(STATE, key)).one_or_none()
            if state is None:
                return 0
            query = UNITS if state.place is None else UNITS.where(_UNIT.unit_id > state.place)
            units = (await connection.execute(query.limit(self._page), key)).all()
        cut = await asyncio.to_thread(_cut_words, units, rules_of(state.language))
        place = units[-1].unit_id if len(units) == self._page else None
        return await self._write(key, cut, {**key, "reached": place, "read_at": state.changed_at})

    async def _write(
        self, key: dict[str, UUID], cut: dict[UUID, tuple[int, postings.UnitTerms]], then: dict[str, Any]
    ) -> int:
        host, bank = key["host"], key["bank"]
        async with self._database.tenant(host) as connection:
            await locks.lock_bank(connection, bank)
            await projection.lock_words(connection, bank)
            same = await lock_unchanged(connection, host, bank, {unit: version for unit, (version, _) in cut.items()})
            if same:
                terms = (await connection.execute(DROP, {**key, "units": same})).scalars().all()
                await connection.execute(projection.FORGET_TERMS, {**key, "terms": terms})
                await postings.insert_postings(connection, host, bank, [cut[unit][1] for unit in same])
                await projection.index_words(connection, host, bank)
            await connection.execute(GO_ON, then)
            await connection.execute(SETTLED, {**key, "usual": AUTO})
        return len(same)


def _cut_words(units: Sequence[Row[Any]], rules: WordRules) -> dict[UUID, tuple[int, postings.UnitTerms]]:
    """Return the new words of the units whose words change, with the version at which each was read."""
    found = {}
    for unit in units:
        words = postings.count_unit_terms(unit, rules)
        if not words.same(unit.terms, unit.length):
            found[unit.unit_id] = (unit.aggregate_version, words)
    return found
