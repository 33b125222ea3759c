"""Profiles of a bank's entities, kept outside the log: their names, and which of these mean the same entity.

Two rules tell aliases. Names that differ in case and accents only are one ("Zoë", "Zoe"). A first name alone is the one
person of the bank whose full name begins with it ("Ana" is "Ana Lima"), unless there are two of them.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.derived.projection import FORGET_NAMES

#: Kinds of entities that can have several spellings; addresses and days have one.
NAMED = frozenset({"person", "place", "organisation", "name"})
#: The most entities of one stem that are compared: where more names begin with a word, it tells nothing.
COMPARED = 256
#: Kinds of entities that can be a person.
PERSONAL = frozenset({"person", "name"})


@dataclass(frozen=True, slots=True)
class EntityName:
    """The name that most mentions of an entity use; `folded` is the name without case and accents."""

    entity_id: UUID
    name: str = field(repr=False)
    kind: str
    folded: str = field(repr=False)
    mentions: int

    @property
    def stem(self) -> str:
        """The name's first word; only entities of one stem can be the same."""
        return self.folded.partition(" ")[0]


def resolve_aliases(profiles: Sequence[EntityName]) -> dict[UUID, UUID]:
    """Return the canonical entity of each entity: itself, unless it is an alias.

    Takes all profiles of the stems concerned, in any order; of a stem that more than COMPARED entities share, at least
    one more than these: none of them is an alias. Of several spellings the most mentioned is canonical.
    """
    sharing = Counter(profile.stem for profile in profiles)
    spellings: dict[tuple[str, bool], list[EntityName]] = defaultdict(list)
    for profile in profiles:
        if profile.kind in NAMED and sharing[profile.stem] <= COMPARED:
            spellings[profile.folded, _is_no_person(profile)].append(profile)
    heads = {key: min(same, key=lambda one: (-one.mentions, one.entity_id)) for key, same in spellings.items()}
    people = _people_by_first_name(list(heads.values()))
    found = {profile.entity_id: profile.entity_id for profile in profiles}
    for key, same in spellings.items():
        head = heads[key]
        if head.kind in PERSONAL and " " not in head.folded:
            head = people.get(head.folded, head)
        found.update({profile.entity_id: head.entity_id for profile in same})
    return found


def _is_no_person(profile: EntityName) -> bool:
    """Return whether the name is certainly not a person's: a place and a person of one name are two entities."""
    return profile.kind not in PERSONAL


def _people_by_first_name(heads: Sequence[EntityName]) -> Mapping[str, EntityName]:
    """Return the person that each first name means; a first name that two people share is left out."""
    full: dict[str, list[EntityName]] = defaultdict(list)
    for head in heads:
        if head.kind == "person" and " " in head.folded:
            full[head.stem].append(head)
    return {stem: same[0] for stem, same in full.items() if len(same) == 1}


#: Entities whose profiles one statement writes.
AT_ONCE = 512

TAKE_STALE = text("""
    delete from afterturn.stale_entity_t where host_id = :host and bank_id = :bank returning entity_id""")
# The mentioned ones among these entities, with their most frequent name and kind. A mention without them counts for the
# name and kind with which the entity was created.
READ = text("""
    select e.entity_id, n.name, k.kind, afterturn.folded(n.name) as folded, m.mentions
      from unnest(cast(:entities as uuid[])) t(entity_id),
           lateral (select e.entity_id, e.canonical_name, coalesce(e.metadata->>'kind', '') as kind
                      from afterturn.agent_memory_entity_t e
                     where e.host_id = :host and e.bank_id = :bank and e.entity_id = t.entity_id and e.active
                    offset 0) e,
           lateral (select sum(c.mentions)::int as mentions from afterturn.entity_name_t c
                     where c.host_id = :host and c.bank_id = :bank and c.entity_id = e.entity_id) m,
           lateral (select coalesce(nullif(c.name, ''), e.canonical_name) as name from afterturn.entity_name_t c
                     where c.host_id = :host and c.bank_id = :bank and c.entity_id = e.entity_id
                     group by 1 order by sum(c.mentions) desc, 1 limit 1) n,
           lateral (select coalesce(nullif(c.kind, ''), e.kind) as kind from afterturn.entity_name_t c
                     where c.host_id = :host and c.bank_id = :bank and c.entity_id = e.entity_id
                     group by 1 order by sum(c.mentions) desc, 1 limit 1) k
     where m.mentions > 0""")
