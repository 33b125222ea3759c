"""Capability `embedding`: vectors arrive with writes and searches. A plugin may use them or make its own."""

from afterturn_client.plugin_target import namespace_path

from producers.contract_kit.cases.clause import case
from producers.contract_kit.probe import BAD_REQUEST, CREATED, OK, Probe, memory_ids
from producers.contract_kit.wire import memory_problem

#: Contents that a model tells apart as well as the vectors beside them do.
ANIMAL, MEAL = "The aardvark sleeps in the cellar.", "Breakfast is served at eight."


@case("1.3, 1.4 (1)", "embedding", mend="Order by distance ascending; a score is a number, 1 - distance is usual.")
async def test_nearest_is_first(probe: Probe) -> None:
    """Of two memories the one whose vector (and text) is that of the search comes first; scores are numbers."""
    namespace = await probe.namespace()
    written = {
        text: (await probe.remember(namespace, text, embedding=axis(probe, number))).lower()
        for number, text in enumerate((ANIMAL, MEAL))
    }
    for number, text in enumerate((ANIMAL, MEAL)):
        seen = memory_ids(await probe.found(namespace, query=text, embedding=axis(probe, number), limit=1))
        probe.judge_last(f"{written[text]}, '{text}'", holds=seen == [written[text]], saw=seen)


@case("1.3, 1.4 (1)", "embedding", mend="A vector alone is a search, too.")
async def test_may_come_without_a_query(probe: Probe) -> None:
    """A search with an embedding and no query is 200 with memories as the contract has them."""
    namespace = await probe.namespace()
    await probe.remember(namespace, ANIMAL, embedding=axis(probe, 0))
    await probe.found(namespace, embedding=axis(probe, 0))


@case("1.4", "embedding", mend="Filter by namespace and kind in the vector search as in the listing.")
async def test_keeps_the_filters(probe: Probe) -> None:
    """A search by vector returns nothing of other namespaces and of no other kind."""
    namespace, other = await probe.namespace(), await probe.namespace()
    vector = axis(probe, 0)
    wanted = await probe.remember(namespace, ANIMAL, kind="summary", embedding=vector)
    await probe.remember(namespace, ANIMAL, kind="fact", embedding=vector)
    await probe.remember(other, ANIMAL, kind="summary", embedding=vector)
    seen = memory_ids(await probe.found(namespace, kinds=["summary"], query=ANIMAL, embedding=vector))
    probe.judge_last(f"{wanted} alone", holds=seen == [wanted.lower()], saw=seen)


@case("1.1, 1.2", "embedding", mend="Check the dimension yourself: what the store cannot take is 400, never a 5xx.")
async def test_other_dimension_is_no_failure(probe: Probe) -> None:
    """A vector of another dimension is taken, ignored or 400, in a write and in a search: never a 5xx."""
    namespace = await probe.namespace()
    await probe.remember(namespace, ANIMAL, embedding=axis(probe, 0))
    probe.expect_no_failure(await probe.write(namespace, MEAL, embedding=[0.5, 0.5, 0.5]), CREATED)
    probe.expect_no_failure(await probe.search(namespace, embedding=[0.5, 0.5, 0.5]), OK)
    probe.expect_no_failure(await probe.search(namespace, query="aardvark", embedding=[0.5, 0.5, 0.5]), OK)


@case("1.1, 1.2", "embedding", mend="A vector of zeros has no direction: its distance is NaN. Refuse it or ignore it.")
async def test_zero_vector_is_no_failure(probe: Probe) -> None:
    """A vector of zeros is taken, ignored or 400; an answer stays JSON, its scores numbers."""
    namespace = await probe.namespace()
    await probe.remember(namespace, ANIMAL, embedding=axis(probe, 0))
    zeros = [0.0] * probe.settings.dimension
    probe.expect_no_failure(await probe.write(namespace, MEAL, embedding=zeros), CREATED)
    for vector in (zeros, axis(probe, 0)):
        answer = await probe.search(namespace, embedding=vector)
        if probe.expect_no_failure(answer, OK) and answer.status == OK:
            wrong = "the body is no JSON" if not answer.is_json else None
            wrong = wrong or next(filter(None, map(memory_problem, probe.memories_of(answer))), None)
            probe.judge(answer, "memories as the contract has them", holds=wrong is None, saw=f"{wrong}: {answer.saw}")


@case("1.2", "embedding", mend="An embedding is a list of finite numbers; check it before the store does.")
async def test_must_be_numbers(probe: Probe) -> None:
    """An embedding that is no list of numbers is 400; a number too large for one is never a 5xx."""
    namespace = await probe.namespace()
    for wrong in ("0.5", {"0": 0.5}, ["a", "b"], [None, 1.0], [[0.5]], [True, False]):
        probe.expect(await probe.write(namespace, embedding=wrong), BAD_REQUEST, code="bad_request")
        probe.expect(await probe.search(namespace, embedding=wrong), BAD_REQUEST, code="bad_request")
    numbers = ",".join(["1e999", *["0.5"] * (probe.settings.dimension - 1)])
    body = f'{{"content": "x", "kind": "fact", "source": "agent", "embedding": [{numbers}]}}'
    probe.expect_no_failure(await probe.send("POST", namespace_path(namespace, "/memories"), body.encode()), CREATED)
    body = f'{{"namespaces": ["{namespace}"], "embedding": [{numbers}]}}'
    probe.expect_no_failure(await probe.send("POST", "/v1/search", body.encode()), OK)


def axis(probe: Probe, number: int) -> list[float]:
    """Return a unit vector of the dimension that the run was given."""
    return [float(one == number) for one in range(probe.settings.dimension)]
