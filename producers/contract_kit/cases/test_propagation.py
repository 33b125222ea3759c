"""Capability `propagation`: opaque JSON that comes back as it was written."""

from typing import Any

from afterturn_client.plugin_target import namespace_path

from producers.contract_kit.cases.clause import case
from producers.contract_kit.findings import as_text
from producers.contract_kit.probe import BAD_REQUEST, CREATED, OK, Probe
from producers.contract_kit.wire import same_json

NESTED: dict[str, Any] = {
    "hops": [{"from": "workspace:a", "depth": 0}, {"from": "team:b", "depth": 1, "by": None}],
    "Straße": "会議 🙂",
    "empty": {"object": {}, "list": [], "text": ""},
    "on": True,
    "off": False,
    "ratio": 0.1,
    "": "a key of no letters",
}
NUMBERS: dict[str, Any] = {"id": 9007199254740993, "large": 123456789012345678901234567890, "small": -0.000001}


@case("1.2, 1.3", "propagation", mend="Store the object as JSON and return it as it came: nothing added or left out.")
async def test_comes_back_equal(probe: Probe) -> None:
    """Propagation comes back equal: nested, with nulls, empty values, booleans and any characters."""
    namespace = await probe.namespace()
    await probe.remember(namespace, propagation=NESTED)
    await _judge_kept(probe, namespace, NESTED)


@case("1.2, 1.3", "propagation", mend="Opaque means every digit: keep the JSON text, or decimals, not doubles; or 400.")
async def test_numbers_keep_their_digits(probe: Probe) -> None:
    """Whole numbers beyond 2^53 come back with every digit, or are 400: never altered."""
    namespace = await probe.namespace()
    answer = await probe.write(namespace, propagation=NUMBERS)
    if probe.expect(answer, CREATED, BAD_REQUEST) and answer.status == CREATED:
        await _judge_kept(probe, namespace, NUMBERS)


@case("1.2", "propagation", mend="Refuse what is no object with 400; refuse or keep NUL, which some stores cannot.")
async def test_must_be_an_object(probe: Probe) -> None:
    """Propagation that is no object is 400; a NUL in it is kept or 400: never a 5xx."""
    namespace = await probe.namespace()
    wrongs: tuple[object, ...] = ([], "text", 7, True)
    for wrong in wrongs:
        probe.expect(await probe.write(namespace, propagation=wrong), BAD_REQUEST, code="bad_request")
    body = rb'{"content": "x", "kind": "fact", "source": "agent", "propagation": {"a": "b\u0000c"}}'
    answer = await probe.send("POST", namespace_path(namespace, "/memories"), body)
    if probe.expect_no_failure(answer, CREATED) and answer.status == CREATED:
        await _judge_kept(probe, namespace, {"a": "b\0c"})
    probe.expect(await probe.search(namespace), OK)


async def _judge_kept(probe: Probe, namespace: str, expected: object) -> None:
    """Note a deviation unless the namespace's memories are one, with this propagation."""
    seen = [one.get("propagation") for one in await probe.found(namespace)]
    probe.judge_last(
        f"`propagation` {as_text(expected)}", holds=len(seen) == 1 and same_json(seen[0], expected), saw=seen
    )
