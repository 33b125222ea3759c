"""One trace from an agent's request to the last stage of its turn, ids only; and nothing of it where tracing is off."""

import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import orjson
import pytest
import pytest_asyncio
import structlog
from afterturn_client import Afterturn
from afterturn_client.envelopes import TURN, wrap_event
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deploy.api import __main__ as api
from deploy.observability import logs
from deploy.observability.otlp_traces import OtlpTraces
from deploy.observability.tracing import MISSING, TracingSettings, find_missing_packages, start_tracing
from deploy.settings import LogFormat, LogSettings
from producers.plugin.app import PluginApp
from producers.plugin.bank_store import BankPluginStore
from producers.queue.acceptance import QueueIntake
from producers.service.gateway_clients import CallPolicy, GatewayClients, TargetCredentials
from producers.service.recall_coordinator import RecallCoordinator
from producers.settings import ApiSettings
from store import identity
from store.ledger.ledger import Claim
from store.ledger.stages import Stage
from store.tenancy.keys import Grant
from store.tracing import (
    current_traceparent,
    install_tracer,
    is_tracing,
    read_traceparent,
    trace_operation,
)
from tests.client.loopback import Seen, loopback
from tests.patience import PATIENCE_S, until
from tests.producers import conftest as producers
from tests.producers.conftest import Tenant, broker_of, build
from tests.producers.plugin.kept import parts_of
from tests.servers import TestPostgres, TestValkey
from tests.tables import each_row
from tests.workers.conftest import World, open_world
from tests.workers.gateways import KEY, gateway
from tests.workers.stages import Crew
from tests.workers.targets import SETTINGS, hand_to
from workers.errors import Permanent
from workers.recall import RecallWork
from workers.stage_work import ClaimSize, Worked

MARK = "zq71feldspar"
AGENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-11112222333344445555666677778888-1234567812345678-01"
KEPT = "select traceparent from afterturn.ledger_t order by position, stage"


@dataclass
class Stack:
    """An API and workers on one database of this test alone."""

    api: producers.World
    workers: World
    ana: Tenant

    async def post(self, *, traceparent: str | None = None, turn: str = "1", session: str = "s") -> httpx.Response:
        headers = {"traceparent": traceparent} if traceparent else {}
        answer = await self.ana.http.post("/api/v1/turns", json=said(turn, session), headers=headers)
        assert answer.status_code == 201, answer.text
        return answer

    async def kept(self) -> set[str | None]:
        """What the rows of the ledger keep."""
        return {row.traceparent for row in await self.workers.sql(KEPT)}


def said(turn: str = "1", session: str = "s") -> dict[str, Any]:
    messages = [
        {"role": "user", "name": MARK, "content": f"{MARK}: Anna moved to Lisbon."},
        {"role": "assistant", "content": f"Noted, {MARK}."},
    ]
    return {"bank": MARK, "session_id": session, "turn_id": turn, "user_id": MARK, "messages": messages}


@pytest_asyncio.fixture(loop_scope="session")
async def stack(fresh_database: TestPostgres, valkey: TestValkey) -> AsyncIterator[Stack]:
    made = build(fresh_database, broker_of(valkey.url, f"traces-{uuid4().hex}"), settings=ApiSettings())
    workers = await open_world(fresh_database)
    ana = await made.tenant("default")
    yield Stack(made, workers, ana)
    await ana.http.aclose()
    await workers.database.close()
    await made.close()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What is traced during the test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = OtlpTraces(provider)
    install_tracer(traces.tracer)
    yield exporter
    install_tracer(None)
    traces.close()


def trace_of(traceparent: str) -> int:
    return int(traceparent.split("-")[1], 16)


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def traces_of(spans: Sequence[ReadableSpan]) -> set[int]:
    return {span.context.trace_id for span in spans if span.context is not None}


