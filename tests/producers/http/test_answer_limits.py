"""What one key may lay down, have waiting and be answered is bounded, and each refusal names its limit."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from afterturn_client.contract.freshness import Freshness
from afterturn_client.contract.knowledge import Directive
from hypothesis import given
from hypothesis import strategies as st

from producers.service.gateway_calls import SearchBody, build_answer
from producers.service.recall_coordinator import RecallResult
from producers.service.recall_json import MOST_BYTES, as_json
from producers.settings import ApiSettings
from store.identity import host_id
from store.recall import candidates, jobs
from store.recall.query import Recalled
from tests.producers.conftest import Tenant, World, broker_of, build
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row

JOBS = "/api/v1/recall/jobs"
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FRESHLY = Freshness(position=1, embedded=1, extracted=1, projected=1, pending=0)

texts = st.lists(st.text('a<&"\\\x01é😀\u2028 ', max_size=400), max_size=8)


def answering(*said: str) -> RecallResult:
    items = [
        Recalled(
            UUID(int=n), "experience", text, 1.0 - n / 100, "s", f"t{n}", (f"t{n}",), "user", "Ann", NOON, ("dense",)
        )
        for n, text in enumerate(said)
    ]
    return RecallResult(
        items,
        FRESHLY,
        1.0,
        directives=[Directive(directive_id=UUID(int=9), name="tone", content="Be brief.", priority=0)],
    )


@given(texts, st.integers(4096, 12_000))
def test_an_answer_never_has_more_bytes_than_it_may(said: list[str], most: int) -> None:
    whole = orjson.loads(as_json(answering(*said)))
    written = as_json(answering(*said), most)
    told = orjson.loads(written)
    assert len(written) <= most
    kept = told["results"]
    if kept and "cut" in kept[0]:
        assert (len(kept), told["truncated"], "text" in kept[0]) == (1, True, True)
    else:
        assert kept == whole["results"][: len(kept)]
        assert told.get("truncated", False) is (len(kept) < len(whole["results"]))


def test_an_answer_that_is_cut_says_so_and_keeps_the_best() -> None:
    answer = answering(*(f"{n} {'<' * 1000}" for n in range(50)))
    told = orjson.loads(as_json(answer, 100_000))
    kept = [one["turn_id"] for one in told["results"]]
    assert kept == [f"t{n}" for n in range(len(kept))]
    assert 5 < len(kept) < 50
    assert told["truncated"] is True
    assert told["note"].startswith(f"{len(kept)} of 50 results: an answer has at most 100000 bytes")
    assert f"\n[{len(kept)}] " in told["reference"]["content"]
    assert f'"t{len(kept)}"' not in told["reference"]["content"]


@each_row("sign", ["a", "<", "\x01", '"', "\\", "\u2028", "😀"])
def test_of_a_single_result_that_has_no_room_the_beginning_is_told(sign: str) -> None:
    written = as_json(answering(sign * 100_000), 20_000)
    [one] = orjson.loads(written)["results"]
    assert len(written) <= 20_000
    assert one["cut"] is True
    assert one["text"].startswith(sign * 100)


async def test_an_answer_of_many_long_texts_is_bounded_in_bytes_and_in_what_is_read_for_it(
    ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = ApiSettings().max_message_bytes
    for n in range(12):
        message = {"role": "user", "content": f"the lighthouse {n} {'<' * long}"[:long]}
        turn = {"session_id": f"s{n}", "turn_id": "1", "messages": [message]}
        assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    reply = await ana.http.post("/api/v1/recall", json={"query": "the lighthouse", "k": 100})
    told = reply.json()
    assert len(reply.content) <= MOST_BYTES
    assert told["truncated"] is True
    assert 0 < len(told["results"]) < 12
    monkeypatch.setattr(candidates, "MOST_BYTES", 2 * long)
    few = (await ana.http.post("/api/v1/recall", json={"query": "the lighthouse", "k": 5})).json()["results"]
    assert [one.get("cut", False) for one in few] == [False, False, True, True, True]
    assert {len(one["text"]) for one in few if "cut" in one} == {candidates.CHARACTERS}


def test_a_gateway_client_is_answered_with_the_best_results_that_have_room() -> None:
    asked = {"query": "x", "conversation_id": "c", "scope": ["all_user_memory"]}
    named = {"user_id": "u", "app_id": "a", "project_id": "p", "user_key": "k"}
    body = SearchBody.model_validate({**named, **asked})
    found = [*answering(*("\x01" * 262_144 for _ in range(8))).items]
    answer = build_answer(body, found)
    told = answer["results"]
    assert answer["truncated"] is True
    assert "5 of 8 results" in answer["note"]
    assert [one.id for one in told] == [str(item.unit_id) for item in found[:5]]
    assert len(orjson.dumps(answer)) <= MOST_BYTES
    assert build_answer(body, found[:2]) == {"results": told[:2]}


async def test_a_directive_has_the_limit_of_a_message(world: World, ana: Tenant) -> None:
    most = ApiSettings().max_message_bytes
    reply = await ana.http.post("/api/v1/directives", json={"name": "tone", "content": "x" * (most + 1)})
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert reply.json()["error"]["details"] == {"field": "content", "limit": "max_message_bytes", "limit_bytes": most}
    written = await world.sql("select 1 from afterturn.event_store_t where host_id = :host", host=host_id(ana.host))
    assert written == []
    assert (await ana.http.post("/api/v1/directives", json={"name": "tone", "content": "x" * most})).status_code == 201


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"k": "x" * 257}},
        {"metadata": {"x" * 257: "v"}},
        {"metadata": {f"k{n}": "v" for n in range(17)}},
        {"tags": ["x" * 257]},
        {"kinds": ["world"] * 17},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_a_filter_has_few_and_short_values(ana: Tenant, fields: dict[str, Any]) -> None:
    for path in ("/api/v1/recall", JOBS):
        reply = await ana.http.post(path, json={"query": "x", **fields})
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")
        assert "x" * 65 not in reply.text


async def test_so_many_jobs_of_a_tenant_wait_and_no_more(postgres: TestPostgres, valkey: TestValkey) -> None:
    made = build(postgres, broker_of(valkey.url, f"jobs-{uuid4().hex}"), settings=ApiSettings(max_recall_jobs=3))
    try:
        ann, ben = await made.tenant(write=False), await made.tenant(write=False)
        asked = [await ann.http.post(JOBS, json={"query": "x"}) for _ in range(5)]
        assert [one.status_code for one in asked] == [202, 202, 202, 429, 429]
        error = asked[-1].json()["error"]
        assert (error["code"], error["retryable"]) == ("RATE_LIMITED", True)
        assert error["details"] == {"limit": "max_recall_jobs", "scope": "host", "allowed": 3}
        assert int(asked[-1].headers["retry-after"]) > 0
        assert (await ben.http.post(JOBS, json={"query": "x"})).status_code == 202
        await ann.http.delete(f"{JOBS}/{asked[0].json()['job_id']}")
        assert (await ann.http.post(JOBS, json={"query": "x"})).status_code == 202
    finally:
        await made.close()


async def test_answers_that_wait_hold_so_many_bytes_of_a_tenant_and_no_more(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST_KEPT_BYTES", 2000)
    job = UUID((await ana.http.post(JOBS, json={"query": "x"})).json()["job_id"])
    taken = await world.jobs.take(host_id(ana.host), job, timedelta(minutes=5))
    assert taken is not None
    assert await world.jobs.finish(taken, orjson.dumps({"results": ["y" * 3000]}))
    full = await ana.http.post(JOBS, json={"query": "x"})
    assert (full.status_code, full.json()["error"]["details"]["limit"]) == (429, "max_bytes_of_recall_jobs")
    assert (await ana.http.delete(f"{JOBS}/{job}")).status_code == 204
    assert (await ana.http.post(JOBS, json={"query": "x"})).status_code == 202


def test_a_replaced_answer_is_still_an_answer() -> None:
    """`replace` of what is cut keeps everything else: the frame's directives, the trace."""
    answer = replace(answering(*("x" * 3000 for _ in range(4))), explain=True, trace={"embed": 1.0})
    told = orjson.loads(as_json(answer, 12_000))
    assert (told["directives"][0]["name"], told["trace"]) == ("tone", {"embed": 1.0})


