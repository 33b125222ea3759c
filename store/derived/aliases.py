"""Decides which names of a bank mean the same entity; pure functions.

Two rules. Names that differ in case and accents only are one ("Zoë", "Zoe"). A first name alone is the one person of
the bank whose full name begins with it ("Ana" is "Ana Lima"), unless there are two of them.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

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