async def test_one_trace_leads_from_the_request_to_the_last_stage_and_on_to_the_gateway(
    stack: Stack, spans: InMemorySpanExporter
) -> None:
    with gateway() as far:
        await hand_to(stack.workers.database, identity.host_id("default"), far.url)
        clients = GatewayClients(
            stack.workers.database,
            lambda target: TargetCredentials(target.user.base_url or "", KEY),
            CallPolicy(PATIENCE_S, 0.0),
        )
        await stack.post(traceparent=AGENT)
        async with Crew(stack.workers, gateways=clients, settings=SETTINGS) as crew:
            await crew.drain()
        assert not far.complaints
        told = [seen.headers["traceparent"] for seen in far.server.seen]
    found = spans.get_finished_spans()
    assert traces_of(found) == {trace_of(AGENT)}
    assert {span.name: span.kind for span in found} == {
        "POST /api/v1/turns": SpanKind.SERVER,
        "upsert_memory": SpanKind.INTERNAL,
        "process gateway": SpanKind.CONSUMER,
        "gateway add": SpanKind.CLIENT,
        "gateway flush": SpanKind.CLIENT,
        "process extraction": SpanKind.CONSUMER,
        "process embedding": SpanKind.CONSUMER,
        f"embeddings {Crew(stack.workers).embedder.name}": SpanKind.INTERNAL,
        "process projection": SpanKind.CONSUMER,
    }
    assert [trace_of(one) for one in told] == [trace_of(AGENT)] * 2
    [request], [written] = named(spans, "POST /api/v1/turns"), named(spans, "upsert_memory")
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == AGENT.split("-")[2]
    for stage in ("gateway", "extraction", "projection"):
        [span] = named(spans, f"process {stage}")
        assert span.parent is not None
        assert written.context is not None
        assert span.parent.span_id == written.context.span_id
        assert dict(span.attributes or {})["afterturn.outcome"] == "done"


@pytest.mark.law("L7")
async def test_a_span_holds_ids_counts_and_names_of_operations_and_no_word_of_a_caller(
    stack: Stack, spans: InMemorySpanExporter
) -> None:
    await stack.post()
    await Crew(stack.workers).drain()
    recalled = await stack.ana.http.post("/api/v1/recall", json={"bank": MARK, "query": f"{MARK} Lisbon"})
    assert recalled.json()["results"]
    erasure = {"kind": "session", "bank": MARK, "session_id": "s"}
    assert (await stack.ana.http.post("/api/v1/erasures", json=erasure)).is_success
    assert (await stack.ana.http.get(f"/api/v1/banks/{MARK}/freshness")).is_success
    assert (await stack.ana.http.get(f"/{MARK}", params={MARK: MARK})).status_code == 404
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert {"search_memory", "upsert_memory", "delete_memory"} <= {span.name for span in spans.get_finished_spans()}
    assert MARK not in told
    assert "Lisbon" not in told
    assert stack.ana.token not in told
    host = identity.host_id("default")
    bank = identity.bank_id(host, MARK)
    session = identity.session_id(bank, "s")
    [written], [searched] = named(spans, "upsert_memory"), named(spans, "search_memory")
    assert dict(written.attributes or {}) == {
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.provider.name": "afterturn",
        "gen_ai.memory.store.id": str(bank),
        "gen_ai.conversation.id": str(session),
        "gen_ai.memory.record.count": 2,
        "afterturn.tenant.id": str(host),
        "afterturn.turn.id": str(identity.turn_id(session, "1")),
    }
    assert dict(searched.attributes or {})["gen_ai.memory.record.count"] == len(recalled.json()["results"])


async def test_a_request_without_a_trace_begins_one_and_its_turn_keeps_it(
    stack: Stack, spans: InMemorySpanExporter
) -> None:
    await stack.post()
    [kept] = await stack.kept()
    assert kept is not None
    await Crew(stack.workers).drain(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION)
    assert traces_of(spans.get_finished_spans()) == {trace_of(kept)}


@pytest.mark.parametrize("place", ["header", "_meta"])
async def test_a_turn_that_ends_over_mcp_is_traced_to_its_last_stage(
    stack: Stack, spans: InMemorySpanExporter, place: str
) -> None:
    arguments = {
        "project": "default",
        "session_id": "s",
        "turn_id": "1",
        "input_items": [{"type": "message", "role": "user", "content": f"{MARK} went to Lisbon"}],
        "output_items": [{"type": "message", "role": "assistant", "content": "Noted."}],
    }
    params: dict[str, Any] = {"name": "memory_after_turn", "arguments": arguments}
    headers = {"accept": "application/json, text/event-stream"}
    if place == "header":
        headers["traceparent"] = AGENT
    else:
        params["_meta"] = {"traceparent": AGENT}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = await stack.ana.http.post("/mcp", json=asked, headers=headers)
    assert not answer.json()["result"].get("isError"), answer.text
    await Crew(stack.workers).drain(Stage.EXTRACTION, Stage.EMBEDDING, Stage.PROJECTION)
    stages = [span for span in spans.get_finished_spans() if span.name.startswith("process ")]
    assert len(stages) >= 3
    assert traces_of([*stages, *named(spans, "tools/call memory_after_turn")]) == {trace_of(AGENT)}