REMOVE = text("""
    delete from afterturn.entity_profile_t p using unnest(cast(:entities as uuid[])) t(entity_id)
     where p.host_id = :host and p.bank_id = :bank and p.entity_id = t.entity_id returning p.stem""")
OF_STEMS = text("""
    select p.entity_id, p.name, p.kind, p.folded, p.mentions from unnest(cast(:stems as text[])) t(stem),
           lateral (select p.* from afterturn.entity_profile_t p
                     where p.host_id = :host and p.bank_id = :bank and p.stem = t.stem limit :most) p""")
WRITE = text("""
    insert into afterturn.entity_profile_t as p
        (host_id, bank_id, entity_id, canonical_id, name, kind, folded, stem, mentions)
    select cast(:host as uuid), cast(:bank as uuid), t.*
      from unnest(cast(:entities as uuid[]), cast(:canonicals as uuid[]), cast(:names as text[]),
                  cast(:kinds as text[]), cast(:foldeds as text[]), cast(:stems as text[]), cast(:mentions as int[])) t
    on conflict (host_id, bank_id, entity_id) do update
       set (canonical_id, name, kind, folded, stem, mentions)
         = row (excluded.canonical_id, excluded.name, excluded.kind, excluded.folded, excluded.stem, excluded.mentions)
     where (p.canonical_id, p.name, p.kind, p.folded, p.stem, p.mentions) is distinct from
           (excluded.canonical_id, excluded.name, excluded.kind, excluded.folded, excluded.stem, excluded.mentions)""")
CLEAR = text("delete from afterturn.entity_profile_t where host_id = :host and bank_id = :bank")
MENTIONED = text("""
    select distinct entity_id from afterturn.entity_name_t where host_id = :host and bank_id = :bank""")


async def refresh_profiles(connection: AsyncConnection, host: UUID, bank: UUID, changed: Sequence[UUID]) -> None:
    """Update the profiles (name, canonical entity) of these entities and of those whose names changed."""
    place = {"host": host, "bank": bank}
    stale = (await connection.execute(TAKE_STALE, place)).scalars()
    if entities := sorted({*changed, *stale}):
        await connection.execute(FORGET_NAMES, {**place, "entities": entities})
        before = set((await connection.execute(REMOVE, {**place, "entities": entities})).scalars())
        await _profile_all(connection, host, bank, entities, before)


async def rebuild_profiles(connection: AsyncConnection, host: UUID, bank: UUID) -> None:
    """Rebuild all profiles of a bank from its mentions."""
    place = {"host": host, "bank": bank}
    await connection.execute(TAKE_STALE, place)
    await connection.execute(CLEAR, place)
    entities = list((await connection.execute(MENTIONED, place)).scalars())
    await _profile_all(connection, host, bank, entities, set())


async def _profile_all(
    connection: AsyncConnection, host: UUID, bank: UUID, entities: Sequence[UUID], stems: set[str]
) -> None:
    """Write the profiles of these entities in batches, and decide anew which names of these stems are aliases."""
    left = sorted(stems)
    for at in range(0, max(len(entities), len(left)), AT_ONCE):
        await _write_profiles(connection, host, bank, entities[at : at + AT_ONCE], set(left[at : at + AT_ONCE]))


async def _write_profiles(
    connection: AsyncConnection, host: UUID, bank: UUID, entities: Sequence[UUID], stems: set[str]
) -> None:
    """Write the profiles of these entities, and decide anew which names of their stems and of `stems` are aliases.

    Where more entities share a stem than are compared, each is its own, and only the given ones are written.
    """
    place = {"host": host, "bank": bank}
    read = [EntityName(*row) for row in await connection.execute(READ, {**place, "entities": list(entities)})]
    stems = stems | {profile.stem for profile in read}
    found = await connection.execute(OF_STEMS, {**place, "stems": sorted(stems), "most": COMPARED + 1})
    profiles = sorted([*read, *(EntityName(*row) for row in found)], key=lambda one: one.entity_id)
    same = resolve_aliases(profiles)
    await connection.execute(
        WRITE,
        {
            **place,
            "entities": [one.entity_id for one in profiles],
            "canonicals": [same[one.entity_id] for one in profiles],
            "names": [one.name for one in profiles],
            "kinds": [one.kind for one in profiles],
            "foldeds": [one.folded for one in profiles],
            "stems": [one.stem for one in profiles],
            "mentions": [one.mentions for one in profiles],
        },
    )
