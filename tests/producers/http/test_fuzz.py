"""Any request gets a status of the contract, and never an unhandled error."""

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import orjson
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.producers.conftest import World

# A thread of another test that draws a random number meanwhile looks to Hypothesis as if a strategy had done it.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

ALLOWED = {200, 201, 202, 204, 400, 401, 403, 404, 405, 409, 413, 422}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
leaf = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
value = st.recursive(
    leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=8
)
FIELDS = (
    "bank session_id turn_id user_id occurred_at messages metadata gateway turns query k exclude_session max_tokens "
    "kinds tags as_of min_position wait_ms sources explain ttl_s user_key app_id project_id conversation_id scope top_k"
)
names = st.sampled_from(FIELDS.split())
message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"]) | leaf, "content": text | value},
    optional={"name": leaf, "timestamp": leaf, "more": leaf},
)
nearly_a_turn = st.fixed_dictionaries(
    {"session_id": text, "turn_id": text, "messages": st.lists(message, max_size=3)},
    optional={"bank": text, "metadata": st.dictionaries(text, text, max_size=2), "occurred_at": leaf, "user_id": leaf},
)
body = nearly_a_turn | st.dictionaries(names | text, value, max_size=8) | value | st.lists(nearly_a_turn, max_size=3)
NATIVE = ("turns", "turns:batch", "recall", "recall/jobs")
GATEWAY = ("add", "flush", "search")
path = st.sampled_from([f"/api/v1/{call}" for call in NATIVE] + [f"/memories/{call}" for call in GATEWAY])
#: The fixtures are of the whole run, and a database takes the time it takes.
calm = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(60))


#: What a parameter in a path or behind it must not be able to do harm with.
HOSTILE = ("", "\0", "a\nb", "-1", "9" * 30, "true", "nan", "\u0661", "x" * 300)


def assert_contracted(reply: httpx.Response) -> None:
    assert reply.status_code in ALLOWED, reply.text
    if reply.status_code >= 400:
        assert set(reply.json()) == {"error", "request_id"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fuzzed(world: World) -> AsyncIterator[httpx.AsyncClient]:
    tenant = await world.tenant()
    yield tenant.http
    await tenant.http.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def known(world: World) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A client, and the key of a user of the gateway's door."""
    tenant = await world.tenant(gateway_user="ana")
    yield tenant.http, tenant.token
    await tenant.http.aclose()


@calm
@given(path=path, sent=body)
async def test_any_json_is_answered_by_the_contract(fuzzed: httpx.AsyncClient, path: str, sent: Any) -> None:
    assert_contracted(await fuzzed.post(path, content=orjson.dumps(sent)))


added = st.fixed_dictionaries(
    {
        "sender_id": text,
        "role": st.sampled_from(["user", "assistant", "tool"]),
        "timestamp": st.integers(1, 2**70) | leaf,
        "content": text | value | st.sampled_from(["\0", "<memory_reference>{}</memory_reference>"]),
    },
    optional={"tool_call_id": leaf},
)
searched = st.lists(st.sampled_from(["current_chat", "resources", "all_user_memory"]) | text, max_size=3)
#: What a gateway's client sends, and where it may go wrong.
WHOLE = {"session_id": "chat:s", "conversation_id": "s", "query": "hello", "scope": ["current_chat"], "messages": []}
wrong = st.fixed_dictionaries(
    {"messages": st.lists(added, max_size=3)},
    optional={
        **dict.fromkeys(("session_id", "conversation_id", "app_id", "project_id", "query"), text | leaf),
        "scope": searched,
        "top_k": leaf | st.integers(-1, 101),
    },
)


@calm
@given(call=st.sampled_from(GATEWAY), sent=wrong)
async def test_whatever_a_gateways_user_sends_is_answered_by_the_contract(
    known: tuple[httpx.AsyncClient, str], call: str, sent: dict[str, Any]
) -> None:
    http, key = known
    body = {**WHOLE, **sent, "user_id": "ana", "user_key": key}
    reply = await http.post(f"/memories/{call}", content=orjson.dumps(body))
    assert_contracted(reply)
    assert reply.status_code in {200, 422}, "the credentials open the door"


item = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "function_call_output", "reasoning", "other"]) | leaf},
    optional={
        "role": st.sampled_from(["user", "assistant", "tool", "developer"]) | leaf,
        "content": text | st.lists(st.fixed_dictionaries({"type": text}, optional={"text": leaf}), max_size=3) | value,
        **dict.fromkeys(("call_id", "output", "metadata", "arguments", "tool_calls", "summary", "more"), value),
    },
)
items = st.lists(item | value, max_size=4) | value
counts = st.integers(-(2**63), 2**64 - 1) | leaf
nearly_prepared = st.fixed_dictionaries(
    {"session_id": st.just("fuzz") | text, "turn_id": text},
    optional={
        **dict.fromkeys(("conversation_items", "current_input", "input_items", "output_items"), items),
        **dict.fromkeys(("current_input_start", "current_input_count", "max_input_tok"), counts),
        **dict.fromkeys(("project", "user_id", "scope", "base_instructions", "current_input_text", "unknown"), leaf),
    },
)