async def test_without_tracing_no_row_keeps_a_trace(stack: Stack) -> None:
    assert not is_tracing()
    await stack.post(traceparent=AGENT)
    assert await stack.kept() == {None}


async def test_what_a_caller_does_not_sample_is_neither_sent_nor_kept(
    stack: Stack, spans: InMemorySpanExporter
) -> None:
    await stack.post(traceparent=f"{AGENT[:-2]}00")
    await Crew(stack.workers).drain(Stage.EXTRACTION)
    assert spans.get_finished_spans() == ()
    assert await stack.kept() == {None}


async def test_turns_of_several_traces_that_are_worked_on_together_link_to_each_other(
    stack: Stack, spans: InMemorySpanExporter
) -> None:
    await stack.post(traceparent=AGENT, turn="1")
    await stack.post(traceparent=OTHER, turn="2")
    await Crew(stack.workers).drain(Stage.EXTRACTION)
    first, second = sorted(
        named(spans, "process extraction"), key=lambda span: trace_of(AGENT) not in traces_of([span])
    )
    assert traces_of([first]) == {trace_of(AGENT)}
    assert traces_of([second]) == {trace_of(OTHER)}
    assert [link.context.trace_id for link in first.links] == [trace_of(OTHER)]
    assert [link.context.trace_id for link in second.links] == [trace_of(AGENT)]


class Broken:
    """A stage whose work fails with a text that nobody may see."""

    stage = Stage.EXTRACTION
    claim_size = ClaimSize(streams=4, rows=4)

    async def work(self, claims: Sequence[Claim]) -> Worked:
        raise Permanent("broken", f"{MARK} in {len(claims)} claims")


async def test_of_an_error_a_span_tells_the_class_and_nothing_else(stack: Stack, spans: InMemorySpanExporter) -> None:
    await stack.post(traceparent=AGENT)
    await Crew(stack.workers).runner(Stage.EXTRACTION, Broken()).drain()
    [failed] = named(spans, "process extraction")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description is None
    assert failed.events == ()
    assert dict(failed.attributes or {})["error.type"] == "Permanent"
    assert MARK not in failed.to_json()


async def test_an_erased_turn_keeps_no_trace(stack: Stack, spans: InMemorySpanExporter) -> None:
    await stack.post(traceparent=AGENT)
    assert None not in await stack.kept()
    erasure = {"kind": "session", "bank": MARK, "session_id": "s"}
    assert (await stack.ana.http.post("/api/v1/erasures", json=erasure)).is_success
    assert await stack.kept() == {None}
    assert spans.get_finished_spans()


async def test_a_document_is_traced_like_a_turn(stack: Stack, spans: InMemorySpanExporter) -> None:
    headers = {"traceparent": AGENT}
    document = {"content": f"{MARK} is from 3 pm.", "title": "Hotel"}
    assert (await stack.ana.http.post("/api/v1/docs", json=document, headers=headers)).status_code == 201
    [kept] = await stack.kept()
    assert kept is not None
    assert trace_of(kept) == trace_of(AGENT)
    await Crew(stack.workers).drain(Stage.EXTRACTION)
    assert traces_of(named(spans, "process extraction")) == {trace_of(AGENT)}


