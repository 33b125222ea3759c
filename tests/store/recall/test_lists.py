"""What a person tells an agent they share, asked for as a list: far from the question, but said by whom it names."""

from store.memory.turns import NewMessage
from store.recall.settings import RecallSettings
from tests.store.recall.conftest import Memory

FAR = ("I took the big ladder from the caretaker.", "Rasmus lent me his multimeter today.")


async def test_what_the_named_speaker_said_is_looked_at_among_what_is_nearer(memory: Memory) -> None:
    memory.settings = RecallSettings(candidates=10)
    nearer = [
        NewMessage("user", f"I trained the new people on the forklift in hall {n}.", name="Dario") for n in range(14)
    ]
    far = [NewMessage("user", one, name="Edda") for one in FAR]
    for nth, said in enumerate((*nearer, *far)):
        await memory.say(said, NewMessage("assistant", f"Noted, Edda, that is point {nth}."), session=f"s{nth}")
    await memory.embed_all()
    found = await memory.texts("What has Edda borrowed?", k=10, without=["lexical"])
    assert set(FAR) <= set(found)
