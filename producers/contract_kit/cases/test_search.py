"""POST /v1/search: what may be asked, which memories come back, and in which order."""

from uuid import uuid4

from producers.contract_kit.cases.clause import case
from producers.contract_kit.findings import as_text
from producers.contract_kit.probe import BAD_REQUEST, OK, Probe, memory_contents, memory_ids
from producers.contract_kit.wire import DEFAULT_LIMIT, MEMORY_KINDS, parse_instant


@case("1.2 SearchResponse", mend="Initialise the list: an empty result is [], never null.")
async def test_nothing_found_is_an_empty_list(probe: Probe) -> None:
    """A search that finds nothing is 200 with `memories` []."""
    namespace = await probe.namespace()
    answer = await probe.search(namespace)
    if probe.expect(answer, OK):
        probe.judge(answer, "`memories` []", holds=answer.get("memories") == [])


@case("1.2 SearchRequest", mend="Search exactly the namespaces of the request: the list is authoritative.")
async def test_only_the_named_namespaces(probe: Probe) -> None:
    """A search returns memories of the namespaces it names and of no other, also where one name begins another."""
    name = probe.names.new()
    longer = f"{name}-more"
    probe.names.used.append(longer)
    for one in (name, longer):
        probe.require(await probe.put(one, kind="custom"), OK)
        await probe.remember(one, f"of {one}")
    for asked in (name, longer):
        seen = {one["namespace"] for one in await probe.found(asked)}
        probe.judge_last(f"memories of {asked}", holds=seen == {asked}, saw=seen)


@case("1.1 POST search", mend="A namespace that was never upserted has no memories; that is no error of a search.")
async def test_unknown_namespace_has_no_memories(probe: Probe) -> None:
    """A search of a namespace that does not exist is 200; beside one that does, it changes nothing."""
    unknown, namespace = probe.names.new(), await probe.namespace()
    await probe.remember(namespace)
    alone, beside = await probe.found(unknown), await probe.found(unknown, namespace)
    seen = (len(alone), len(beside))
    probe.judge_last("no memory, then the one", holds=seen == (0, 1), saw=f"{seen[0]}, then {seen[1]}")


@case("1.4", mend="Rank and cut over all namespaces together: one list, not one list after another.")
async def test_several_namespaces_are_one_list(probe: Probe) -> None:
    """Memories of several namespaces come in one order, under one limit, each once."""
    one, other = await probe.namespace(), await probe.namespace()
    written = [(await probe.remember(namespace)).lower() for _ in range(3) for namespace in (one, other)]
    whole = await probe.found(one, other)
    probe.judge_last("all six, each once", holds=sorted(memory_ids(whole)) == sorted(written), saw=memory_ids(whole))
    _judge_newest_first(probe, [str(memory["created_at"]) for memory in whole])
    cut = await probe.found(one, other, limit=3)
    probe.judge_last(
        f"the first three: {memory_ids(whole)[:3]}", holds=memory_ids(cut) == memory_ids(whole)[:3], saw=memory_ids(cut)
    )
    twice = await probe.found(one, other, one)
    probe.judge_last(
        "the same for a name given twice", holds=memory_ids(twice) == memory_ids(whole), saw=memory_ids(twice)
    )


@case("1.2 SearchRequest", mend="Check the request before the search: its namespaces, kinds, limit and their types.")
async def test_refuses_wrong_requests(probe: Probe) -> None:
    """No namespaces, a wrong kind, a limit of -1 or 101, or a field of another type is 400."""
    namespace = await probe.namespace()
    bodies: tuple[dict[str, object], ...] = (
        {},
        {"namespaces": []},
        {"namespaces": None},
        {"namespaces": namespace},
        {"namespaces": [namespace, ""]},
        {"namespaces": [7]},
        {"namespaces": [namespace], "kinds": ["note"]},
        {"namespaces": [namespace], "kinds": "fact"},
        {"namespaces": [namespace], "limit": -1},
        {"namespaces": [namespace], "limit": 101},
        {"namespaces": [namespace], "limit": 2.5},
        {"namespaces": [namespace], "limit": "5"},
        {"namespaces": [namespace], "query": 7},
    )
    for body in bodies:
        probe.expect(await probe.send("POST", "/v1/search", body), BAD_REQUEST, code="bad_request")


