"""Messages of other frameworks over every way in: recognised, or refused; unknown items are kept as nobody's words."""

from typing import Any

import pytest

from producers.turns.built_messages import UnknownForm
from producers.turns.items import choose_role
from producers.turns.message_forms import identify_message, recognise_message
from tests.producers.conftest import Tenant
from tests.tables import each_row

FERRY = "The ferry leaves at nine"
HUMAN: dict[str, dict[str, Any]] = {
    "langchain dict": {"type": "human", "data": {"content": FERRY}},
    "langchain flat": {"type": "human", "content": FERRY, "additional_kwargs": {}, "example": False},
    "langchain constructor": {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "HumanMessage"],
        "kwargs": {"content": FERRY},
    },
    "another word for user": {"type": "message", "role": "human", "content": FERRY},
    "vercel": {"role": "user", "parts": [{"type": "text", "text": FERRY}]},
    "gemini": {"role": "user", "parts": [{"text": FERRY}]},
    "chatgpt": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [FERRY]}},
    "assistants": {"role": "user", "content": [{"type": "text", "text": {"value": FERRY, "annotations": []}}]},
    "sharegpt": {"from": "human", "value": FERRY},
    "claude": {"sender": "human", "text": "", "content": [{"type": "text", "text": FERRY}]},
    "semantic kernel": {"role": "user", "items": [{"content_type": "text", "text": FERRY}]},
    "autogen": {"source": "UserProxyAgent", "type": "TextMessage", "content": FERRY, "models_usage": None},
    "libre chat": {"sender": "Kim", "isCreatedByUser": True, "text": FERRY},
    "telegram": {"type": "message", "from": "Kim", "text": FERRY},
    "an account of telegram that is gone": {"type": "message", "from": None, "from_id": "user7", "text": FERRY},
    "teams": {"from": {"user": {"displayName": "Kim"}}, "body": {"contentType": "html", "content": f"<p>{FERRY}</p>"}},
    "teams, one's own data": {"from": "8:live:kim", "messagetype": "RichText/Html", "content": f"<p>{FERRY}</p>"},
    "google chat": {"creator": {"name": "Kim", "user_type": "Human"}, "text": FERRY},
    "matrix": {"type": "m.room.message", "sender": "@kim:example.org", "content": {"body": FERRY}},
    "the words of a recording": {"role": "user", "content": [{"type": "input_audio", "transcript": FERRY}]},
    "slack": {"type": "message", "user": "U1", "text": FERRY, "ts": "1714903200.1"},
    "discord": {"type": "Default", "author": {"name": "Kim", "isBot": False}, "content": FERRY},
    "a line of an agent": {"type": "user", "uuid": "u", "message": {"role": "user", "content": FERRY}},
    "cohere": {"role": "USER", "message": FERRY},
    "zep": {"role": "Kim", "role_type": "user", "content": FERRY},
    "copilot": {"type": "user.message", "data": {"content": FERRY}},
}
#: Messages that leave open who speaks.
NOBODY: dict[str, dict[str, Any]] = {
    "a role that is unknown": {"role": "robot", "content": FERRY},
    "an item without a role": {"type": "message", "content": FERRY},
    "an unknown type with a text": {"type": "user_message", "message": FERRY},
    "an event of an agent": {"type": "event_msg", "payload": {"type": "user_message", "message": FERRY}},
    "no role at all": {"content": FERRY},
    "a speaker of AutoGen": {"source": "Kim", "type": "TextMessage", "content": FERRY, "models_usage": None},
    "words in a field of another name": {"role": "user", "text": FERRY},
    "words in an object": {"role": "user", "message": {"text": FERRY}},
    "words in another one": {"role": "assistant", "body": FERRY},
    "a role alone": {"role": "user"},
    "an unknown kind of LangChain": {"type": "remove", "data": {"content": FERRY}},
    "what LangChain cannot write": {"lc": 1, "type": "not_implemented", "id": ["HumanMessage"], "repr": FERRY},
    "words beside an empty content": {"role": "user", "content": "", "text": FERRY},
    "words beside no content": {"role": "user", "content": None, "text": FERRY},
    "parts beside an empty content": {"role": "user", "content": "", "contentParts": [{"type": "text", "text": FERRY}]},
    "a part of text without it": {"role": "user", "content": [{"type": "text", "content": FERRY}]},
    "another part without it": {"role": "user", "content": [{"type": "markdown", "content": FERRY}]},
    "a list as a part": {"role": "user", "content": [[FERRY]]},
    "a list as a part's type": {"role": "user", "content": [{"type": ["text"], "text": FERRY}]},
    "an object as a part's type": {"role": "user", "content": [{"type": {"a": 1}, "text": FERRY}]},
    "a list as the type of an item's part": {
        "type": "message",
        "role": "user",
        "content": [{"type": [], "text": FERRY}],
    },
    "an object as the type of one of Gemini": {"role": "user", "parts": [{"type": {}, "text": FERRY}]},
    "an object as a part's text": {"role": "user", "content": [{"text": {"words": FERRY}}]},
    "a prompt of an unknown type": {"type": "prompt", "prompt": FERRY},
    "a message of an unknown type": {"type": "event", "event": {"role": "user", "content": FERRY}},
}


