"""`afterturn ingest` and files of other programs: read as what they are, or refused; no words become another's."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from afterturn_client.turns import Message

from deploy.ingest_formats.chat import SessionChoice
from deploy.ingest_formats.formats import Format, detect_format, parse_file
from deploy.ingest_formats.parsed import BadLine, ParsedTurn, Unrecognised
from deploy.ingest_formats.speakers import may_speak
from deploy.ingest_formats.whatsapp import DateOrder
from tests.tables import each_row

CANOE = "I sold the canoe"
AT = "2024-05-05T10:00:00Z"
SECONDS = 1714903200


def read(text: str, session: str | None = None) -> list[ParsedTurn | BadLine]:
    form = detect_format(text.encode())
    assert form is not None
    return list(parse_file(io.BytesIO(text.encode()), form, SessionChoice("file.json", session)))


def said(text: str) -> list[list[tuple[str, str | None, Any, Any]]]:
    """Role, name, text and time of each message, by turn."""
    return [
        [(one.role, one.name, one.content, one.timestamp) for one in item.turn.messages if isinstance(one, Message)]
        for item in read(text)
        if isinstance(item, ParsedTurn)
    ]


def discord(kind: str = "Default", *, bot: bool = False, text: str = CANOE) -> dict[str, Any]:
    author = {"id": "7", "name": "kim", "nickname": "Kim", "isBot": bot}
    return {
        "id": kind + text,
        "type": kind,
        "timestamp": "2024-05-05T12:00:00+02:00",
        "content": text,
        "author": author,
    }


def telegram(text: Any, **more: Any) -> dict[str, Any]:
    return {"id": 1, "type": "message", "date_unixtime": str(SECONDS), "from": "Kim", "text": text, **more}


def gpt(name: str, role: str, text: str, parent: str | None) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    message = {"id": name, "author": {"role": role}, "create_time": SECONDS + 0.5, "content": content}
    return {"id": name, "parent": parent, "message": message}


PEOPLE: dict[str, Any] = {
    "discord": {
        "guild": {"name": "g"},
        "channel": {"id": "99"},
        "messages": [discord("GuildMemberJoin", text="joined the server."), discord()],
    },
    "telegram": {
        "name": "Kim",
        "type": "personal_chat",
        "id": 4,
        "messages": [
            {"id": 0, "type": "service", "actor": "Kim", "action": "phone_call", "text": ""},
            telegram(["I sold ", {"type": "bold", "text": "the canoe"}]),
        ],
    },
    "all of telegram": {"chats": {"list": [{"type": "personal_chat", "id": 4, "messages": [telegram(CANOE)]}]}},
    "slack": [
        {"type": "message", "subtype": "channel_join", "user": "U1", "text": "<@U1> has joined", "ts": "1.0"},
        {"type": "message", "user": "U1", "user_profile": {"real_name": "Kim"}, "text": CANOE, "ts": f"{SECONDS}.0001"},
    ],
    "messenger": {
        "participants": [{"name": "Kim"}],
        "messages": [
            {"sender_name": "Kim", "timestamp_ms": SECONDS * 1000 + 1, "content": "caf\u00c3\u00a9"},
            {"sender_name": "Kim", "timestamp_ms": SECONDS * 1000, "content": CANOE},
        ],
    },
    "the chats of telegram that were left": {
        "chats": {"list": []},
        "left_chats": {"list": [{"type": "private_group", "id": 4, "messages": [telegram(CANOE)]}]},
    },
    "slack, with a pin": [
        {"type": "message", "subtype": "pinned_item", "user": "U1", "text": "pinned", "ts": "1.0"},
        {"type": "message", "user": "U1", "username": "Kim", "text": CANOE, "ts": f"{SECONDS}.0001"},
    ],
    "the api of discord": [
        {"id": "2", "type": 7, "author": {"id": "7", "global_name": "Kim"}, "content": "", "timestamp": AT},
        {"id": "1", "type": 0, "author": {"id": "7", "global_name": "Kim"}, "content": CANOE, "timestamp": AT},
    ],
    "teams": {
        "@odata.context": "https://graph.microsoft.com/v1.0/$metadata",
        "value": [
            {
                "messageType": "message",
                "createdDateTime": AT,
                "from": {"application": None, "user": {"displayName": "Kim"}},
                "body": {"contentType": "html", "content": f"<div><p>{CANOE}</p></div>"},
            },
            {
                "messageType": "systemEventMessage",
                "createdDateTime": AT,
                "from": None,
                "body": {"content": "<systemEventMessage/>"},
            },
        ],
    },
    "one's own data in teams": {
        "userId": "8:live:bo",
        "conversations": [
            {
                "id": "19:x",
                "MessageList": [
                    {"messagetype": "ThreadActivity/AddMember", "originalarrivaltime": AT, "content": "<addmember/>"},
                    {"messagetype": "Text", "originalarrivaltime": AT, "from": "8:Kim", "content": CANOE},
                ],
            }
        ],
    },
    "google chat": {
        "messages": [
            {
                "creator": {"name": "Kim", "user_type": "Human"},
                "created_date": "Sunday, May 5, 2024 at 10:00:00\u202fAM UTC",
                "text": CANOE,
            }
        ]
    },
    "matrix": {
        "room_name": "r",
        "messages": [
            {"type": "m.room.member", "sender": "Kim", "origin_server_ts": SECONDS * 1000, "content": {}},
            {
                "type": "m.room.message",
                "sender": "Kim",
                "origin_server_ts": SECONDS * 1000,
                "content": {"msgtype": "m.text", "body": CANOE},
            },
        ],
    },
}


@each_row("program", PEOPLE)
@each_row("indent", [None, 1])
def test_each_message_of_a_chat_of_people_is_a_turn_of_who_said_it_then(program: str, indent: int | None) -> None:
    turns = said(json.dumps(PEOPLE[program], indent=indent))
    [(role, name, text, at)] = turns[0]
    assert (role, name, text) == ("user", "Kim", CANOE)
    assert at is not None
    assert at.startswith("2024-05-05T10:00:00")
    assert [turn[0][2] for turn in turns[1:]] == (["café"] if program == "messenger" else [])


NEW, OLD = "2024-05-05T11:00:00Z", "2024-05-05T10:00:00Z"


@pytest.mark.parametrize(
    "document",
    [
        [
            {"type": "message", "user": "U", "text": text, "ts": at}
            for text, at in (("new", "1714906800.1"), ("old", "1714903200.1"))
        ],
        [{"author": {"name": "Kim"}, "content": text, "timestamp": at} for text, at in (("new", NEW), ("old", OLD))],
        {
            "object": "list",
            "data": [
                {"role": "user", "content": [{"type": "text", "text": {"value": text}}], "created_at": at}
                for text, at in (("new", SECONDS + 3600), ("old", SECONDS))
            ],
        },
    ],
)
def test_messages_that_stand_newest_first_are_turned_round(document: Any) -> None:
    assert [turn[0][2] for turn in said(json.dumps(document))] == ["old", "new"]


def test_an_account_of_telegram_that_is_gone_is_still_somebody() -> None:
    gone = {**telegram("bye"), "from": None, "from_id": "user7"}
    document = {"type": "personal_chat", "id": 4, "messages": [gone, telegram(CANOE)]}
    assert [turn[0][1:3] for turn in said(json.dumps(document))] == [("user7", "bye"), ("Kim", CANOE)]


def test_an_answer_of_claude_that_stands_in_parts_is_kept_without_what_was_thought() -> None:
    parts = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "tool_use", "name": "x"},
        {"type": "text", "text": "Noted."},
    ]
    asked = {"sender": "human", "text": "", "content": [], "attachments": [{"file_name": "canoe.txt"}]}
    document = [{"uuid": "c", "chat_messages": [asked, {"sender": "assistant", "text": "", "content": parts}]}]
    assert [[one[:3:2] for one in turn] for turn in said(json.dumps(document))] == [
        [("user", "[document]"), ("assistant", "Noted.")]
    ]


@pytest.mark.parametrize(
    "document",
    [
        {
            "sessionId": "s",
            "messages": [
                {"type": "user", "content": CANOE},
                {"type": "info", "content": "x"},
                {"type": "gemini", "content": "ok"},
            ],
        },
        [
            {
                "id": "c",
                "chat": {"messages": [{"role": "user", "content": CANOE}, {"role": "assistant", "content": "ok"}]},
            }
        ],
        {
            "conversationId": "s",
            "messages": [
                {"sender": "User", "isCreatedByUser": True, "text": CANOE},
                {"sender": "GPT-4", "isCreatedByUser": False, "text": "ok"},
            ],
        },
    ],
    ids=["gemini cli", "open webui", "libre chat"],
)
def test_chats_with_other_assistants_are_read(document: Any) -> None:
    assert [[one[:3:2] for one in turn] for turn in said(json.dumps(document))] == [
        [("user", CANOE), ("assistant", "ok")]
    ]


def test_a_time_in_no_known_form_spoils_its_turn_alone() -> None:
    told = [{"role": "user", "content": text, "timestamp": at} for text, at in ((CANOE, AT), ("bye", "05/06/2024"))]
    [bad, kept] = read(json.dumps(told))
    assert isinstance(kept, ParsedTurn)
    assert isinstance(bad, BadLine)
    assert "timestamp: is no time that can be read" in bad.error


def test_a_bot_of_discord_is_no_person() -> None:
    assert said(json.dumps({"guild": {}, "messages": [discord(bot=True)]}))[0][0][:2] == ("assistant", "Kim")


GPT = {
    "title": "t",
    "id": "conversation-1",
    "current_node": "d",
    "mapping": {
        "root": {"id": "root", "parent": None, "message": None},
        "a": gpt("a", "user", "I sold the boat", "root"),
        "b": gpt("b", "assistant", "Which?", "a"),
        "c": gpt("c", "user", CANOE, "root"),
        "d": gpt("d", "assistant", "Noted.", "c"),
    },
}


@pytest.mark.parametrize("document", [GPT, [GPT]], ids=["one", "all"])
def test_chatgpt_is_read_along_the_branch_that_is_shown(document: Any) -> None:
    [item] = read(json.dumps(document))
    assert isinstance(item, ParsedTurn)
    assert (item.turn.session_id, item.turn.turn_id) == ("conversation-1", "c")
    assert said(json.dumps(document)) == [
        [
            ("user", None, CANOE, "2024-05-05T10:00:00.500000Z"),
            ("assistant", None, "Noted.", "2024-05-05T10:00:00.500000Z"),
        ]
    ]


def state(count: int, *, words: str = CANOE) -> dict[str, Any]:
    said = [(("human", "ai")[nth % 2], f"{words} {nth}") for nth in range(count)]
    return {"messages": [{"type": kind, "id": f"m{nth}", "content": text} for nth, (kind, text) in enumerate(said)]}


@each_row(
    "states",
    [
        [{"values": state(4)}, {"values": state(2)}, {"values": {"messages": []}}],
        [{"values": state(1)}, {"values": state(3)}, {"values": state(4)}],
        [{"channel_values": state(4)}, {"channel_values": state(4)}],
        [state(2), state(4)],
    ],
)
def test_of_several_states_each_message_is_taken_once(states: list[Any]) -> None:
    for text in (lines(*states), json.dumps(states)):
        turns = [one.turn for one in read(text) if isinstance(one, ParsedTurn)]
        assert [(turn.turn_id, len(turn.messages)) for turn in turns] == [("m0", 2), ("m2", 2)]


def test_two_chats_whose_ids_are_counted_alike_are_two() -> None:
    turns = [one.turn for one in read(json.dumps([state(2), state(2, words="The kettle is red")]))]  # type: ignore[union-attr]
    assert [turn.turn_id for turn in turns] == ["m0", "m0-2"]


def test_a_session_that_is_given_is_each_chat_s_own() -> None:
    second = {**GPT, "id": "conversation-2"}
    one = [item.turn.session_id for item in read(json.dumps(GPT), "again") if isinstance(item, ParsedTurn)]
    two = [item.turn.session_id for item in read(json.dumps([GPT, second]), "again") if isinstance(item, ParsedTurn)]
    assert (one, two) == (["again"], ["again-conversation-1", "again-conversation-2"])


def asked(*messages: dict[str, Any], **around: Any) -> Any:
    return {**around, "messages": list(messages)} if around else list(messages)


ASSISTANTS: dict[str, Any] = {
    "openai": asked({"role": "user", "content": CANOE}, {"role": "assistant", "content": "Noted."}),
    "anthropic": asked(
        {"role": "user", "content": [{"type": "text", "text": CANOE}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]},
        system="be kind",
    ),
    "claude": {
        "uuid": "u",
        "chat_messages": [
            {"uuid": "1", "sender": "human", "text": CANOE, "created_at": AT},
            {"uuid": "2", "sender": "assistant", "text": "Noted.", "created_at": AT},
        ],
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": CANOE}]},
            {"role": "model", "parts": [{"text": "Noted."}]},
        ]
    },
    "ai studio": {"chunkedPrompt": {"chunks": [{"role": "user", "text": CANOE}, {"role": "model", "text": "Noted."}]}},
    "langchain dict": asked(
        {"type": "human", "data": {"content": CANOE, "type": "human"}}, {"type": "ai", "data": {"content": "Noted."}}
    ),
    "langchain flat": asked({"type": "human", "content": CANOE, "id": None}, {"type": "ai", "content": "Noted."}),
    "langchain constructor": asked(
        *(
            {"lc": 1, "type": "constructor", "id": ["langchain", "schema", kind], "kwargs": {"content": text}}
            for kind, text in (("HumanMessage", CANOE), ("AIMessageChunk", "Noted."))
        )
    ),
    "langgraph": {"values": {"messages": [["human", CANOE], ["ai", "Noted."]]}, "next": []},
    "vercel": asked(
        {"id": "a", "role": "user", "parts": [{"type": "text", "text": CANOE}]},
        {"id": "b", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "text", "text": "Noted."}]},
    ),
    "sharegpt": {"conversations": [{"from": "human", "value": CANOE}, {"from": "gpt", "value": "Noted."}]},
    "cohere": asked({"role": "USER", "message": CANOE}, {"role": "CHATBOT", "message": "Noted."}),
    "bedrock": asked(
        {"role": "user", "content": [{"text": CANOE}]}, {"role": "assistant", "content": [{"text": "Noted."}]}
    ),
    "llama index": asked(
        {"role": "user", "blocks": [{"block_type": "text", "text": CANOE}]},
        {"role": "assistant", "blocks": [{"block_type": "text", "text": "Noted."}]},
    ),
}


@each_row("program", ASSISTANTS)
@each_row("indent", [None, 1])
def test_messages_of_other_frameworks_keep_who_said_what(program: str, indent: int | None) -> None:
    [turn] = read(json.dumps(ASSISTANTS[program], indent=indent))
    assert isinstance(turn, ParsedTurn)
    told = [(one.role, text_of(one.content)) for one in turn.turn.messages if isinstance(one, Message)]
    assert told == [("user", CANOE), ("assistant", "Noted.")]


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_lines_of_conversations_are_a_session_each() -> None:
    lines = [json.dumps({"messages": [{"role": "user", "content": text}]}) for text in ("one", "two")]
    found = read("\n".join(lines))
    assert [item.turn.messages for item in found if isinstance(item, ParsedTurn)] == [
        (Message("user", "one"),),
        (Message("user", "two"),),
    ]
    assert [item.line for item in found] == [1, 2]


ANDROID = (
    "24/12/2023, 20:15 - Messages and calls are end-to-end encrypted.\n"
    "24/12/2023, 20:16 - Kim: {text}\nand it is gone\n"
)
IPHONE = "[12/24/23, 8:16:05\u202fPM] Kim: \u200e{text}\nand it is gone\n[12/24/23, 8:17:00\u202fPM] Bo: ok\n"


@pytest.mark.parametrize("chat,second", [(ANDROID, 0), (IPHONE, 5)])
def test_a_chat_of_whatsapp_keeps_its_times_and_lines(chat: str, second: int) -> None:
    text = chat.format(text=CANOE)
    assert detect_format(text.encode()) is Format.WHATSAPP
    at = datetime(2023, 12, 24, 20, 16, second, tzinfo=UTC)
    assert said(text)[0] == [("user", "Kim", f"{CANOE}\nand it is gone", at)]


@each_row(
    "beginning",
    [
        "[24/12/2023, 20:16:00] {}",
        "24/12/2023 à 20:16 - {}",
        "24.12.2023 klo 20.16 - {}",
        "[24.12.2023 klo 20.16.00] {}",
        "24. 12. 2023 20:16 - {}",
        "2023. 12. 24. 20:16 - {}",
        "2023. 12. 24. 오후 8:16, {}",
        "2023/12/24 下午8:16 - {}",
        "24/12/23, 8:16 p.\u00a0m. - {}",
        "\u200f٢٤/١٢/٢٠٢٣، ٨:١٦ م - {}",
        "\u200e[24.12.23, 20:16:00] ~\u202f{}",
        "24/12/2566 20:16 - {}",
        "24.12.23 \u0433., 20:16 - {}",
        "20:16, 24/12/2023 - {}",
        "24/12/2023, 8:16 μ.μ. - {}",
        "24/12/2023, 8:16 PTG - {}",
    ],
)
def test_whatsapp_is_read_in_many_languages(beginning: str) -> None:
    chat = f"{beginning.format(f'Kim: {CANOE}')}\nand it is gone\n"
    assert detect_format(chat.encode()) is Format.WHATSAPP
    at = datetime(2023, 12, 24, 20, 16, tzinfo=UTC)
    assert said(chat) == [[("user", "Kim", f"{CANOE}\nand it is gone", at)]]


@each_row(
    "written, kept",
    [
        ("<Media omitted>", None),
        ("<Medien ausgeschlossen>", None),
        ("\u200eimage omitted", None),
        ("\u200e<attached: 0001-PHOTO.jpg>", None),
        ("\u200eMessages and calls are end-to-end encrypted. Nobody else can read them.", None),
        ("IMG-20231224-WA0001.jpg (file attached)", None),
        ("IMG-20231224-WA0001.jpg (file attached)\nour canoe", "our canoe"),
        ("This message was deleted", None),
        ("\u200eYou deleted this message.", None),
        (f"{CANOE} <This message was edited>", CANOE),
        (f"{CANOE} \u200e<Diese Nachricht wurde bearbeitet.>", CANOE),
        (f"\u200e{CANOE}", CANOE),
        ("<sigh>", "<sigh>"),
        ("<המדיה לא נכללה>", None),
        ("<Média vynechána>", None),
        ("example.org (look)", "example.org (look)"),
        ("Bo Lund.vcf (file attached)", None),
        ("null", None),
        ("Waiting for this message. This may take a while.", None),
        ("This message was deleted by admin Bo", None),
        ("Это сообщение удалено", None),
        ("Bu mesaj silindi", None),
        ("the image omitted by the editor", "the image omitted by the editor"),
    ],
)
def test_what_whatsapp_writes_itself_is_nobodys_words(written: str, kept: str | None) -> None:
    chat = f"24/12/2023, 20:15 - Bo: ok\n24/12/2023, 20:16 - Kim: {written}\n"
    assert [turn[0][1:3] for turn in said(chat)] == [("Bo", "ok"), *([("Kim", kept)] if kept else [])]


def test_what_whatsapp_tells_of_a_group_is_nobodys_words() -> None:
    chat = (
        "[24.12.23, 20:15:00] Trip: \u200eBo created this group\n"
        '[24.12.23, 20:15:01] Kim changed the group name from "Trip" to "Trip: Ghent"\n'
        f"[24.12.23, 20:16:00] Kim: {CANOE}\n[24.12.23, 20:17:00] Bo: \u200eMissed voice call\n"
        "[24.12.23, 20:18:00] Bo: \u200eLocation: https://maps.example.org\n"
    )
    assert [turn[0][1:3] for turn in said(chat)] == [("Kim", CANOE), ("Bo", "Location: https://maps.example.org")]


@each_row(
    "dates, given, months",
    [
        (("01/02/2026", "03/02/2026"), None, None),
        (("01/02/2026", "03/02/2026"), DateOrder.DAY_FIRST, [2, 2]),
        (("01/02/2026", "03/02/2026"), DateOrder.MONTH_FIRST, [1, 3]),
        (("01/02/2026", "13/02/2026"), None, [2, 2]),
        (("01/02/2026", "01/13/2026"), None, [1, 1]),
        (("03/02/2026", "01/03/2026"), None, [2, 3]),
        (("01/03/2026", "03/02/2026"), None, [1, 3]),
        (("02/02/2026", "03/03/2026"), None, [2, 3]),
        (("01.02.2026", "03.02.2026"), None, [2, 2]),
        (("2026-01-02", "2026-02-03"), None, [1, 2]),
    ],
)
def test_dates_of_whatsapp_are_read_as_the_file_shows_or_refused(
    dates: tuple[str, str], given: DateOrder | None, months: list[int] | None
) -> None:
    text = "".join(f"{date}, 20:16 - Kim: hello {nth}\n" for nth, date in enumerate(dates))
    found = list(parse_file(io.BytesIO(text.encode()), Format.WHATSAPP, SessionChoice("chat.txt"), dates=given))
    if months is None:
        [refused] = found
        assert isinstance(refused, Unrecognised)
        assert "--dates day-first" in refused.error
        return
    turns = [one.turn for one in found if isinstance(one, ParsedTurn)]
    assert [said.timestamp.month for turn in turns for said in turn.messages] == months  # type: ignore[union-attr]


OK = {"type": "text", "text": "ok"}
AGENTS: dict[str, list[dict[str, Any]]] = {
    "claude-code": [
        {"type": "summary", "summary": "x", "leafUuid": "l"},
        {
            "type": "user",
            "uuid": "u1",
            "sessionId": "session-7",
            "timestamp": AT,
            "message": {"role": "user", "content": CANOE},
        },
        {
            "type": "assistant",
            "uuid": "a",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
        },
    ],
    "codex": [
        {"type": "session_meta", "payload": {"id": "session-7"}},
        {"type": "event_msg", "timestamp": AT, "payload": {"type": "user_message", "message": CANOE}},
        {"type": "event_msg", "timestamp": AT, "payload": {"type": "agent_message", "message": "ok"}},
    ],
}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_file_of_a_coding_agent_is_read_as_its_hooks_store_it(agent: str) -> None:
    text = "\n".join(json.dumps(line) for line in AGENTS[agent]) + "\n"
    assert detect_format(text.encode()) is Format(agent)
    [item] = read(text)
    assert isinstance(item, ParsedTurn)
    assert item.turn.session_id == "session-7"
    assert [(role, told) for role, _name, told, _at in said(text)[0]] == [("user", CANOE), ("assistant", "ok")]
    assert said(text)[0][0][3] == AT
    [_turn, lost] = read(text + "{broken\n{}\n")
    assert isinstance(lost, BadLine)
    assert lost.error == "lines that are not JSON: 1"
    ours = {"session_id": "s", "turn_id": "t", "messages": [{"role": "user", "content": CANOE}]}
    [_turn, lost] = read(f"{json.dumps(ours)}\n{text}")
    assert isinstance(lost, BadLine)
    assert lost.error == "lines that are turns in JSON Lines: 1; give them in a file of their own"


def lines(*values: Any) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


def event_of_copilot(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "timestamp": AT}


def wrapped(kind: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "message", "timestamp": AT, "message": {"role": kind, "content": [*parts], **more}}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


GEMINI = {"sessionId": "g", "projectHash": "h", "startTime": AT, "lastUpdated": AT}
ENVIRONMENT = text_part("<environment_details>\n# Open Tabs\nCargo.toml\n</environment_details>")
#: Session files of agents, and exports, in which a person says CANOE and a model ok; all else is the program's.
SESSIONS: dict[str, str] = {
    "gemini cli": lines(
        GEMINI,
        {"id": "0", "timestamp": AT, "type": "user", "content": "a draft"},
        {"$rewindTo": "0"},
        {"id": "1", "timestamp": AT, "type": "user", "content": [{"text": CANOE}]},
        {"$set": {"lastUpdated": AT}},
        {"id": "2", "timestamp": AT, "type": "gemini", "content": ""},
        {"id": "2", "timestamp": AT, "type": "gemini", "content": "ok"},
        {"id": "3", "timestamp": AT, "type": "info", "content": "There is a newer version"},
    ),
    "goose": lines(
        {"working_dir": "/w", "description": "sale", "message_count": 2},
        {"role": "user", "created": SECONDS, "content": [text_part(CANOE)]},
        {"role": "assistant", "created": SECONDS, "content": [text_part("ok")]},
    ),
    "qwen code": lines(
        {"type": "user", "uuid": "1", "parentUuid": None, "timestamp": AT, "message": {"parts": [{"text": CANOE}]}},
        {"type": "assistant", "uuid": "2", "parentUuid": "1", "message": {"parts": [{"text": "ok"}]}},
    ),
    "copilot": lines(
        event_of_copilot("session.start", sessionId="s"),
        event_of_copilot("session.info", message="Signed in"),
        event_of_copilot("user.message", content=CANOE, transformedContent=f"<date>today</date>{CANOE}"),
        event_of_copilot("assistant.message", content="ok"),
    ),
    "pi": lines(
        {"type": "session", "version": 3, "id": "s", "timestamp": AT},
        wrapped("user", text_part(CANOE)),
        wrapped("assistant", text_part("ok")),
        {"type": "model_change", "modelId": "m", "timestamp": AT},
    ),
    "droid": lines(
        {"type": "session_start", "id": "s"},
        wrapped("user", text_part("<system-reminder>it is late</system-reminder>"), text_part(CANOE)),
        wrapped("assistant", text_part("ok")),
    ),
    "kimi": lines(
        {"role": "_checkpoint", "id": 0}, {"role": "user", "content": CANOE, "timestamp": AT},
        {"role": "assistant", "content": "ok"}, {"role": "_usage", "token_count": 3},
    ),
    "cline": json.dumps([
        {"role": "user", "ts": SECONDS * 1000, "content": [text_part(f"<task>\n{CANOE}\n</task>"), ENVIRONMENT]},
        {"role": "assistant", "content": [text_part("ok")]},
    ]),
    "claude code as one array": json.dumps([
        {**line, "parentUuid": None, "sessionId": "s"} for line in AGENTS["claude-code"][1:]
    ], indent=1),
    "claude code's stream": lines(
        {"type": "system", "subtype": "init", "uuid": "0", "session_id": "s"},
        *({**line, "parent_tool_use_id": None} for line in AGENTS["claude-code"][1:]),
        {**AGENTS["claude-code"][1], "uuid": "9", "parent_tool_use_id": "toolu_1", "message": {"content": "Search"}},
        {"type": "result", "subtype": "success", "result": "ok"},
    ),
    "open webui without a list": json.dumps([{"id": "c", "chat": {"history": {"currentId": "2", "messages": {
        "1": {"id": "1", "parentId": None, "role": "user", "content": CANOE, "timestamp": SECONDS},
        "2": {"id": "2", "parentId": "1", "role": "assistant", "content": "ok"},
        "3": {"id": "3", "parentId": "1", "role": "assistant", "content": "another answer"},
    }}}}]),
    "librechat, one within the other": json.dumps({"conversationId": "c", "messagesTree": [
        {"messageId": "1", "isCreatedByUser": True, "sender": "User", "text": CANOE, "createdAt": AT, "children": [
            {"messageId": "2", "isCreatedByUser": False, "sender": "m", "text": "", "content": [text_part("ok")]},
        ]},
    ]}),
}  # fmt: skip


@each_row("program", SESSIONS)
def test_of_a_session_only_what_person_and_model_said_is_kept(program: str) -> None:
    [item] = read(SESSIONS[program])
    assert isinstance(item, ParsedTurn)
    [asked, told] = said(SESSIONS[program])[0]
    assert (asked[0], text_of(asked[2])) == ("user", CANOE)
    assert str(asked[3]).startswith("2024-05-05")
    assert (told[0], text_of(told[2])) == ("assistant", "ok")


def test_what_cline_writes_as_the_user_s_is_the_tool_s() -> None:
    asked = {"role": "user", "content": [text_part(f"<task>{CANOE}</task>"), ENVIRONMENT]}
    read_file = {"role": "user", "content": [text_part("[read_file for 'a'] Result:"), text_part("x"), ENVIRONMENT]}
    [turn] = said(json.dumps([asked, {"role": "assistant", "content": "<read_file/>"}, read_file]))
    assert [role for role, *_ in turn] == ["user", "assistant", "tool"]


#: Files in which nobody speaks, or in a form that is not known: their words are nobody's.
NOBODY: dict[str, str] = {
    "lines of events": lines({"type": "track", "event": "x"}, {"type": "page", "name": "y"}),
    "an array of events": json.dumps([{"type": "click", "x": 1}, {"type": "view"}]),
    "a map": json.dumps({"type": "FeatureCollection", "features": []}),
    "events of codex": lines(
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "ok"}},
    ),
    "a form of a mapping": json.dumps(
        [{"mapping": {"1": {"id": "1", "message": {"fragments": [{"content": CANOE}]}}}}]
    ),
    "messages of another name": json.dumps(
        {"participants": ["Kim"], "messages": [{"senderName": "Kim", "text": CANOE, "timestamp": SECONDS}]}
    ),
    "commits": json.dumps([{"type": "commit", "author": {"name": "Kim"}, "message": CANOE}]),
    "a side chain": lines({"type": "user", "uuid": "1", "isSidechain": True, "message": {"content": "Search"}}),
    "an unknown document": json.dumps({"value": "x", "requests": [{"message": {"text": CANOE}}]}, indent=1) + " " * 99,
    "lines behind an unknown one": lines({"user_name": "Kim", "value": 1}, {"name": "Kim", "mes": CANOE}),
}


@each_row("kind", NOBODY)
def test_a_file_in_which_nobody_speaks_is_refused(kind: str) -> None:
    form = detect_format(NOBODY[kind].encode())
    found = [] if form is None else read(NOBODY[kind])
    assert form is None or [type(one) for one in found] == [Unrecognised]


@each_row("empty", ["[]", '{"messages": []}'])
def test_an_export_without_messages_is_empty(empty: str) -> None:
    assert read(empty) == []


QUOTED = "I live in Rome"


@each_row(
    "document",
    [
        {"messages": [telegram(CANOE), telegram(QUOTED, id=2, forwarded_from="Bo")]},
        {"messages": [telegram(CANOE), telegram(QUOTED, id=2, forwarded_from=None)]},
        {"value": [{
            "messageType": "message", "createdDateTime": AT, "from": {"user": {"displayName": "Kim"}},
            "body": {"contentType": "html", "content": (
                '<blockquote itemscope itemtype="http://schema.skype.com/Reply" itemid="1"><strong>Bo</strong>'
                f"<p>{QUOTED}</p></blockquote><p>{CANOE}</p>"
            )},
        }]},
        {"conversations": [{"id": "8:bo", "MessageList": [{
            "from": "8:kim", "displayName": "Kim", "messagetype": "RichText", "originalarrivaltime": AT,
            "content": f'<quote author="bo"><legacyquote>[1] Bo: </legacyquote>{QUOTED}</quote>{CANOE}',
        }]}]},
        {"messages": [{
            "type": "m.room.message", "sender": "Kim", "origin_server_ts": SECONDS * 1000,
            "content": {"body": f"> <@bo:example.org> {QUOTED}\n> and more\n\n{CANOE}",
                        "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}},
        }]},
    ],
)  # fmt: skip
def test_what_is_quoted_or_forwarded_is_not_said_by_who_sends_it(document: Any) -> None:
    told = [one for turn in said(json.dumps(document)) for one in turn]
    assert [text for _role, name, text, _at in told if name == "Kim"] == [CANOE]


@each_row(
    "written, kept",
    [
        (f"Kim: \n\n> {QUOTED}\n> and more\n\n{CANOE}  ", CANOE),
        (f"Kim:\n> \n> {QUOTED}\n> \n{CANOE}  \n(- Bo: :-), Me: :-( -)", CANOE),
        (f"Kim: \n\n> {QUOTED}\n\n![a](./media/a.jpg)  ", None),
        ("Kim: > not in our canoe", "> not in our canoe"),
        (f"Kim: {CANOE}  \n[list.pdf](./media/list.pdf)  ", CANOE),
        ("Kim:   \n(( :-) ))", None),
        ("Kim: Missed voice call  ", None),
        ("Kim: (This message was deleted)", None),
        ("Kim: Incoming calls wake me", "Incoming calls wake me"),
    ],
)
def test_of_signal_s_export_only_a_person_s_own_words_are_kept(written: str, kept: str | None) -> None:
    chat = f"[2024-05-05 10:00:00] Bo: ok  \n[2024-05-05 10:01:00] {written}\n[2024-05-05 10:02] Bo: bye  \n"
    assert detect_format(chat.encode()) is Format.WHATSAPP
    told = [turn[0][1:3] for turn in said(chat)]
    assert told == [("Bo", "ok"), *([("Kim", kept)] if kept else []), ("Bo", "bye")]
    assert not [one for one in read(chat) if isinstance(one, BadLine)]


def test_a_program_in_matrix_is_no_person_and_an_edit_is_its_new_text() -> None:
    notice = {"type": "m.room.message", "sender": "@bot:x", "content": {"msgtype": "m.notice", "body": "Built."}}
    edited = {"body": f"* {CANOE}", "m.new_content": {"body": CANOE}, "m.relates_to": {"rel_type": "m.replace"}}
    person = {"type": "m.room.message", "sender": "@kim:x", "content": edited}
    assert [turn[0][:3] for turn in said(json.dumps({"messages": [notice, person]}))] == [
        ("assistant", "@bot:x", "Built."),
        ("user", "@kim:x", CANOE),
    ]


@each_row("end", ["\n", "\r\n", "\r"])
def test_each_line_of_a_transcript_is_its_own_speaker_s_whatever_ends_it(end: str) -> None:
    told = said(end.join(["Kim: hello", "Bo: hi", "Kim: bye", ""]))
    assert [turn[0][1:3] for turn in told] == [("Kim", "hello"), ("Bo", "hi"), ("Kim", "bye")]


@each_row(
    "place, line",
    [
        *((1, f"{remark}: bring it") for remark in ("Note", "PS", "Update 2", "TODO", "Hinweis")),
        *((2, f"{field}: bring it") for field in ("Date", "Agenda", "KeyError", "We agreed", "Re", "UTC+2", "#canoe")),
        *(
            (3, f"{field}: bring it")
            for field in ("42", "> Bo", "Meeting ended", "Transcript", "And then all of us said")
        ),
        (2, "# Part two"),
        *((60, f"{remark}: bring it") for remark in ("Note", "PS", "Update", "Thread-1", "Agenda", "ERROR")),
    ],
)
def test_a_remark_in_a_transcript_is_nobodys_words_and_loses_itself_alone(place: int, line: str) -> None:
    talk = [f"{('Kim', 'Bo')[nth % 2]}: line {nth}" for nth in range(80)]
    found = read("\n".join([*talk[:place], line, *talk[place:]]))
    assert [one.line for one in found if isinstance(one, BadLine)] == [place + 1]
    assert {one.turn.messages[0].name for one in found if isinstance(one, ParsedTurn)} == {"Kim", "Bo"}  # type: ignore[union-attr]


@each_row(
    "label, role, name",
    [
        ("@Kim", "user", "Kim"),
        ("Kim (CEO)", "user", "Kim"),
        ("Kim (she/her)", "user", "Kim"),
        ("@assistant", "assistant", "assistant"),
        ("Assistant (GPT-4)", "assistant", "Assistant"),
        ("Claude (AI)", "assistant", "Claude"),
        ("GPT-4o", "assistant", "GPT-4o"),
        ("GitHub Copilot", "assistant", "GitHub Copilot"),
    ],
)
def test_what_stands_around_a_speaker_s_name_is_not_of_it(label: str, role: str, name: str) -> None:
    talk = "".join(f"{who}: line {nth}\n" for nth, who in enumerate(("Bo", label) * 3))
    assert [turn[0][:2] for turn in said(talk)] == [("user", "Bo"), (role, name)] * 3


def test_two_people_of_one_name_keep_what_tells_them_apart() -> None:
    told = said("Kim (CEO): hi\nKim (CTO): hello\nKim (CEO): bye\nKim (CTO): bye\n")
    assert [turn[0][1] for turn in told] == ["Kim (CEO)", "Kim (CTO)"] * 2


@pytest.mark.parametrize("name", ["Coworker", "Caseworker", "Producer Bo", "Kim"])
def test_a_person_may_be_named_after_work(name: str) -> None:
    assert may_speak(name)


@pytest.mark.parametrize("name", ["worker", "Thread-1", "app.worker", "threadworker7", "Pod 7"])
def test_a_part_of_a_program_does_not_speak(name: str) -> None:
    assert not may_speak(name)


UNKNOWN = {
    "a log of threads": "Thread-1: started\nThread-2: started\nThread-1: stopped\nThread-2: stopped\n",
    "a log of workers": "ForkPoolWorker-3: done\nForkPoolWorker-4: done\nForkPoolWorker-3: failed\n",
    "a log of nodes": "Node 1: joined\nNode 2: joined\nNode 1: left\nNode 2: left\n",
    "notes": "Note: bring the canoe\nPS: and the oars\nNote: and a map\n",
    "a log": "INFO: server started\nINFO: listening on 8080\nERROR: it failed\n",
    "a log with times": "2024-05-05 10:00:00 INFO: started\n2024-05-05 10:00:01 INFO: stopped\n",
    "a syslog": "May  5 10:00:00 host sshd[12]: Accepted password\n",
    "yaml": "name: app\nversion: 2\nservices:\n  web:\n    image: nginx\n",
    "flat yaml": "Name: the trip\nVersion: 1.0\nLicense: MIT\n",
    "a list in yaml": "- name: a\n  value: b\n",
    "cloud formation": "Resources:\n  Bucket:\n    Type: AWS\n",
    "a mail": "From: Kim <kim@example.org>\nTo: Bo <bo@example.org>\nSubject: the canoe\n\nHi\n",
    "a german mail": "Von: Kim\nGesendet: Montag\nAn: Bo\nBetreff: Kanu\n\nHallo\n",
    "a french mail": "De: Kim\nEnvoyé: lundi\nÀ: Bo\nObjet: canoë\n",
    "minutes": "Attendees: Kim, Bo\nAgenda: the canoe\nDecision: sell it\n",
    "fields that come once": "Ort: Gent\nPreis: 300\nFarbe: rot\nZustand: gut\n",
    "headers": "Host: example.org\nAccept: text/html\nUser-Agent: curl\n",
    "a stack trace": "ValueError: no such canoe\nKeyError: 'x'\n",
    "identifiers": "max_retries: 3\ntimeout_s: 5\n",
    "a glossary": "".join(
        f"{word}: a fruit\n" for word in ("Apple", "Banana", "Cherry", "Date", "Elder", "Fig", "Grape")
    ),
    "prose": "# The trip\n\nWe went to Ghent.\n\nNote: bring a canoe.\n",
    "lines of a log": '{"level": "info", "msg": "started"}\n{"level": "warn", "msg": "slow"}\n',
    "a package": '{"name": "app", "version": "1", "scripts": {"a": "b"}}',
    "what was typed to codex": '{"session_id": "s", "ts": 1714903200, "text": "I sold the canoe"}\n',
    "a log of git": "commit 0ad6080e\nAuthor: Kim <kim@example.org>\nDate:   Mon May 6\n\n    Sold the canoe\n",
}


@each_row("kind", UNKNOWN)
def test_what_nobody_said_is_no_chat_of_people(kind: str) -> None:
    assert detect_format(UNKNOWN[kind].encode()) is None


@each_row(
    "document",
    [
        {"messages": [{"creator": {"name": "Kim"}, "said": CANOE}]},
        {"messages": [{"type": "message", "text": CANOE}]},
        [{"type": "message", "content": CANOE}],
        [{"type": "user_message", "message": CANOE}],
        [{"role": "robot", "content": CANOE}],
        {"conversations": [{"from": "somebody", "value": CANOE}]},
    ],
)
def test_a_document_that_does_not_say_who_spoke_is_refused_with_what_was_looked_for(document: Any) -> None:
    [refused] = read(json.dumps(document))
    assert isinstance(refused, Unrecognised)
    assert "looked for" in refused.error or "must be user, assistant" in refused.error
    assert CANOE not in refused.error


@each_row(
    "people",
    [
        "Ana: hi\nBen: hi\n",
        "Speaker 1: hi\nSpeaker 2: hi\n",
        "SPEAKER_00: hi\nSPEAKER_01: hi\n",
        "user: hi\nassistant: hello\n",
        "Dr. Lee: hi\nMarie-Luise: hi\n",
        "林: 你好\n王: 你好\n",
    ],
)
def test_people_and_roles_are_still_known_by_their_names(people: str) -> None:
    assert detect_format(people.encode()) is Format.TRANSCRIPT
