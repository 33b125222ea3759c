"""A session may be called as anything of the bank is named within: both are there, whichever comes first."""

import pytest

from store import identity
from store.identity import NamedKind
from store.ledger.stages import Stage
from store.memory.directives import Curation, NewDirective
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.turns import NewMessage
from tests.workers.conftest import BANK, HOST, START, World, now
from tests.workers.stages import Crew

TEXT = "The ferry is slow."
HASH = content_hash(TEXT.encode())
#: Everything that `remember_all` brings, by the name within its id.
NAMES = {
    NamedKind.ENTITY: "porto",
    NamedKind.DOCUMENT: f"{HASH}:0",
    NamedKind.DIRECTIVE: "tone",
    NamedKind.REFLECTION: "user_home:ann:home",
    NamedKind.LIST: "user_visited:ann",
}
SAID = ("I live in Porto.", "I moved to Ghent.", "I visited Porto.", "I visited Ghent.")


async def remember_all(world: World) -> None:
    """Bring an entity, a document, a directive, an evolution and a list into the bank."""
    for n, said in enumerate(SAID):
        await world.append("monday", f"t{n}", messages=[NewMessage("user", said, name="Ann", occurred_at=START)])
    await Documents(world.database, now).add(HOST, NewDocument("default", HASH, TEXT))
    await Curation(world.database, now).lay_down(HOST, "default", NewDirective("tone", "Be brief."))
    await Crew(world).drain(Stage.EXTRACTION, Stage.PROJECTION)


async def talk_in_all(world: World) -> None:
    """Say something about Porto in a session that is called like each of these."""
    for kind, name in NAMES.items():
        await world.append(f"{kind}:{name}", "1", messages=[NewMessage("user", "I like Porto.", occurred_at=START)])
    await Crew(world).drain(Stage.EXTRACTION, Stage.PROJECTION)


@pytest.mark.law("L1")
@pytest.mark.parametrize("first", ["sessions", "others"])
async def test_a_session_that_is_called_like_another_thing_takes_nothing_from_it(world: World, first: str) -> None:
    makers = [talk_in_all, remember_all]
    for make in makers if first == "sessions" else makers[::-1]:
        await make(world)
    found = await world.sql("select distinct aggregate_key as id, aggregate_type as kind from afterturn.event_store_t")
    kinds = {row.id: row.kind for row in found}
    assert len(kinds) == len(found)
    others = [kinds[str(identity.named_id(BANK, kind, name))] for kind, name in NAMES.items()]
    assert [kind.removeprefix("AgentMemory") for kind in others] == [
        "Entity",
        "Doc",
        "Directive",
        "Reflection",
        "Reflection",
    ]
    for kind, name in NAMES.items():
        assert kinds[str(identity.session_id(BANK, f"{kind}:{name}"))] == "AgentSessionHistory"
    assert set(await world.statuses(Stage.EXTRACTION)) == {"done"}