@pytest.mark.parametrize("form", HUMAN)
@pytest.mark.parametrize("way", ["turns", "after", "mcp"])
async def test_a_person_s_words_stay_a_person_s(ana: Tenant, form: str, way: str) -> None:
    assert (await hand_in(ana, HUMAN[form], way)).status_code < 300
    [unit] = (await ana.http.get("/api/v1/units", params={"bank": "default"})).json()["units"]
    assert (unit["role"], unit["text"]) == ("user", FERRY)


@each_row("form", NOBODY)
@each_row("way", ["turns", "after"])
async def test_words_of_nobody_known_are_refused(ana: Tenant, form: str, way: str) -> None:
    answer = await hand_in(ana, NOBODY[form], way)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID_ARGUMENT")
    [problem] = answer.json()["error"]["details"]["problems"]
    told = (
        *("looked for", "human is read as user", "must have", "whether a person or a model", "required"),
        *("beside it", "not_implemented", "must be a text", "valid"),
    )
    assert any(one in problem["problem"] for one in told)
    assert FERRY not in answer.text


@pytest.mark.parametrize("way", ["turns", "after"])
@pytest.mark.parametrize(
    "message",
    [
        {"source": "weather_agent", "type": "TextMessage", "content": FERRY, "models_usage": None},
        {"source": "Planner", "type": "TextMessage", "content": FERRY, "models_usage": {"prompt_tokens": 7}},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": FERRY}]},
        {"role": "assistant", "content": None, "refusal": FERRY},
        {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": FERRY}},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": FERRY}]},
    ],
)
async def test_what_a_model_said_is_the_assistant_s(ana: Tenant, message: dict[str, Any], way: str) -> None:
    assert (await hand_in(ana, message, way)).status_code < 300
    [unit] = (await ana.http.get("/api/v1/units", params={"bank": "default"})).json()["units"]
    assert (unit["role"], unit["text"].removeprefix("[reasoning]").strip()) == ("assistant", FERRY)


async def hand_in(ana: Tenant, message: dict[str, Any], way: str) -> Any:
    place = {"session_id": "s", "turn_id": "1"}
    if way == "turns":
        return await ana.http.post("/api/v1/turns", json={**place, "messages": [message]})
    if way == "after":
        return await ana.http.post("/api/v1/turns/after", json={**place, "input_items": [message]})
    call = {"name": "memory_after_turn", "arguments": {**place, "input_items": [message]}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"accept": "application/json, text/event-stream"}
    return await ana.http.post("/mcp", json=asked, headers=headers)


async def test_what_is_recalled_for_a_foreign_message_stands_before_it(ana: Tenant) -> None:
    asked = {"session_id": "s", "turn_id": "1", "current_input": [HUMAN["langchain flat"]]}
    items = (await ana.http.post("/api/v1/turns/before", json=asked)).json()["input_items"]
    assert items[-1] == {"role": "user", "content": FERRY}


def test_an_item_of_an_unknown_type_is_kept_and_is_not_the_assistant_s() -> None:
    unknown = {"type": "unheard_of", "deep": [{"n": 1.5}]}
    assert recognise_message(unknown) == unknown
    assert choose_role(unknown) == "tool"
    assert [choose_role({"type": kind}) for kind in ("reasoning", "web_search_call", "mcp_list_tools")] == [
        "assistant"
    ] * 3


def test_a_tool_s_answer_that_anthropic_sends_as_the_user_s_is_the_tool_s() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "42 degrees"}]}
    assert recognise_message({"role": "user", "content": [result]}) == {
        "role": "tool",
        "content": "42 degrees",
        "tool_call_id": "t",
    }


@each_row(
    "field, part",
    [
        ("parts", {"functionResponse": {"name": "look", "response": {"output": "42 degrees"}}}),
        ("content", {"toolResult": {"toolUseId": "t", "content": [{"text": "42 degrees"}]}}),
        (
            "content",
            {"type": "toolResponse", "id": "t", "toolResult": {"value": [{"type": "text", "text": "42 degrees"}]}},
        ),
        ("content", {"type": "tool-result", "toolCallId": "t", "output": {"type": "text", "value": "42 degrees"}}),
    ],
)
def test_a_tool_s_answer_that_others_send_as_the_user_s_is_the_tool_s(field: str, part: dict[str, Any]) -> None:
    known = recognise_message({"role": "user", field: [part]})
    assert known["role"] == "tool"
    assert "42 degrees" in known["content"]


def test_calls_of_langchain_become_those_of_a_chat_completion() -> None:
    called = {"type": "ai", "content": "", "tool_calls": [{"name": "look", "args": {"at": 1}, "id": "c"}]}
    known = recognise_message(called)
    assert known["tool_calls"] == [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    ]


@each_row("content", [5, {"n": 1}, [5], [{"w": 1}], {"parts": 7}])
def test_content_in_no_form_is_refused(content: Any) -> None:
    with pytest.raises(UnknownForm):
        recognise_message({"role": "human", "content": content})


def test_an_id_is_found_where_each_form_has_it() -> None:
    assert identify_message({"id": 7, "content": "x"}) == "7"
    assert identify_message({"type": "human", "data": {"id": "d"}}) == "d"
    assert identify_message({"role": "user", "content": "x"}) is None