async def test_a_memory_of_a_plugin_is_traced_like_a_turn(stack: Stack, spans: InMemorySpanExporter) -> None:
    parts = parts_of(stack.api.database, stack.api.notifier, stack.api.clock)

    async def store_of(_request: Request) -> BankPluginStore:
        return BankPluginStore(identity.host_id("default"), parts)

    transport = httpx.ASGITransport(PluginApp(store_of, ApiSettings(), alone=True))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as plugin:
        await plugin.put("/v1/namespaces/workspace:one", json={"kind": "workspace"})
        memory = {"content": f"{MARK} is in Lisbon.", "kind": "fact", "source": "agent"}
        written = await plugin.post(
            "/v1/namespaces/workspace:one/memories", json=memory, headers={"traceparent": AGENT}
        )
        assert written.status_code == 201, written.text
    await Crew(stack.workers).drain(Stage.EXTRACTION, Stage.EMBEDDING)
    found = [span for span in spans.get_finished_spans() if trace_of(AGENT) in traces_of([span])]
    names = {span.name for span in found}
    assert {"process extraction", "process embedding", "POST /v1/namespaces/{name}/memories"} <= names
    assert MARK not in "".join(span.to_json() for span in spans.get_finished_spans())


async def test_a_recall_job_is_answered_in_the_trace_of_its_request(stack: Stack, spans: InMemorySpanExporter) -> None:
    asked = await stack.ana.http.post(
        "/api/v1/recall/jobs", json={"bank": "default", "query": f"{MARK}?"}, headers={"traceparent": AGENT}
    )
    job = UUID(asked.json()["job_id"])

    async def ready() -> None:
        return

    recalls: RecallCoordinator = stack.api.recalls
    work = RecallWork(stack.api.jobs, recalls, timedelta(seconds=30), ready)
    await work.answer(identity.host_id("default"), job)
    [answered] = named(spans, "process recall")
    assert dict(answered.attributes or {})["afterturn.outcome"] == "done"
    assert traces_of([answered, *named(spans, "search_memory")]) == {trace_of(AGENT)}


async def test_a_published_turn_is_accepted_in_the_trace_of_its_publisher(
    stack: Stack, spans: InMemorySpanExporter
) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    with provider.get_tracer("agent").start_as_current_span("agent's turn") as agent:
        message = wrap_event(TURN, said(), "agent")
    event = orjson.loads(message.body)["args"][0]
    assert trace_of(event["traceparent"]) == agent.get_span_context().trace_id

    async def nothing() -> None:
        return

    grant = Grant(uuid4(), identity.host_id("default"), None, write=True)
    intake = QueueIntake(stack.api.memory, grant, 1 << 20, 3, nothing)
    assert await intake.accept(message.body, 0) is None
    assert traces_of(spans.get_finished_spans()) == {agent.get_span_context().trace_id}


def test_an_agents_call_carries_its_span_and_without_one_no_header() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    fresh = {"position": 1, "embedded": 1, "extracted": 1, "projected": 1, "pending": 0, "waited_ms": 0, "met": True}
    with loopback() as far, Afterturn(far.url, "key") as memory:
        far.answer = lambda _seen: JSONResponse(fresh)
        with provider.get_tracer("agent").start_as_current_span("agent's turn") as agent:
            memory.freshness()
        memory.freshness()
        first, second = far.seen
    assert trace_of(first.headers["traceparent"]) == agent.get_span_context().trace_id
    assert "traceparent" not in second.headers
    assert not trace.get_current_span().get_span_context().is_valid


async def test_the_collector_gets_protobuf_over_http_that_names_service_and_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=quartz")
    with loopback() as collector:
        collector.answer = lambda _seen: Response(b"", media_type="application/x-protobuf")
        stop = start_tracing(TracingSettings(enabled=True, endpoint=collector.url, service_name="memory"))
        with trace_operation("process extraction", {"afterturn.attempt": 1}, kind=SpanKind.CONSUMER, parent=AGENT):
            pass
        stop()
        assert not is_tracing()

        async def came() -> bool:
            return bool(collector.seen)

        await until(came, "the collector has the spans")
        [seen] = collector.seen
    assert (seen.method, seen.path) == ("POST", "/v1/traces")
    assert seen.headers["content-type"] == "application/x-protobuf"
    assert seen.headers["api-key"] == "quartz"
    [resource, span] = decode(seen)
    assert {"service.name": "memory", "deployment.environment.name": "test"}.items() <= resource.items()
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == (
        "process extraction",
        AGENT.split("-")[1],
        AGENT.split("-")[2],
    )


