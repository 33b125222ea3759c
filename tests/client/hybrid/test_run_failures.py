"""A gateway that fails, is away or is silent: the run has its answer all the same, and an auditor is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from afterturn_client import sessions
from afterturn_client.audit import AuditEvent
from afterturn_client.curated.files import lock_folder
from afterturn_client.hybrid import HybridMemory, Run
from afterturn_client.posts import Posts
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.client.hybrid.worlds import (
    ANSWER,
    KEY,
    NOTE,
    PROMPT,
    RECALLED,
    World,
    config,
    gateway_answers,
    remember,
    world,
)
from tests.client.loopback import Loopback, closed_port, silent_server
from tests.patience import PATIENCE_S

#: What may go wrong with a call, each with the category and status an auditor is told.
FAILURES: list[tuple[Response, str, int | None]] = [
    (JSONResponse({}, 401), "unauthorized", 401),
    (JSONResponse({"error": RECALLED}, 500), "http_error", 500),
    (PlainTextResponse("<html>"), "invalid_json", 200),
    (JSONResponse(["x"]), "invalid_response", 200),
]


@pytest.mark.parametrize("reply,category,status", FAILURES)
async def test_a_failed_recall_changes_nothing_but_the_reference(
    hybrid: World, reply: Response, category: str, status: int
) -> None:
    remember(hybrid)
    gateway_answers(hybrid.gateway, search=reply)
    assert (await hybrid.run()).text == ANSWER
    assert NOTE in hybrid.asked()[0]["content"]
    assert [message["role"] for message in hybrid.asked()] == ["system", "user"]
    assert hybrid.noted()[0] == (
        "memory_gateway_recall_failed",
        {"operation": "search", "category": category, "http_status": status},
    )
    assert hybrid.paths() == ["/memories/search", "/memories/add", "/memories/flush"]


@pytest.mark.parametrize("results", [{"a": 1}, "x", None, [1], [{"text": "a"}, "b"]])
async def test_results_of_another_shape_are_a_failed_recall(hybrid: World, results: Any) -> None:
    gateway_answers(hybrid.gateway, search=JSONResponse({"results": results}))
    assert (await hybrid.run()).text == ANSWER
    assert hybrid.noted()[0][1]["category"] == "invalid_response"


@pytest.mark.parametrize("reply,category,status", FAILURES)
async def test_a_failed_add_skips_the_flush_and_returns_the_answer(
    hybrid: World, reply: Response, category: str, status: int
) -> None:
    gateway_answers(hybrid.gateway, add=reply)
    assert (await hybrid.run()).text == ANSWER
    assert hybrid.paths() == ["/memories/search", "/memories/add"]
    assert hybrid.noted()[1:] == [
        (
            "memory_gateway_add_failed",
            {"gateway_session": "chat:s-1", "operation": "add", "category": category, "http_status": status},
        )
    ]


@pytest.mark.parametrize("reply,category,status", FAILURES)
async def test_a_failed_flush_keeps_the_outcome_of_the_add_and_returns_the_answer(
    hybrid: World, reply: Response, category: str, status: int
) -> None:
    gateway_answers(hybrid.gateway, flush=reply)
    assert (await hybrid.run()).text == ANSWER
    assert hybrid.paths().count("/memories/flush") == 1
    assert hybrid.noted()[1:] == [
        ("memory_gateway_add_succeeded", {"gateway_session": "chat:s-1", "messages": 2}),
        (
            "memory_gateway_flush_failed",
            {
                "gateway_session": "chat:s-1",
                "add_succeeded": True,
                "operation": "flush",
                "category": category,
                "http_status": status,
            },
        ),
    ]


async def test_a_run_that_goes_well_notes_three_events(hybrid: World) -> None:
    await hybrid.run()
    assert hybrid.noted() == [
        ("memory_gateway_recall_succeeded", {"scopes": ["current_chat", "resources"], "results": 1}),
        ("memory_gateway_add_succeeded", {"gateway_session": "chat:s-1", "messages": 2}),
        ("memory_gateway_flush_succeeded", {"gateway_session": "chat:s-1"}),
    ]
    assert {event.context_visible for event in hybrid.events} == {False}
    assert {event.session_id for event in hybrid.events} == {"s-1"}


async def test_a_gateway_that_is_not_there_costs_a_run_only_its_recall(
    tmp_path: Path, gateway: Loopback, model: Loopback
) -> None:
    async with world(config(gateway, baseUrl=closed_port()), tmp_path, gateway, model) as agent:
        assert (await agent.run()).text == ANSWER
        assert [(name, payload["category"]) for name, payload in agent.noted()] == [
            ("memory_gateway_recall_failed", "connection"),
            ("memory_gateway_add_failed", "connection"),
        ]


async def test_a_gateway_that_is_silent_is_waited_for_as_long_as_configured(tmp_path: Path, model: Loopback) -> None:
    with silent_server() as (url, _received):
        async with world(config(Loopback(url), timeoutSeconds=PATIENCE_S), tmp_path, Loopback(), model) as agent:
            assert (await agent.run()).text == ANSWER
    assert agent.noted() == [
        ("memory_gateway_recall_failed", {"operation": "search", "category": "timeout"}),
        (
            "memory_gateway_add_failed",
            {"gateway_session": "chat:s-1", "operation": "add", "category": "timeout", "outcome_unknown": True},
        ),
    ]


async def test_a_prompt_that_cannot_be_sent_is_a_failure_of_the_gateway_alone(hybrid: World) -> None:
    async def loop(_run: Run) -> str:
        return ANSWER

    result = await hybrid.memory.run("s-1", "half a sign \ud83d", loop)
    assert result.text == ANSWER
    assert [payload["category"] for _, payload in hybrid.noted()] == ["invalid_request", "invalid_request"]
    assert hybrid.paths() == []


async def test_an_accident_inside_the_client_is_an_event_too(hybrid: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError(KEY)

    monkeypatch.setattr(Posts, "send", broken)
    assert (await hybrid.run()).text == ANSWER
    assert [payload["category"] for _, payload in hybrid.noted()] == ["unexpected", "unexpected"]


async def test_an_audit_that_fails_takes_nobodys_answer_away(
    tmp_path: Path, gateway: Loopback, model: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_event: AuditEvent) -> None:
        raise OSError(f"no space for {KEY}")

    async with world(config(gateway), tmp_path, gateway, model) as agent:
        deaf = HybridMemory(agent.memory.store, agent.memory.sessions, agent.memory.search, agent.memory.layer, full)
        assert (await deaf.run("s-1", PROMPT, agent.think)).text == ANSWER
    assert "memory_gateway_add_succeeded could not be written (OSError)" in caplog.text
    assert KEY not in caplog.text


@contextmanager
def no_folder(path: Path) -> Iterator[None]:
    path.touch()
    yield


@contextmanager
def held_by_another(path: Path) -> Iterator[None]:
    with lock_folder(path, PATIENCE_S):
        yield


@pytest.mark.parametrize("trouble,kind", [(no_folder, "FileExistsError"), (held_by_another, "MemoryBusy")])
async def test_a_history_that_cannot_be_written_takes_the_turn_from_neither_the_user_nor_the_gateway(
    hybrid: World, trouble: Any, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sessions, "PATIENCE_S", 0.0)
    with trouble(hybrid.home / "sessions"):
        assert (await hybrid.run()).text == ANSWER
    assert hybrid.paths() == ["/memories/search", "/memories/add", "/memories/flush"]
    assert [name.rpartition("_")[2] for name, _ in hybrid.noted()] == ["succeeded"] * 3
    assert f"the turn could not be written into its session's history ({kind})" in caplog.text
    assert not any(text in caplog.text for text in (PROMPT, ANSWER, RECALLED, KEY))
