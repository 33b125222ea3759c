"""A run, from the outside: what the model is sent, what the gateway is sent, in which order, and what never leaves."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from afterturn_client.audit import AuditEvent
from afterturn_client.curated import Target
from afterturn_client.hybrid import HybridMemory, Run
from afterturn_client.reference import RULE, is_frame
from afterturn_client.settings import MemoryConfigError
from starlette.responses import JSONResponse, PlainTextResponse, Response

from tests.client.hybrid.worlds import (
    ANSWER,
    KEY,
    PROMPT,
    RECALLED,
    World,
    calls,
    config,
    gateway_answers,
    model_answers,
    says,
    texts,
    world,
)
from tests.client.loopback import Answer, Loopback, Seen, closed_port, raw_server
from tests.patience import PATIENCE_S

NOTE = "the attic key hangs behind the clock"
SKILL = {"role": "user", "content": "[skill] how to search an attic"}
CURATED = {"memory": {"mode": "curated", "gateway": {"baseUrl": "nonsense"}}}
#: What may go wrong with a call, each with the category and status an auditor is told.
FAILURES: list[tuple[Response, str, int | None]] = [
    (JSONResponse({}, 401), "unauthorized", 401),
    (JSONResponse({"error": RECALLED}, 500), "http_error", 500),
    (PlainTextResponse("<html>"), "invalid_json", 200),
    (JSONResponse(["x"]), "invalid_response", 200),
]


def remember(world: World, content: str = NOTE) -> None:
    world.memory.store.add(Target.MEMORY, content)


def files(world: World) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in world.home.glob("*.md")}


async def test_a_run_recalls_then_asks_the_model_then_adds_then_flushes_each_once(hybrid: World) -> None:
    result = await hybrid.run()
    assert result.text == ANSWER
    assert hybrid.paths() == ["/memories/search", "/memories/add", "/memories/flush"]
    assert len(hybrid.model.seen) == 1


async def test_recall_stands_in_the_first_request_to_the_model_so_it_came_before(hybrid: World) -> None:
    order: list[str] = []

    def listening(answer: Answer) -> Answer:
        def heard(seen: Seen) -> Response:
            order.append(seen.path)
            return answer(seen)

        return heard

    hybrid.gateway.answer = listening(hybrid.gateway.answer)
    hybrid.model.answer = listening(hybrid.model.answer)
    await hybrid.run()
    assert order == ["/memories/search", "/v1/chat/completions", "/memories/add", "/memories/flush"]


async def test_search_asks_with_the_bare_session_and_the_original_prompt(hybrid: World) -> None:
    await hybrid.run(shown=f"[decorated] {PROMPT}")
    assert hybrid.bodies("search") == [
        {
            "user_id": "ana",
            "user_key": KEY,
            "conversation_id": "s-1",
            "query": PROMPT,
            "scope": ["current_chat", "resources"],
            "top_k": 8,
            "app_id": "default",
            "project_id": "default",
        }
    ]


async def test_configured_scopes_ids_and_top_k_are_the_ones_sent(
    tmp_path: Path, gateway: Loopback, model: Loopback
) -> None:
    settings = config(gateway, scope=["all_user_memory"], topK=3, appId="kitchen", projectId="dinner")
    async with world(settings, tmp_path, gateway, model) as agent:
        await agent.run()
        (asked,) = agent.bodies("search")
        assert (asked["scope"], asked["top_k"]) == (["all_user_memory"], 3)
        for operation in ("search", "add", "flush"):
            (body,) = agent.bodies(operation)
            assert (body["app_id"], body["project_id"]) == ("kitchen", "dinner")
        assert agent.noted()[0][1] == {"scopes": ["all_user_memory"], "results": 1}


async def test_messages_stand_in_the_order_system_skills_reference_history_current(hybrid: World) -> None:
    remember(hybrid)
    history = [{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "indeed"}]
    await hybrid.run(instructions="Be brief.", skills=[SKILL], history=history)
    system, skill, reference, *rest = hybrid.asked()
    assert system["role"] == "system"
    assert skill == SKILL
    assert reference["role"] == "user"
    assert is_frame(reference["content"])
    assert RECALLED in reference["content"]
    assert rest == [*history, {"role": "user", "content": PROMPT}]


async def test_there_is_one_reference_message_however_many_results_came(hybrid: World) -> None:
    results = [{"text": f"fact {number}", "score": 1 / (number + 1)} for number in range(8)]
    gateway_answers(hybrid.gateway, search=JSONResponse({"results": results}))
    await hybrid.run()
    (frame,) = [m["content"] for m in hybrid.asked() if "<memory_reference>" in m["content"] and m["role"] == "user"]
    body = json.loads(frame.removeprefix("<memory_reference>\n").removesuffix("\n</memory_reference>"))
    assert [item["text"] for item in body["items"]] == [f"fact {number}" for number in range(8)]
    assert body["untrusted"] is True


async def test_recalled_text_is_outside_the_system_prompt_and_before_the_current_prompt(hybrid: World) -> None:
    await hybrid.run()
    messages = hybrid.asked()
    assert all(RECALLED not in message["content"] for message in messages if message["role"] != "user")
    places = [at for at, message in enumerate(messages) if RECALLED in message["content"]]
    assert places == [len(messages) - 2]


async def test_a_result_keeps_its_six_fields_and_loses_the_raw_one(hybrid: World) -> None:
    await hybrid.run()
    frame = hybrid.asked()[1]["content"]
    body = json.loads(frame.removeprefix("<memory_reference>\n").removesuffix("\n</memory_reference>"))
    assert body["items"] == [
        {
            "text": RECALLED,
            "id": "u_ep_1",
            "session_id": "chat:older",
            "score": 0.75,
            "source_scope": "resources",
            "resource_uri": "viking://notes/7",
        }
    ]
    assert "upstream" not in texts(hybrid.asked())


@pytest.mark.parametrize("results", [[], [{"id": "a"}], [{"text": ""}, {"text": " \n"}, {"text": None}]])
async def test_empty_or_unusable_results_give_no_reference_and_count_as_a_recall_that_found_nothing(
    hybrid: World, results: list[Any]
) -> None:
    gateway_answers(hybrid.gateway, search=JSONResponse({"results": results}))
    await hybrid.run()
    assert [message["role"] for message in hybrid.asked()] == ["system", "user"]
    assert hybrid.noted()[0] == (
        "memory_gateway_recall_succeeded",
        {"scopes": ["current_chat", "resources"], "results": 0},
    )


async def test_the_rule_stands_in_the_system_prompt_while_the_gateway_is_active_results_or_none(hybrid: World) -> None:
    await hybrid.run(instructions="Be brief.")
    gateway_answers(hybrid.gateway, search=JSONResponse({"results": []}))
    await hybrid.run(instructions="Be brief.")
    gateway_answers(hybrid.gateway, search=JSONResponse({}, 500))
    await hybrid.run(instructions="Be brief.")
    systems = [hybrid.asked(at)[0]["content"] for at in range(3)]
    assert systems[0] == systems[1] == systems[2]
    assert systems[0].startswith("Be brief.")
    assert systems[0].endswith(RULE)


async def test_the_curated_snapshot_is_in_the_system_prompt_beside_a_gateway(hybrid: World) -> None:
    remember(hybrid)
    hybrid.memory.store.add(Target.USER, "prefers rye bread")
    await hybrid.run()
    system = hybrid.asked()[0]["content"]
    assert NOTE in system
    assert "prefers rye bread" in system
    assert "MEMORY.md" in system


@pytest.mark.parametrize("settings", [CURATED, {}, {"memory": {"gateway": {"userId": "ana"}}}])
async def test_curated_and_degraded_agents_have_snapshot_and_tools_and_make_no_http_call(
    settings: Mapping[str, Any], tmp_path: Path, gateway: Loopback, model: Loopback
) -> None:
    async with world(dict(settings), tmp_path, gateway, model) as agent:
        remember(agent)
        model_answers(
            model,
            calls("memory", '{"action": "add", "target": "user", "content": "likes rye"}'),
            calls("session_search", '{"query": "attic"}'),
            says(ANSWER),
        )
        assert (await agent.run()).text == ANSWER
        assert [tool["function"]["name"] for tool in model.seen[0].json["tools"]] == ["memory", "session_search"]
        system = agent.asked()[0]["content"]
        assert NOTE in system
        assert RULE not in system
        assert "memory_reference" not in texts(agent.asked())
        assert [message["role"] for message in agent.asked()] == ["system", "user"]
        assert (tmp_path / "USER.md").read_text() == "likes rye"
        assert gateway.seen == []
        assert agent.events == []


async def test_a_degraded_agent_warned_once_when_it_was_built(
    tmp_path: Path, gateway: Loopback, model: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    async with world({}, tmp_path, gateway, model) as agent:
        await agent.run()
        await agent.run()
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1


def test_explicit_hybrid_without_credentials_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(MemoryConfigError):
        HybridMemory.open({"memory": {"mode": "hybrid"}}, tmp_path)


async def test_add_sends_exactly_the_users_prompt_and_the_final_text(hybrid: World) -> None:
    result = await hybrid.run()
    (body,) = hybrid.bodies("add")
    user, assistant = body.pop("messages")
    assert body == {
        "user_id": "ana",
        "user_key": KEY,
        "session_id": "chat:s-1",
        "app_id": "default",
        "project_id": "default",
    }
    assert (user["sender_id"], user["role"], user["content"]) == ("ana", "user", PROMPT)
    assert (assistant["sender_id"], assistant["role"], assistant["content"]) == ("beaver", "assistant", ANSWER)
    assert user["timestamp"] == int(result.asked_at.timestamp() * 1000)
    assert 0 < user["timestamp"] <= assistant["timestamp"]
    assert hybrid.bodies("flush") == [body]


async def test_nothing_but_prompt_and_final_text_leaves_for_the_gateway_after_a_run(hybrid: World) -> None:
    remember(hybrid)
    model_answers(
        hybrid.model,
        calls("memory", '{"action": "add", "target": "memory", "content": "tool-content-marker"}'),
        calls("session_search", '{"query": "history-marker"}'),
        says(ANSWER),
    )
    history = [{"role": "user", "content": "history-marker"}, {"role": "assistant", "content": "reply-marker"}]
    hidden = {"role": "system", "content": "hidden-marker", "context_visible": False}
    await hybrid.run(
        instructions="system-marker", skills=[SKILL], history=[*history, hidden], shown=f"decoration-marker {PROMPT}"
    )
    sent = "".join(seen.body.decode() for seen in hybrid.gateway.seen if seen.path != "/memories/search")
    assert PROMPT in sent
    assert ANSWER in sent
    for marker in (
        RECALLED,
        NOTE,
        "tool-content-marker",
        "history-marker",
        "reply-marker",
        "hidden-marker",
        "system-marker",
        "decoration-marker",
        "[skill]",
        "let me think it over",
        "memory_reference",
    ):
        assert marker not in sent


async def test_hidden_events_are_no_history(hybrid: World) -> None:
    hidden = {"role": "system", "content": "hidden-marker", "context_visible": False}
    seen = {"role": "user", "content": "seen", "context_visible": True}
    await hybrid.run(history=[hidden, seen])
    assert hybrid.asked()[2:-1] == [{"role": "user", "content": "seen"}]


async def test_the_next_run_has_this_one_as_history_without_reference_and_events(hybrid: World) -> None:
    await hybrid.run("first question")
    await hybrid.run("second question")
    assert hybrid.asked(1)[2:] == [
        {"role": "user", "content": "first question"},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "second question"},
    ]


async def test_what_decorates_the_prompt_reaches_the_model_and_not_the_memory(hybrid: World) -> None:
    parts = [{"type": "text", "text": f"[prefix] {PROMPT}"}]
    await hybrid.run(shown=parts)
    assert hybrid.asked()[-1] == {"role": "user", "content": parts}
    assert hybrid.bodies("add")[0]["messages"][0]["content"] == PROMPT
    assert (await hybrid.memory.sessions.history("s-1"))[0]["content"] == PROMPT


async def test_a_tool_limit_fallback_is_persisted_like_any_answer(hybrid: World) -> None:
    model_answers(hybrid.model, calls("unknown", "{}"))
    result = await hybrid.run()
    assert "limit of tool calls" in result.text
    assert hybrid.bodies("add")[0]["messages"][1]["content"] == result.text


async def test_a_run_that_fails_is_raised_as_it_is_and_nothing_is_kept(hybrid: World) -> None:
    async def broken(_run: Run) -> str:
        raise LookupError("the model is gone")

    with pytest.raises(LookupError, match="the model is gone"):
        await hybrid.memory.run("s-1", PROMPT, broken)
    assert hybrid.paths() == ["/memories/search"]
    assert await hybrid.memory.sessions.history("s-1") == []
    assert [name for name, _ in hybrid.noted()] == ["memory_gateway_recall_succeeded"]


async def test_a_loop_without_a_final_text_is_an_error_and_nothing_is_kept(hybrid: World) -> None:
    async def silent(_run: Run) -> str:
        return None  # type: ignore[return-value]  # the mistake that is tried

    with pytest.raises(TypeError, match="final text"):
        await hybrid.memory.run("s-1", PROMPT, silent)
    assert hybrid.paths() == ["/memories/search"]


@pytest.mark.parametrize("answer", ["", "  \n"])
async def test_a_turn_in_which_one_side_said_nothing_is_not_added(hybrid: World, answer: str) -> None:
    model_answers(hybrid.model, says(answer))
    assert (await hybrid.run()).text == answer
    assert hybrid.paths() == ["/memories/search"]


async def test_a_blank_prompt_searches_and_adds_nothing(hybrid: World) -> None:
    assert (await hybrid.run("  ")).text == ANSWER
    assert hybrid.paths() == []


async def test_a_frame_that_was_pasted_or_echoed_is_not_stored_again(hybrid: World) -> None:
    await hybrid.run()
    frame = hybrid.asked()[1]["content"]
    model_answers(hybrid.model, says(f"{frame}\nAs it says."))
    result = await hybrid.run(f"{frame}look at this")
    assert result.text == f"{frame}\nAs it says."
    user, assistant = hybrid.bodies("add")[1]["messages"]
    assert (user["content"], assistant["content"]) == ("look at this", "\nAs it says.")


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
    with raw_server(b"", linger_s=PATIENCE_S) as (url, _received):
        async with world(config(Loopback(url), timeoutSeconds=0.2), tmp_path, Loopback(), model) as agent:
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


async def test_an_accident_inside_the_client_is_an_event_too(hybrid: World) -> None:
    assert hybrid.memory.layer is not None
    await hybrid.memory.layer.aclose()
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


async def test_the_memory_tool_never_calls_the_gateway(hybrid: World) -> None:
    await hybrid.run()
    hybrid.gateway.seen.clear()
    paths: list[str] = []

    async def loop(run: Run) -> str:
        for arguments in (
            {"action": "add", "target": "memory", "content": "one"},
            {"action": "replace", "target": "memory", "old_text": "one", "content": "two"},
            {"action": "remove", "target": "memory", "old_text": "two"},
        ):
            assert json.loads(await run.call_tool("memory", arguments))["changed"]
        paths.extend(hybrid.paths())
        return ANSWER

    await hybrid.memory.run("s-1", PROMPT, loop)
    assert paths == ["/memories/search"]
    assert hybrid.memory.store.read(Target.MEMORY).entries == ()


async def test_persisting_to_the_gateway_changes_no_curated_file(hybrid: World) -> None:
    remember(hybrid)
    before = files(hybrid)
    await hybrid.run()
    gateway_answers(hybrid.gateway, add=JSONResponse({}, 500))
    await hybrid.run()
    assert files(hybrid) == before


async def test_a_change_in_a_run_is_on_disk_at_once_and_in_the_prompt_from_the_next_run_on(hybrid: World) -> None:
    model_answers(
        hybrid.model, calls("memory", json.dumps({"action": "add", "target": "memory", "content": NOTE})), says(ANSWER)
    )
    await hybrid.run()
    first, second = hybrid.asked(0)[0]["content"], hybrid.asked(1)[0]["content"]
    assert first == second
    assert NOTE not in first
    assert (hybrid.home / "MEMORY.md").read_text() == NOTE
    await hybrid.run()
    assert NOTE in hybrid.asked(2)[0]["content"]


async def test_a_run_without_a_session_begins_one_and_uses_it_everywhere(hybrid: World) -> None:
    result = await hybrid.run(session=None)
    other = await hybrid.run(session=None)
    assert result.session_id != other.session_id
    assert hybrid.bodies("search")[0]["conversation_id"] == result.session_id
    assert hybrid.bodies("add")[0]["session_id"] == f"chat:{result.session_id}"


async def test_a_clock_that_steps_back_gives_times_that_do_not(
    tmp_path: Path, gateway: Loopback, model: Loopback
) -> None:
    times = iter([datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC) - timedelta(hours=1)])
    async with world(config(gateway), tmp_path, gateway, model) as agent:
        memory = HybridMemory(
            agent.memory.store,
            agent.memory.sessions,
            agent.memory.search,
            agent.memory.layer,
            clock=lambda: next(times),
        )
        await memory.run("s-1", PROMPT, agent.think)
        user, assistant = agent.bodies("add")[0]["messages"]
        assert user["timestamp"] == assistant["timestamp"] == 1_767_312_000_000
