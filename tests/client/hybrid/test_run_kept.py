"""What is kept of a run, here and at the gateway: the prompt and the final text, and nothing beside them."""

import pytest
from afterturn_client.hybrid import Run

from tests.client.hybrid.worlds import (
    ANSWER,
    KEY,
    NOTE,
    PROMPT,
    RECALLED,
    SKILL,
    World,
    calls,
    model_answers,
    remember,
    says,
)


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
