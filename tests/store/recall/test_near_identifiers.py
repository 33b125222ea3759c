"""The text that holds an identifier exactly comes before a shorter one that holds a near one or a piece of it."""

from pathlib import Path

from tests.store.recall.conftest import Memory

#: A question, a longer text that holds its identifier, and a short one with a piece or a neighbour of it, in lines.
NEAR = [line.split("\t") for line in (Path(__file__).parent / "near_identifiers.tsv").read_text().splitlines()]
#: Least number of rows that are wrong without the rule: else the table shows nothing.
SHOWN = 60


async def test_the_text_that_holds_an_identifier_comes_before_one_that_holds_a_near_one(memory: Memory) -> None:
    for number, (_, exact, near) in enumerate(NEAR):
        await memory.say(exact, session=f"exact{number}")
        await memory.say(near, session=f"near{number}")
    await memory.embed_all()
    assert await _find_wrong(memory) == {}
    assert len(await _find_wrong(memory, without=["identifier"])) >= SHOWN


async def _find_wrong(memory: Memory, without: list[str] | None = None) -> dict[str, str]:
    """Return the first texts that are not the ones that hold the identifier, by their questions."""
    first = {asked: (await memory.texts(asked, k=1, without=without or []))[0] for asked, *_ in NEAR}
    return {asked: first[asked] for asked, exact, _ in NEAR if first[asked] != exact}
