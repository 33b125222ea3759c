"""Capability `pin`: pinned memories come first, in every kind of search."""

from producers.contract_kit.cases.clause import case
from producers.contract_kit.cases.test_embedding import ANIMAL, axis
from producers.contract_kit.findings import as_text
from producers.contract_kit.probe import BAD_REQUEST, Probe, memory_ids


@case("1.2 Memory", "pin", mend="Keep the pin; it is false unless it was set.")
async def test_comes_back(probe: Probe) -> None:
    """A pinned memory is returned with `pin` true; another without it, or with false."""
    namespace = await probe.namespace()
    wanted = {
        (await probe.remember(namespace, "pinned", pin=True)).lower(): True,
        (await probe.remember(namespace, "not pinned", pin=False)).lower(): False,
        (await probe.remember(namespace, "nothing said")).lower(): False,
    }
    seen = {str(one["id"]).lower(): bool(one.get("pin")) for one in await probe.found(namespace)}
    probe.judge_last(f"`pin` {as_text(wanted)}", holds=seen == wanted, saw=seen)
    probe.expect(await probe.write(namespace, pin="yes"), BAD_REQUEST, code="bad_request")


@case("1.3, 1.4 (4)", "pin", mend="Order by pin before created_at, and before the limit is applied.")
async def test_first_in_a_listing(probe: Probe) -> None:
    """A pinned memory comes before newer ones that are not pinned, also with a limit of 1."""
    namespace = await probe.namespace()
    pinned = await probe.remember(namespace, "pinned", pin=True)
    for number in range(2):
        await probe.remember(namespace, f"newer {number}")
    await _judge_first(probe, namespace, pinned)


@case("1.3, 1.4 (2)", "pin", "fts", mend="Order by pin before the rank: pinned is pinned, with a query, too.")
async def test_first_by_text(probe: Probe) -> None:
    """Of the memories that match a query the pinned one comes first, though another matches better."""
    namespace = await probe.namespace()
    pinned = await probe.remember(namespace, "Somewhere between breakfast and trains an aardvark appears.", pin=True)
    await probe.remember(namespace, "aardvark aardvark")
    await _judge_first(probe, namespace, pinned, query="aardvark")


@case("1.3, 1.4 (1)", "pin", "embedding", mend="Order by pin before the distance: pinned is pinned, by vector, too.")
async def test_first_by_vector(probe: Probe) -> None:
    """Of the memories near a vector the pinned one comes first, though another is nearer."""
    namespace = await probe.namespace()
    near = [0.8 * one + 0.6 * other for one, other in zip(axis(probe, 0), axis(probe, 1), strict=True)]
    pinned = await probe.remember(namespace, ANIMAL, pin=True, embedding=near)
    await probe.remember(namespace, ANIMAL, embedding=axis(probe, 0))
    await _judge_first(probe, namespace, pinned, query=ANIMAL, embedding=axis(probe, 0))


async def _judge_first(probe: Probe, namespace: str, pinned: str, **fields: object) -> None:
    """Note a deviation unless the pinned memory is the first, within a limit of 1 and within one of 100."""
    for limit in (1, 100):
        seen = memory_ids(await probe.found(namespace, limit=limit, **fields))
        probe.judge_last(f"{pinned}, the pinned one, first", holds=seen[:1] == [pinned.lower()], saw=seen)
