"""The arm that knows entities: units that name what the question names, and what stands beside it most.

Off by default (`entity_weight` 0), and then it asks the database nothing. Measured on conversations it is a peak, not a
plateau: at 0.3 the first five gain 0.006 and the first ten 0.001, at 0.5 the first ten lose 0.009, for one more round
trip. Links between units (agent_memory_link_t) are not followed: without a model's help nearly all of them join a fact
to the message it was drawn from, and there recall goes anyway.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store import identity
from store.recall.arms import Found, Search
from store.recall.filters import filter_conditions
from store.recall.pool import Pool
from store.recall.settings import RecallSettings
from store.text.terms import words_of

#: An entity named in more units than this tells them apart no better than the words do.
MOST_UNITS = 200
#: So many entities that stand beside one that is asked for are followed, one step and no further.
BESIDE = 5
#: What stands beside an entity counts so much as the entity.
BESIDE_SHARE = 0.3

# An entity's names are one: whoever has the same canonical entity is asked for too. A mention that was undone is a
# tombstone.
MENTIONS = text(f"""
    with asked as materialized (
        select distinct s.entity_id, 1.0 as share
          from unnest(cast(:entities as uuid[])) q(entity_id),
               lateral (select q.entity_id
                         union
                        select o.entity_id
                          from afterturn.entity_profile_t p
                          join afterturn.entity_profile_t o
                            on o.host_id = :host and o.bank_id = :bank and o.canonical_id = p.canonical_id
                         where p.host_id = :host and p.bank_id = :bank and p.entity_id = q.entity_id) s
    ), named as materialized (
        select a.entity_id, a.share, e.mention_count
          from asked a join afterturn.agent_memory_entity_t e
            on e.host_id = :host and e.bank_id = :bank and e.entity_id = a.entity_id and e.active
    ), beside as materialized (
        select c.other as entity_id, cast(:beside_share as float8) as share, o.mention_count
          from named n,
               lateral (select case c.entity_id_1 when n.entity_id then c.entity_id_2 else c.entity_id_1 end as other
                          from afterturn.agent_memory_entity_cooccur_t c
                         where c.host_id = :host and c.bank_id = :bank and n.entity_id in (c.entity_id_1, c.entity_id_2)
                         order by c.cooccur_count desc, c.entity_id_1, c.entity_id_2 limit :beside) c
          join afterturn.agent_memory_entity_t o
            on o.host_id = :host and o.bank_id = :bank and o.entity_id = c.other and o.active
    ), followed as (
        select entity_id, max(share) as share, max(mention_count) as mention_count
          from (select * from named union all select * from beside) f group by entity_id
    )
    select m.unit_id, f.share, f.mention_count
      from followed f,
           lateral (select l.unit_id from afterturn.agent_memory_unit_entity_t l
                      join afterturn.agent_memory_unit_t u
                        on u.host_id = :host and u.bank_id = :bank and u.unit_id = l.unit_id
                     where l.host_id = :host and l.bank_id = :bank and l.entity_id = f.entity_id
                       and l.removed_at is null and {filter_conditions("u")}
                     limit :units) m
     where f.mention_count <= :units""")  # noqa: S608 - put together from constants


class EntityArm:
    """Units that mention the entities of the question; rarer entities say more."""

    name = "entities"

    def weight(self, settings: RecallSettings) -> float:
        """Return how much naming the same entity counts against a share of words found."""
        return settings.ranking.entity_weight

    async def find(self, connection: AsyncConnection, search: Search) -> Found:
        """Find the units that name what the question names, or what stands beside that most often."""
        entities = asked_entities(search.bank, search.question.text) if search.settings.ranking.entity_weight else []
        if not entities:
            return Found([], [], _zero_scores)
        arguments = {
            "host": search.host,
            "bank": search.bank,
            "entities": entities,
            "units": MOST_UNITS,
            "beside": BESIDE,
            "beside_share": BESIDE_SHARE,
            **search.filters,
        }
        scores = _score_units(await connection.execute(MENTIONS, arguments), search.statistics.units)
        best = sorted(scores, key=lambda unit: (-scores[unit], unit))[: search.settings.candidates]

        def view(pool: Pool) -> NDArray[np.float64]:
            return np.array([scores.get(candidate.unit_id, 0.0) for candidate in pool.candidates], dtype=np.float64)

        return Found(best, [], view)


def asked_entities(bank: UUID, question: str) -> list[UUID]:
    """Return the ids that the entities of a question have, if the bank has them: of each word, each two and three."""
    words = [word.removesuffix("'s") for word in words_of(question)]
    pairs = [" ".join(pair) for pair in pairwise(words)]
    threes = [" ".join(three) for three in zip(words, words[1:], words[2:], strict=False)]
    return [identity.entity_id(bank, name) for name in dict.fromkeys((*words, *pairs, *threes))]


def _score_units(mentions: Iterable[tuple[UUID, float, int]], units: int) -> Mapping[UUID, float]:
    """Return for each unit the best of what it names, from 0 to 1: the rarer the more."""
    scores: dict[UUID, float] = {}
    for unit, share, count in mentions:
        rarity = 1 - np.log1p(count) / np.log1p(max(units, count) + 1)
        scores[unit] = max(scores.get(unit, 0.0), float(share * rarity))
    return scores


def _zero_scores(pool: Pool) -> NDArray[np.float64]:
    return np.zeros(len(pool))
