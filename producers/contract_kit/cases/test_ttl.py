"""Capability `ttl`: what has expired is never returned."""

import asyncio
from datetime import timedelta
from uuid import uuid4

from producers.contract_kit.cases.clause import case
from producers.contract_kit.cases.test_embedding import axis
from producers.contract_kit.probe import BAD_REQUEST, CREATED, OK, Probe, memory_contents
from producers.contract_kit.wire import parse_instant

PAST, FUTURE = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
SHORT_LIFE = timedelta(seconds=1)
#: Longer than the short life, and than the second that a plugin's times may be rounded to.
UNTIL_EXPIRED_S = 2.1
NO_TIMES = ("tomorrow", "2099-01-01", "2099-01-01T00:00:00", "2099-13-01T00:00:00Z", 4070908800, True, "")
TIMES = (
    "2099-05-04T09:08:28Z",
    "2099-05-04T09:08:28.5Z",
    "2099-05-04T09:08:28.123456789Z",
    "2099-05-04T11:08:28+02:00",
    "2099-05-04T03:38:28-05:30",
)


@case(
    "1.2 MemoryWrite, Memory", "ttl", mend="Keep the instant to the second at least; offsets and nanoseconds may come."
)
async def test_expires_at_comes_back(probe: Probe) -> None:
    """A memory with an expires_at to come is returned with it: the same instant, for any offset and fraction."""
    namespace = await probe.namespace()
    for time in TIMES:
        written = await probe.write(namespace, time, expires_at=time)
        probe.expect(written, CREATED)
    seen = {one["content"]: parse_instant(one.get("expires_at")) for one in await probe.found(namespace)}
    for time in TIMES:
        wanted, got = parse_instant(time), seen.get(time)
        holds = wanted is not None and got is not None and abs(wanted - got) < timedelta(seconds=1)
        probe.judge_last(f"expires_at {time}", holds=holds, saw=got)


@case(
    "1.2 MemoryWrite", "ttl", mend="Parse expires_at strictly; dropping what cannot be parsed keeps a memory for ever."
)
async def test_malformed_times_are_400(probe: Probe) -> None:
    """An expires_at that is no RFC 3339 time (a date alone or a time without offset, too) is 400, never dropped."""
    namespace = await probe.namespace()
    for wrong in NO_TIMES:
        probe.expect(await probe.write(namespace, expires_at=wrong), BAD_REQUEST, code="bad_request")
        probe.expect(await probe.put(namespace, kind="custom", expires_at=wrong), BAD_REQUEST, code="bad_request")
        probe.expect(await probe.patch(namespace, expires_at=wrong), BAD_REQUEST, code="bad_request")


@case("1.2, 1.3", "ttl", mend="Filter on read in every kind of search; a janitor that deletes later is not enough.")
async def test_past_memories_are_never_returned(probe: Probe) -> None:
    """A write with an expires_at in the past is 201, and no search returns the memory: not by text, vector or list."""
    namespace = await probe.namespace()
    vector: dict[str, object] = {"embedding": axis(probe, 0)} if probe.claims("embedding") else {}
    probe.expect(await probe.write(namespace, "an expired aardvark", expires_at=PAST, **vector), CREATED)
    await probe.remember(namespace, "a living aardvark", expires_at=FUTURE, **vector)
    both: dict[str, object] = {"query": "an expired aardvark"} | vector
    for fields in ({}, {"query": "aardvark"}, {"query": "a"}, both, vector):
        seen = memory_contents(await probe.found(namespace, **fields))
        probe.judge_last("no expired memory", holds="an expired aardvark" not in seen, saw=seen)
    listed = memory_contents(await probe.found(namespace, limit=1))
    probe.judge_last("'a living aardvark'", holds=listed == ["a living aardvark"], saw=listed)


@case("1.3, 1.9.3", "ttl", mend="Compare with the time of the search, not with a time that was looked up before.")
async def test_memories_expire(probe: Probe) -> None:
    """A memory that expires within a second is in no search two seconds later."""
    namespace = await probe.namespace()
    await probe.remember(namespace, "the clock")
    # WHY from there: the plugin's clock and this machine's may differ.
    now = next((parse_instant(one["created_at"]) for one in await probe.found(namespace)), None)
    if not probe.judge_last("a memory with its created_at", holds=now is not None, saw=now) or now is None:
        return
    await probe.remember(namespace, "aardvark", expires_at=(now + SHORT_LIFE).isoformat())
    await asyncio.sleep(UNTIL_EXPIRED_S)
    for fields in ({}, {"query": "aardvark"}):
        seen = memory_contents(await probe.found(namespace, **fields))
        probe.judge_last("no expired memory", holds="aardvark" not in seen, saw=seen)


@case("1.3", "ttl", mend="Hold the namespace's own expires_at against the time of the search, as that of a memory.")
async def test_expired_namespaces_are_not_read(probe: Probe) -> None:
    """No search returns memories of a namespace that has expired; with the expires_at cleared they are back."""
    namespace = await probe.namespace(expires_at=FUTURE)
    await probe.remember(namespace, "aardvark")
    before = await probe.found(namespace)
    probe.judge_last("the memory, before it expires", holds=len(before) == 1, saw=f"{len(before)} memories")
    probe.require(await probe.patch(namespace, expires_at=PAST), OK)
    for fields in ({}, {"query": "aardvark"}):
        seen = memory_contents(await probe.found(namespace, **fields))
        probe.judge_last("no memory of an expired namespace", holds=not seen, saw=seen)


@case("1.5", "ttl", mend="The same id replaces an expired memory like any other; do not let its row refuse it.")
async def test_expired_id_may_come_again(probe: Probe) -> None:
    """The id of an expired memory may be written again, and the new memory is returned."""
    namespace, memory_id = await probe.namespace(), str(uuid4())
    await probe.remember(namespace, "expired", id=memory_id, expires_at=PAST)
    probe.expect(await probe.write(namespace, "again", id=memory_id), CREATED)
    seen = memory_contents(await probe.found(namespace))
    probe.judge_last("'again'", holds=seen == ["again"], saw=seen)
