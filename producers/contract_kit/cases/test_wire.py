"""All routes: JSON in, JSON out, Error bodies, routing."""

from uuid import uuid4

from afterturn_client.plugin_target import namespace_path

from producers.contract_kit.cases.clause import case
from producers.contract_kit.client import PluginReply
from producers.contract_kit.probe import BAD_REQUEST, METHOD_NOT_ALLOWED, NOT_FOUND, Probe
from producers.contract_kit.wire import error_problem

#: None of these is a JSON object.
NOT_OBJECTS = (b"", b"{", b"{'kind': 'custom'}", b"[]", b"null", b'"text"', b"7")


@case("1.1", mend="Set Content-Type: application/json on every answer that has a body, errors and 404s included.")
async def test_content_type_is_json(probe: Probe) -> None:
    """Every answer with a body says Content-Type: application/json."""
    namespace = await probe.namespace()
    await probe.write(namespace)
    await probe.search(namespace)
    await probe.send("GET", "/v1/health")
    for answer in [*probe.steps, *await _collect_refusals(probe)]:
        said = answer.content_type.partition(";")[0].strip().lower()
        saw = f"{answer.status} with Content-Type {answer.content_type or '(none)'}"
        probe.judge(answer, "Content-Type application/json", holds=said == "application/json", saw=saw)


@case("1.2 Error", mend="Answer {code, message} with one of the five codes; leave `details` out or make it an object.")
async def test_errors_have_code_and_message(probe: Probe) -> None:
    """Every refusal is an Error: a code of the contract, a message, and nothing but an object as details."""
    for answer in await _collect_refusals(probe):
        problem = error_problem(answer.value)
        probe.judge(answer, "an Error body", holds=problem is None, saw=f"{problem}: {answer.saw}")


@case("1.1", mend="Refuse a body that is no JSON object with 400 before anything else is done with it.")
async def test_bodies_must_be_json_objects(probe: Probe) -> None:
    """A body that is missing, is no JSON or is no object is 400 on every route that reads one."""
    namespace = await probe.namespace()
    memory_id = await probe.remember(namespace)
    for method, path in (
        ("PUT", namespace_path(namespace)),
        ("PATCH", namespace_path(namespace)),
        ("POST", namespace_path(namespace, "/memories")),
        ("POST", "/v1/search"),
        ("DELETE", f"/v1/memories/{memory_id}"),
    ):
        for body in NOT_OBJECTS:
            probe.expect(await probe.send(method, path, body), BAD_REQUEST, code="bad_request")


@case("1.1", mend="NaN is not JSON, though some parsers read it (Python's json does: give it a parse_constant).")
async def test_nan_is_not_json(probe: Probe) -> None:
    """NaN and Infinity in a body are 400, like every body that is not JSON."""
    namespace = await probe.namespace()
    path = namespace_path(namespace, "/memories")
    for constant in ("NaN", "Infinity", "-Infinity"):
        body = f'{{"content": "x", "kind": "fact", "source": "agent", "embedding": [{constant}]}}'
        probe.expect(await probe.send("POST", path, body.encode()), BAD_REQUEST, code="bad_request")


@case("1.1", mend="Answer unknown paths with 404 and an Error body, not with your framework's page.")
async def test_unknown_paths_are_404(probe: Probe) -> None:
    """A path that the contract does not have is 404 not_found, also below a namespace."""
    namespace = await probe.namespace()
    for method, path in (
        ("GET", "/v1/nothing"),
        ("POST", namespace_path(namespace, "/x")),
        ("GET", namespace_path(namespace, "/x")),
    ):
        probe.expect(await probe.send(method, path), NOT_FOUND, code="not_found")


@case("1.1", mend="Only namespaces know 405; a wrong method on health or search is an unknown path.")
async def test_wrong_methods(probe: Probe) -> None:
    """GET of a namespace is 405 bad_request; POST /v1/health and GET /v1/search are 404 not_found."""
    namespace = await probe.namespace()
    got = await probe.send("GET", namespace_path(namespace))
    probe.expect(got, METHOD_NOT_ALLOWED, code="bad_request")
    probe.expect(await probe.send("POST", "/v1/health", {}), NOT_FOUND, code="not_found")
    probe.expect(await probe.send("GET", "/v1/search"), NOT_FOUND, code="not_found")


@case("1.1", mend="An empty name or id matches the route and is a bad request.")
async def test_empty_names_are_400(probe: Probe) -> None:
    """`/v1/namespaces/` and `/v1/memories/` with nothing behind them are 400 bad_request."""
    namespaces = await probe.send("PUT", "/v1/namespaces/", {"kind": "custom"})
    probe.expect(namespaces, BAD_REQUEST, code="bad_request")
    body = {"requested_by_namespace": "custom:nothing"}
    probe.expect(await probe.send("DELETE", "/v1/memories/", body), BAD_REQUEST, code="bad_request")


async def _collect_refusals(probe: Probe) -> list[PluginReply]:
    """Return answers to requests that every plugin refuses, one of each kind."""
    unused = probe.names.new()
    return [
        await probe.put(unused, kind="nothing of the kind"),
        await probe.patch(unused, metadata={}),
        await probe.search(),
        await probe.send("GET", "/v1/nothing"),
        await probe.send("GET", namespace_path(unused)),
        await probe.forget(str(uuid4()), unused),
    ]
