"""MemoryWrite.id: the caller's key of idempotency, unique within a namespace."""

import asyncio
from uuid import uuid4

from producers.contract_kit.cases.clause import case
from producers.contract_kit.findings import as_text
from producers.contract_kit.probe import BAD_REQUEST, CREATED, NO_CONTENT, Probe, memory_contents, memory_ids
from producers.contract_kit.wire import LARGEST_LIMIT, is_uuid, parse_instant

PARALLEL_WRITES = 101
SAME_WRITES = 12
_CLIENT_ERRORS = range(400, 500)


@case("1.2 MemoryWriteResponse", mend="Mint a random UUID for each write without an id.")
async def test_are_minted_when_omitted(probe: Probe) -> None:
    """Two equal writes without an id are two memories, each with a UUID of its own."""
    namespace = await probe.namespace()
    minted = {await probe.remember(namespace), await probe.remember(namespace)}
    probe.judge_last("two ids", holds=len(minted) == 2 and all(map(is_uuid, minted)), saw=minted)  # noqa: PLR2004 - it wrote two
    listed = await probe.found(namespace)
    probe.judge_last("both memories", holds=set(memory_ids(listed)) == minted, saw=memory_ids(listed))


@case("1.2 MemoryWrite, 1.9.2", mend="Upsert on (namespace, id): the same id again updates the row in place.")
async def test_same_id_updates_in_place(probe: Probe) -> None:
    """A write with an id echoes it; the same id again is 201 and replaces the memory: one row, the second content."""
    namespace, memory_id = await probe.namespace(), str(uuid4())
    for content in ("first", "second"):
        answer = await probe.write(namespace, content, id=memory_id)
        if probe.expect(answer, CREATED):
            probe.judge(answer, f"`id` {memory_id}", holds=str(answer.get("id")).lower() == memory_id)
    listed = await probe.found(namespace)
    seen = list(zip(memory_ids(listed), memory_contents(listed), strict=True))
    probe.judge_last(f"one memory {memory_id} 'second'", holds=seen == [(memory_id, "second")], saw=seen)


@case("1.5", mend="On conflict set every column from the new write; what it leaves out returns to its default.")
async def test_same_id_replaces_every_field(probe: Probe) -> None:
    """The same id again replaces kind and source, and takes away pin, propagation and expires_at if left out."""
    namespace, memory_id = await probe.namespace(), str(uuid4())
    optional = {
        "pin": True,
        "propagation": {"a": 1},
        "ttl": "2099-01-01T00:00:00Z",
    }
    fields = {"expires_at" if name == "ttl" else name: optional[name] for name in optional if probe.claims(name)}
    await probe.remember(namespace, "first", id=memory_id, **fields)
    await probe.remember(namespace, "second", id=memory_id, kind="summary", source="user")
    for memory in await probe.found(namespace):
        seen = (memory["content"], memory["kind"], memory["source"])
        probe.judge_last("'second', summary, user", holds=seen == ("second", "summary", "user"), saw=seen)
        left = {name: memory[name] for name in fields if memory.get(name)}
        probe.judge_last(f"none of {', '.join(fields)}", holds=not left, saw=left)


@case("1.5", mend="Leave created_at out of what the upsert sets.")
async def test_same_id_keeps_created_at(probe: Probe) -> None:
    """The same id again keeps created_at."""
    namespace, memory_id = await probe.namespace(), str(uuid4())
    await probe.remember(namespace, "first", id=memory_id)
    first = [parse_instant(one["created_at"]) for one in await probe.found(namespace)]
    await asyncio.sleep(1.05)  # longer than the second that a plugin's times may be rounded to
    await probe.remember(namespace, "second", id=memory_id)
    again = [parse_instant(one["created_at"]) for one in await probe.found(namespace)]
    probe.judge_last(f"created_at {first[0]}", holds=len(first) == 1 and again == first, saw=again)