async def test_a_page_ends_where_its_texts_are_large_and_the_next_goes_on(
    ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.page_bytes.MOST_BYTES", 10_000)
    directives = [{"name": f"rule {n}", "content": f"{n} {'x' * 4_000}", "bank": "large"} for n in range(7)]
    for one in directives:
        assert (await ana.http.post("/api/v1/directives", json=one)).status_code == 201
    documents = [{"content": f"text {n}", "metadata": {"key": "m" * 4_000}, "bank": "large"} for n in range(7)]
    for document in documents:
        assert (await ana.http.post("/api/v1/docs", json=document)).status_code == 201
    assert await read_pages(ana, "directives", limit=200) == [3, 3, 1]
    assert await read_pages(ana, "docs", limit=200) == [3, 3, 1]
    assert await read_pages(ana, "directives", limit=2) == [2, 2, 2, 1]


async def read_pages(tenant: Tenant, kind: str, limit: int) -> list[int]:
    """Read a list to its end; return the sizes of its pages, which hold no row twice."""
    seen, sizes = list[str](), list[int]()
    asked = {"bank": "large", "limit": str(limit)}
    while True:
        page = (await tenant.http.get(f"/api/v1/{kind}", params=asked)).json()
        seen += [one.get("directive_id") or one["doc_id"] for one in page[kind]]
        sizes.append(len(page[kind]))
        assert page["has_more"] == (page["cursor"] is not None)
        if not page["has_more"]:
            assert len(set(seen)) == len(seen)
            return sizes
        asked["cursor"] = page["cursor"]