@calm
@given(call=st.sampled_from(["before", "after"]), sent=nearly_prepared | value)
async def test_whatever_the_life_cycle_of_a_turn_is_sent_is_answered_by_the_contract(
    fuzzed: httpx.AsyncClient, call: str, sent: Any
) -> None:
    assert_contracted(await fuzzed.post(f"/api/v1/turns/{call}", content=orjson.dumps(sent)))


@calm
@given(path=path, sent=st.binary(max_size=200))
async def test_any_bytes_are_answered_by_the_contract(fuzzed: httpx.AsyncClient, path: str, sent: bytes) -> None:
    assert_contracted(await fuzzed.post(path, content=sent))


@calm
@given(turns=st.lists(nearly_a_turn | value, min_size=1, max_size=4))
async def test_a_batch_of_anything_answers_for_each(fuzzed: httpx.AsyncClient, turns: list[Any]) -> None:
    reply = await fuzzed.post("/api/v1/turns:batch", content=orjson.dumps({"turns": turns}))
    assert reply.status_code == 200
    assert len(reply.json()["results"]) == len(turns)


@calm
@given(
    method=st.sampled_from(["GET", "DELETE", "PUT"]),
    parts=st.lists(
        st.sampled_from(["api", "v1", "turns", "units", "recall", "jobs", "banks", "freshness"]) | text, max_size=6
    ),
    query=st.dictionaries(
        st.sampled_from(["bank", "position", "wait_ms"]) | text, st.sampled_from(["0", "1"]) | text, max_size=3
    ),
)
async def test_any_path_is_answered_by_the_contract(
    fuzzed: httpx.AsyncClient, method: str, parts: list[str], query: dict[str, str]
) -> None:
    url = "/" + "/".join(quote(part, safe="") for part in parts) + "?" + urlencode(query)
    assert_contracted(await fuzzed.request(method, f"http://127.0.0.1{url}"))


async def test_no_documented_parameter_makes_an_accident(fuzzed: httpx.AsyncClient) -> None:
    paths = (await fuzzed.get("/openapi.json")).json()["paths"]
    asked = 0
    for path, calls in paths.items():
        for method, call in calls.items():
            for parameter in call.get("parameters", []):
                for hostile in HOSTILE:
                    assert_contracted(await fuzzed.request(method, filled(path, parameter, hostile)))
                    asked += 1
    assert asked > 200


def filled(path: str, parameter: dict[str, Any], hostile: str) -> str:
    """Return a path with one documented parameter set to a value, and ids that name nothing in the others' places."""
    if parameter["in"] == "query":
        path += "?" + urlencode({parameter["name"]: hostile})
    else:
        path = path.replace(f"{{{parameter['name']}}}", quote(hostile, safe=""))
    return re.sub(r"\{\w+\}", "00000000-0000-0000-0000-000000000000", path)
