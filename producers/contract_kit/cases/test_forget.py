"""DELETE /v1/memories/{id}."""

from uuid import uuid4

from producers.contract_kit.cases.clause import case
from producers.contract_kit.probe import BAD_REQUEST, NO_CONTENT, NOT_FOUND, Probe, memory_ids


@case("1.1 DELETE memories", mend="Delete the memory, answer 204 without a body, and return it from no search again.")
async def test_removes_the_memory(probe: Probe) -> None:
    """A memory that its namespace forgets is 204 and in no search any more; the others stay."""
    namespace = await probe.namespace()
    gone = await probe.remember(namespace, "the first tea")
    kept = (await probe.remember(namespace, "the second tea")).lower()
    answer = await probe.forget(gone, namespace)
    if probe.expect(answer, NO_CONTENT):
        probe.judge(answer, "no body", holds=not answer.raw)
    for fields in ({}, {"query": "tea"}):
        seen = memory_ids(await probe.found(namespace, **fields))
        probe.judge_last(f"{kept} alone", holds=seen == [kept], saw=seen)


@case("1.1 DELETE memories", mend="A memory that is not there is 404, the second time, too.")
async def test_unknown_ids_are_404(probe: Probe) -> None:
    """An id that was never written, or was forgotten before, is 404 not_found."""
    namespace = await probe.namespace()
    memory_id = await probe.remember(namespace)
    probe.expect(await probe.forget(str(uuid4()), namespace), NOT_FOUND, code="not_found")
    probe.require(await probe.forget(memory_id, namespace), NO_CONTENT)
    probe.expect(await probe.forget(memory_id, namespace), NOT_FOUND, code="not_found")


@case("1.1 DELETE memories", mend="Delete only where id and namespace match, and answer as for an id that is unknown.")
async def test_another_namespace_forgets_nothing(probe: Probe) -> None:
    """Asked by another namespace, known or not, the memory stays and the answer is the 404 of an unknown id."""
    mine, other = await probe.namespace(), await probe.namespace()
    memory_id = await probe.remember(mine)
    for stranger in (other, probe.names.new()):
        probe.expect(await probe.forget(memory_id, stranger), NOT_FOUND, code="not_found")
    seen = memory_ids(await probe.found(mine))
    probe.judge_last(f"{memory_id} is still there", holds=seen == [memory_id.lower()], saw=seen)


@case("1.2 ForgetRequest", mend="The body is required on this DELETE, and its namespace must keep the rule of names.")
async def test_refuses_wrong_requests(probe: Probe) -> None:
    """A body that names no namespace, or none that can be one, is 400; an id that is no UUID is 400 or 404."""
    namespace = await probe.namespace()
    memory_id = await probe.remember(namespace)
    path = f"/v1/memories/{memory_id}"
    for body in (None, {}, {"requested_by_namespace": None}, {"requested_by_namespace": 7}):
        probe.expect(await probe.send("DELETE", path, body), BAD_REQUEST, code="bad_request")
    probe.expect(await probe.forget("memory-1", namespace), BAD_REQUEST, NOT_FOUND)
    seen = memory_ids(await probe.found(namespace))
    probe.judge_last(f"{memory_id} is still there", holds=seen == [memory_id.lower()], saw=seen)
