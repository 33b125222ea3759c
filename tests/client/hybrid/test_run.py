"""A run, from the outside: what the model is sent, what the gateway is sent, in which order, and what never leaves."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from afterturn_client.curated import Target
from afterturn_client.hybrid import HybridMemory, Run
from afterturn_client.reference import RULE, is_frame
from afterturn_client.settings import MemoryConfigError
from starlette.responses import JSONResponse, Response

from tests.client.hybrid.worlds import (
    ANSWER,
    KEY,
    NOTE,
    PROMPT,
    RECALLED,
    SKILL,
    World,
    calls,
    config,
    gateway_answers,
    model_answers,
    remember,
    says,
    texts,
    world,
)
from tests.client.loopback import Answer, Loopback, Seen

CURATED = {"memory": {"mode": "curated", "gateway": {"baseUrl": "nonsense"}}}


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


@pytest.mark.law("L8")
async def test_a_frame_that_was_pasted_or_echoed_is_not_stored_again(hybrid: World) -> None:
    await hybrid.run()
    frame = hybrid.asked()[1]["content"]
    model_answers(hybrid.model, says(f"{frame}\nAs it says."))
    result = await hybrid.run(f"{frame}look at this")
    assert result.text == f"{frame}\nAs it says."
    user, assistant = hybrid.bodies("add")[1]["messages"]
    assert (user["content"], assistant["content"]) == ("look at this", "\nAs it says.")
    said = [message["content"] for message in await hybrid.memory.sessions.history("s-1")]
    assert said[2:] == ["look at this", "\nAs it says."]


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