@case("1.1 POST memories, 1.2 MemoryWrite", mend="Parse the id before the store sees it: what is no UUID is 400.")
async def test_must_be_uuids(probe: Probe) -> None:
    """An id that is no UUID is 400 bad_request, never a 5xx."""
    namespace = await probe.namespace()
    for wrong in ("memory-1", "7f9c5b0e-2f52-4f0b-9a43", "7f9c5b0e-2f52-4f0b-9a43-0c5ad0c1a00g", 7, "' or 1=1 --"):
        probe.expect(await probe.write(namespace, id=wrong), BAD_REQUEST, code="bad_request")


@case(
    "1.5",
    mend="Make the key (namespace, id): an upsert on the id alone lets a caller of one namespace take, or overwrite, a "
    "memory of another whose id it guesses.",
)
async def test_same_id_elsewhere_moves_nothing(probe: Probe) -> None:
    """The same id in another namespace leaves the first memory as it is, and so does forgetting the second."""
    mine, other, memory_id = await probe.namespace(), await probe.namespace(), str(uuid4())
    await probe.remember(mine, "mine", id=memory_id)
    answer = await probe.write(other, "other", id=memory_id)
    accepted = answer.status == CREATED
    probe.judge(answer, "201, or a refusal (4xx)", holds=accepted or answer.status in _CLIENT_ERRORS)
    for expected_other in (["other"] if accepted else [], []):
        kept, seen = memory_contents(await probe.found(mine)), memory_contents(await probe.found(other))
        probe.judge_last(f"'mine' in {mine}", holds=kept == ["mine"], saw=kept)
        probe.judge_last(f"{as_text(expected_other)} in {other}", holds=seen == expected_other, saw=seen)
        await probe.forget(memory_id, other)


@case("1.1, 1.5", mend="A memory that is gone leaves nothing behind that refuses its id.")
async def test_may_come_again(probe: Probe) -> None:
    """An id may be written again after its memory was forgotten, and after its namespace was deleted."""
    namespace, memory_id = await probe.namespace(), str(uuid4())
    await probe.remember(namespace, "first", id=memory_id)
    probe.require(await probe.forget(memory_id, namespace), NO_CONTENT)
    probe.expect(await probe.write(namespace, "after forget", id=memory_id), CREATED)
    seen = memory_contents(await probe.found(namespace))
    probe.judge_last("'after forget'", holds=seen == ["after forget"], saw=seen)
    probe.require(await probe.delete(namespace), NO_CONTENT)
    probe.require(await probe.put(namespace, kind="custom"), 200)
    probe.expect(await probe.write(namespace, "after deletion", id=memory_id), CREATED)
    seen = memory_contents(await probe.found(namespace))
    probe.judge_last("'after deletion'", holds=seen == ["after deletion"], saw=seen)


@case("1.9.4", mend="Parallel writes are ordinary: a pool that is too small must queue them, and ids must be random.")
async def test_do_not_collide_in_parallel(probe: Probe) -> None:
    """101 writes, ten at a time, are all 201 with ids that differ; a search with limit 100 returns 100 of them."""
    namespace = await probe.namespace()
    answers = await probe.together(*(probe.write(namespace, f"memory {number}") for number in range(PARALLEL_WRITES)))
    for answer in answers:
        probe.expect(answer, CREATED)
    different = {answer.get("id") for answer in answers}
    probe.judge_last(f"{PARALLEL_WRITES} ids", holds=len(different) == len(answers), saw=f"{len(different)} ids")
    listed = await probe.found(namespace)
    holds = len(set(memory_ids(listed))) == LARGEST_LIMIT
    probe.judge_last("100 different memories", holds=holds, saw=f"{len(set(memory_ids(listed)))} of {len(listed)}")


@case("1.2, 1.5", mend="Let the store decide (INSERT ... ON CONFLICT), not a look before the insert.")
async def test_same_id_in_parallel_is_one_memory(probe: Probe) -> None:
    """Twelve writes of one id at once are all 201 and leave one memory with the content of one of them."""
    namespace, memory_id = await probe.namespace(), str(uuid4())
    written = [f"version {number}" for number in range(SAME_WRITES)]
    for answer in await probe.together(*(probe.write(namespace, content, id=memory_id) for content in written)):
        probe.expect(answer, CREATED)
    listed = memory_contents(await probe.found(namespace))
    probe.judge_last("one of the versions", holds=len(listed) == 1 and listed[0] in written, saw=listed)
