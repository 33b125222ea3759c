"""GET /v1/health."""

from producers.contract_kit.cases.clause import case
from producers.contract_kit.probe import OK, Probe
from producers.contract_kit.wire import health_problem


@case("1.1, 1.2 HealthResponse", mend="Answer status, version and capabilities; claim nothing as an empty list.")
async def test_answers(probe: Probe) -> None:
    """200 with `status` ok, `version` 1.x and the list of `capabilities`."""
    answer = await probe.send("GET", "/v1/health")
    problem = health_problem(answer.value)
    if probe.expect(answer, OK):
        probe.judge(answer, "a HealthResponse", holds=problem is None, saw=f"{problem}: {answer.saw}")
    probe.judge(answer, "`status` ok", holds=answer.get("status") == "ok")


@case("1.3", mend="Ignore what you do not support; refuse nothing because of a capability you do not claim.")
async def test_tolerates_what_it_does_not_claim(probe: Probe) -> None:
    """Fields of capabilities that are not claimed are ignored: the write and the search succeed all the same."""
    namespace = await probe.namespace()
    written: dict[str, dict[str, object]] = {
        "ttl": {"expires_at": "2099-01-01T00:00:00Z"},
        "pin": {"pin": True},
        "propagation": {"propagation": {"depth": 1}},
        "embedding": {"embedding": [1.0, 0.5]},
    }
    for fields in (fields for capability, fields in written.items() if not probe.claims(capability)):
        probe.expect(await probe.write(namespace, **fields), 201)
    if not probe.claims("fts"):
        probe.expect(await probe.search(namespace, query="tea"), OK)
    if not probe.claims("embedding"):
        probe.expect(await probe.search(namespace, embedding=[1.0, 0.5]), OK)