def decode(seen: Seen) -> tuple[dict[str, str], Any]:
    """The resource and the one span of an export."""
    request = ExportTraceServiceRequest.FromString(seen.body)
    [of_resource] = request.resource_spans
    [of_scope] = of_resource.scope_spans
    [span] = of_scope.spans
    return {one.key: one.value.string_value for one in of_resource.resource.attributes}, span


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a collector that does not answer; the threads that try it end with the test.

    Their pauses are random, and a later test of hypothesis allows nobody else to draw numbers.
    """
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3")
    before = set(threading.enumerate())
    yield "http://127.0.0.1:9"
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)


def test_a_collector_that_is_away_holds_up_no_end(away: str) -> None:
    stop = start_tracing(TracingSettings(enabled=True, endpoint=away))
    with trace_operation("lost", kind=SpanKind.CONSUMER):
        pass
    stop()
    assert not is_tracing()


def test_of_traces_begun_here_the_ratio_says_how_many_are_sent(away: str) -> None:
    traces = OtlpTraces.create(away, 0.0, "")
    install_tracer(traces.tracer)
    try:
        with trace_operation("begun here", kind=SpanKind.SERVER):
            assert current_traceparent() is None
        with trace_operation("begun there", kind=SpanKind.SERVER, parent=AGENT):
            assert trace_of(current_traceparent() or "") == trace_of(AGENT)
    finally:
        install_tracer(None)
        traces.close()


@pytest.mark.live
def test_a_process_that_does_not_trace_imports_neither_spans_nor_exporter() -> None:
    # The client of Redis imports the SDK's metrics wherever they are installed.
    program = (
        "import gc; gc.disable()\n"
        "import sys, deploy.api.process, deploy.worker.process, deploy.observability.tracing as t\n"
        "t.start_tracing(t.TracingSettings())()\n"
        "print(*(name for name in sys.modules if name.startswith(('opentelemetry.sdk.trace', 'opentelemetry.exp'))))"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert ended.stdout.strip() == ""


def test_tracing_without_its_packages_is_refused_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_missing_packages(TracingSettings(enabled=True)) == ""
    monkeypatch.setattr("deploy.observability.tracing.PACKAGES", ("opentelemetry.sdk", "opentelemetry.never.there"))
    assert find_missing_packages(TracingSettings(enabled=False)) == ""
    for name in ("DATABASE__URL", "DATABASE__OPERATOR_URL"):
        monkeypatch.setenv(f"AFTERTURN_{name}", "postgresql+asyncpg://127.0.0.1:9/none")
    monkeypatch.setenv("AFTERTURN_BROKER__URL", "redis://127.0.0.1:9/0")
    monkeypatch.setenv("AFTERTURN_TRACING__ENABLED", "true")
    assert api.main([]) == 2
    assert MISSING in capsys.readouterr().err


@each_row("url", ["collector:4318", "ftp://collector", "http://user:secret@collector:4318", "http://"])
def test_an_address_of_a_collector_is_an_url_without_credentials(url: str) -> None:
    with pytest.raises(ValueError, match="http://host:port"):
        TracingSettings(endpoint=url)


def test_lines_of_the_log_name_their_trace(spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(raw, write_through=True))
    monkeypatch.setattr(logging.root, "handlers", [])
    logs.configure_logging(LogSettings(format=LogFormat.JSON))
    log = structlog.get_logger("traces")
    with trace_operation("request", kind=SpanKind.SERVER, parent=AGENT):
        log.info("within")
    log.info("without")
    within, without = (json.loads(line) for line in raw.getvalue().splitlines())
    [span] = spans.get_finished_spans()
    assert span.context is not None
    assert within["trace_id"] == AGENT.split("-")[1]
    assert within["span_id"] == f"{span.context.span_id:016x}"
    assert not {"trace_id", "span_id"} & set(without)


@each_row(
    "given, read",
    [
        (AGENT, AGENT),
        (f"01{AGENT[2:]}-what-comes-later", AGENT),
        (f"{AGENT[:-2]}03", f"{AGENT[:-2]}03"),
        (f"{AGENT}-more", None),
        (f"ff{AGENT[2:]}", None),
        (AGENT.upper(), None),
        (AGENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), None),
        (AGENT.replace("00f067aa0ba902b7", "0" * 16), None),
        (f"{AGENT}\n", None),
        (MARK, None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_a_traceparent_is_taken_in_one_form_and_a_wrong_one_is_none(given: object, read: str | None) -> None:
    assert read_traceparent(given) == read