@case("1.2 SearchRequest, 1.4", mend="Default to 20; read a limit of 0 as the default, or refuse it with 400.")
async def test_limits(probe: Probe) -> None:
    """Without a limit at most 20 memories come back, with one that many; 0 is the default or 400, never nothing."""
    namespace = await probe.namespace()
    for answer in await probe.together(*(probe.write(namespace, f"memory {n}") for n in range(DEFAULT_LIMIT + 3))):
        probe.require(answer, 201)
    for fields, expected in (({}, 20), ({"limit": 1}, 1), ({"limit": 5}, 5), ({"limit": 22}, 22)):
        answer = await probe.search(namespace, **fields)
        if probe.expect(answer, OK):
            seen = len(probe.memories_of(answer))
            probe.judge(answer, f"{expected} memories", holds=seen == expected, saw=f"{seen} memories")
    answer = await probe.search(namespace, limit=0)
    if probe.expect(answer, OK, BAD_REQUEST) and answer.status == OK:
        seen = len(probe.memories_of(answer))
        probe.judge(answer, "20 memories", holds=seen == DEFAULT_LIMIT, saw=f"{seen} memories")


@case("1.2 SearchRequest, 1.4", mend="Filter by kind before the limit is applied; no kinds means every kind.")
async def test_kinds_filter(probe: Probe) -> None:
    """A search with `kinds` returns these alone, also where newer memories of other kinds exceed the limit."""
    namespace = await probe.namespace()
    for kind in MEMORY_KINDS:
        await probe.remember(namespace, f"a {kind}", kind=kind)
    for kinds in (["fact"], ["summary", "checkpoint"], list(MEMORY_KINDS), []):
        seen = sorted(one["kind"] for one in await probe.found(namespace, kinds=kinds))
        expected = sorted(kinds or MEMORY_KINDS)
        probe.judge_last(f"kinds {expected}", holds=seen == expected, saw=seen)
    oldest = memory_contents(await probe.found(namespace, kinds=["fact"], limit=1))
    probe.judge_last("'a fact'", holds=oldest == ["a fact"], saw=oldest)


@case("1.4", mend="Order a listing by created_at, newest first.")
async def test_listing_is_newest_first(probe: Probe) -> None:
    """A search without a query lists the newest memory first."""
    namespace = await probe.namespace()
    for number in range(4):
        await probe.remember(namespace, f"memory {number}")
    listed = await probe.found(namespace)
    _judge_newest_first(probe, [str(memory["created_at"]) for memory in listed])
    probe.judge_last("four memories", holds=len(listed) == 4, saw=memory_contents(listed))  # noqa: PLR2004 - it wrote four


@case("1.4", mend="End every order with the id: memories of the same instant otherwise change places.")
async def test_listing_order_is_stable(probe: Probe) -> None:
    """The same listing asked for again has the same order, and a smaller limit returns its beginning."""
    namespace = await probe.namespace()
    for answer in await probe.together(*(probe.write(namespace, "the same", id=str(uuid4())) for _ in range(12))):
        probe.require(answer, 201)
    first = memory_ids(await probe.found(namespace))
    for limit in (100, 100, 5, 100, 5):
        again = memory_ids(await probe.found(namespace, limit=limit))
        probe.judge_last(f"the order {as_text(first[:limit])}", holds=again == first[:limit], saw=again)


@case("1.3, 1.4", mend="Accept the fields of every search mode, also of those that health does not name.")
async def test_query_and_embedding_may_arrive(probe: Probe) -> None:
    """A search with a query, or with an empty one, is 200 with a list, whether fts is claimed or not."""
    namespace = await probe.namespace()
    await probe.remember(namespace)
    for query in ("tea", ""):
        answer = await probe.search(namespace, query=query)
        if probe.expect(answer, OK):
            probe.memories_of(answer)


def _judge_newest_first(probe: Probe, created: list[str]) -> None:
    times = [one for text in created if (one := parse_instant(text)) is not None]
    probe.judge_last("the newest first", holds=times == sorted(times, reverse=True), saw=created)
