"""`afterturn ingest` and texts of meetings and of coding agents: who said what and when, and what nobody said."""

import codecs
import io
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, cast

from afterturn_client.turns import Message

from deploy.cli.text_encoding import read_as_utf8
from deploy.ingest_formats.chat import SessionChoice
from deploy.ingest_formats.formats import Format, detect_format, parse_file
from deploy.ingest_formats.parsed import BadLine, ParsedTurn, Unrecognised
from deploy.ingest_formats.refused_forms import name_refused
from tests.tables import each_row

TEN = datetime(2024, 5, 5, 10, tzinfo=UTC)


def read(text: str, name: str = "talk.txt", began: datetime | None = None) -> list[ParsedTurn | BadLine]:
    form = detect_format(text.encode())
    assert form is not None
    return list(parse_file(io.BytesIO(text.encode()), form, SessionChoice(name), began=began))


def turns(text: str, **how: Any) -> list[list[tuple[str, str | None, Any]]]:
    return [
        [(one.role, one.name, one.content) for one in item.turn.messages if isinstance(one, Message)]
        for item in read(text, **how)
        if isinstance(item, ParsedTurn)
    ]


def times(text: str, **how: Any) -> list[Any]:
    """Return when each message of a text was said."""
    read_ones = [one.turn for one in read(text, **how) if isinstance(one, ParsedTurn)]
    return [one.timestamp for turn in read_ones for one in turn.messages if isinstance(one, Message)]


def cue(times: str, *said: str, name: str = "") -> str:
    return "\n".join([*([name] if name else []), times, *said, "", ""])


TEAMS = "WEBVTT\n\nNOTE language:en-us\n\n" + "".join(
    [
        cue("00:00:12.010 --> 00:00:12.690", "<v Kim Berg>I moved to</v>", name="2eb325bb-1b35-4dac-b37b/154-0"),
        cue("00:00:14.440 --> 00:00:16.080", "<v Kim Berg>Ghent &amp; sold <i>it</i>.</v>", name="2eb325bb/154-1"),
        cue("0:0:17.370 --> 0:0:18.610", "<v.loud Bo (Guest)>Oh!</v><v Kim Berg>Yes."),
    ]
)
ZOOM = "WEBVTT\n\n" + "".join(
    [
        cue("00:00:12.000 --> 00:00:13.000", "Kim Berg: I moved to", name="1"),
        cue("00:00:14.000 --> 00:00:15.000", "Kim Berg: Ghent & sold it.", name="2"),
        cue("00:00:17.000 --> 00:00:18.000", "Bo: Oh!", name="3"),
        cue("00:00:17.500 --> 00:00:18.000", "Kim Berg: Yes.", name="4"),
    ]
)
SRT = "".join(
    [
        cue("00:00:12,000 --> 00:00:13,000", "Kim Berg: I moved to", name="1"),
        cue("00:00:14,000 --> 00:00:15,000", "Ghent & sold it.", name="2"),
        cue("00:00:17,000 --> 00:00:18,000", "Bo: Oh!", name="3"),
        cue("00:00:17,500 --> 00:00:18,000", "Kim Berg: Yes.", name="4"),
    ]
)
OTTER = (
    "Trip\n\nSUMMARY KEYWORDS\ncanoe, opera\n\nKim Berg  0:12  \nI moved to\nGhent & sold it.\n\nBo  0:17  \nOh!\n\n"
    "Kim Berg  0:17  \nYes.\n\nTranscribed by https://otter.ai\n"
)
MEET = (
    "# Notes\n\nMar 6, 2024\n\n### Summary\n\nKim Berg likes opera ([00:00:12](#00:00:12)).\n\n"
    "* **Start**: Bo left.\n\n# \U0001f4d6 Transcript\n\nMay 5, 2024\n\n"
    "## Trip (2024-05-05 at 12:00 GMT+2) \\- Transcript\n\n### 00:00:12 {#00:00:12}\n\n   \n"
    "**Kim Berg:** I moved to  \n**Kim Berg:** Ghent & sold it.  \n\n### 00:00:17\n\n**Bo:** Oh!  \n"
    "**Kim Berg:** Yes.  \n\n### Transcription ended after 00:52:26\n\n"
    "*This editable transcript was computer generated and might contain errors.*\n"
)
OLD_MEET = (
    "Trip (2024-05-05 at 10:00 GMT) \u2013 Transcript\nAttendees\nKim Berg, Bo\nTranscript\n"
    "This editable transcript was computer generated and might contain errors.\n00:00:12\nKim Berg: I moved to\n"
    "Ghent & sold it.\n00:00:17\nBo: Oh!\nKim Berg: Yes.\n"
)
CAPTIONS = (
    "[Kim Berg] 23:59:50\nI moved to\n\n[Kim Berg] 23:59:52\nGhent & sold it.\n\n[Bo] 23:59:55\nOh!\n\n"
    "[Kim Berg] 00:00:01\nYes.\n"
)
MEETINGS = {"teams": TEAMS, "zoom": ZOOM, "srt": SRT, "otter": OTTER, "meet": MEET, "old meet": OLD_MEET}


@each_row("program", MEETINGS)
def test_each_speaker_of_a_meeting_says_the_own_words_at_their_time(program: str) -> None:
    found = read(MEETINGS[program], "GMT20240505-100000_Recording.transcript.vtt")
    messages = [one.turn.messages[0] for one in found if isinstance(one, ParsedTurn)]
    assert [type(one) for one in found] == [ParsedTurn] * 3
    assert [(one.role, one.name, one.content) for one in messages if isinstance(one, Message)] == [
        ("user", "Kim Berg", "I moved to Ghent & sold it."),
        ("user", "Bo", "Oh!"),
        ("user", "Kim Berg", "Yes."),
    ]
    times = [one.timestamp for one in messages if isinstance(one, Message) and isinstance(one.timestamp, datetime)]
    assert [(at - TEN).seconds for at in times] == [12, 17, 17]


def test_captions_of_zoom_count_from_the_first_words() -> None:
    unknown = [one.turn for one in read(CAPTIONS) if isinstance(one, ParsedTurn)]
    assert turns(CAPTIONS) == [
        [("user", "Kim Berg", "I moved to Ghent & sold it.")],
        [("user", "Bo", "Oh!")],
        [("user", "Kim Berg", "Yes.")],
    ]
    assert [turn.metadata for turn in unknown] == [{"recording_offset": f"0:00:{at}"} for at in ("00", "05", "11")]
    assert times(CAPTIONS, began=TEN)[-1] == TEN + timedelta(seconds=11)


ZOOM_CHAT = (
    "10:00:05 From Kim Berg to Everyone:\n\tI sold\n\tit: now\n10:00:06 From Bo to Kim Berg (Direct Message):\n"
    '\tReplying to "I sold..."\n\t\n\twhere\n10:00:07 From Kim Berg to Everyone:\n\tReacted to "where" with :)\n'
    '10:00:08 From Kim Berg to Everyone:\n\tRemoved a :) reaction from "where"\n'
)


@each_row(
    "chat",
    [
        ZOOM_CHAT,
        "10:00:05\t From  Kim Berg : I sold\r\nit: now\r\n10:00:06\t From  Bo  to  Everyone : where\r\n",
        "10:00:05 From Kim Berg To Everyone:\n    I sold\n    it: now\n10:00:06 From Bo To Everyone:\n    where\n",
    ],
)
def test_of_a_chat_of_zoom_each_message_is_its_sender_s_own_words(chat: str) -> None:
    assert turns(chat) == [[("user", "Kim Berg", "I sold\nit: now")], [("user", "Bo", "where")]]
    last = [one.turn.messages[0] for one in read(chat, began=TEN) if isinstance(one, ParsedTurn)][-1]
    assert isinstance(last, Message)
    assert last.timestamp == TEN + timedelta(seconds=1)


@each_row("program", [name for name in MEETINGS if "meet" not in name])
def test_where_a_recording_does_not_say_when_it_began_the_place_in_it_is_kept(program: str) -> None:
    unknown, known = (
        [one.turn for one in read(MEETINGS[program], began=began) if isinstance(one, ParsedTurn)]
        for began in (None, TEN)
    )
    assert [turn.metadata for turn in unknown] == [{"recording_offset": f"0:00:{at}"} for at in (12, 17, 17)]
    assert set(times(MEETINGS[program])) == {None}
    assert [turn.metadata for turn in known] == [None] * 3


@each_row("zone, hour", [("", 10), ("+2", 8), ("+05:30", 4), ("+5:30", 4), ("-03:30", 13)])
def test_a_meeting_of_google_begins_in_the_zone_of_its_title(zone: str, hour: int) -> None:
    told = f"at 10:00 GMT{zone}"
    began = TEN.replace(hour=hour, minute=30 if "30" in zone else 0)
    for meeting in (MEET.replace("at 12:00 GMT+2", told), OLD_MEET.replace("at 10:00 GMT", told)):
        assert times(meeting)[0] == began + timedelta(seconds=12)


@each_row("title", ["2024-05-05 at 10:00 GMT+99", "2024-02-31 at 10:00 GMT", "0001-01-01 at 00:00 GMT+05:30"])
def test_of_a_meeting_with_an_impossible_time_the_day_is_taken(title: str) -> None:
    meeting = MEETINGS["meet"].replace("2024-05-05 at 12:00 GMT+2", title)
    assert times(meeting)[0] == TEN.replace(hour=0) + timedelta(seconds=12)


def test_in_a_meeting_a_person_named_as_an_assistant_is_a_person() -> None:
    text = "WEBVTT\n\n" + cue("00:01.000 --> 00:02.000", "Claude: hi.") + cue("00:03.000 --> 00:04.000", "Ana: hi.")
    assert turns(text) == [[("user", "Claude", "hi.")], [("user", "Ana", "hi.")]]


def test_a_cue_without_a_name_is_nobodys_where_each_has_one() -> None:
    text = ZOOM + cue("00:00:19.000 --> 00:00:20.000", "Kim Berg: We agreed: nothing", "Option: none.")
    found = read(text + cue("00:00:21.000 --> 00:00:22.000", "I live in Rome") + "lost words\n")
    assert [one.error for one in found if isinstance(one, BadLine)] == [
        "names no speaker",
        "not of a cue: no line says when it was said",
    ]
    last = [one.turn.messages[0] for one in found if isinstance(one, ParsedTurn)][-1]
    assert isinstance(last, Message)
    assert last.content == "We agreed: nothing Option: none."


SAID = [[("user", "Kim", "one")], [("user", "Bo", "two")]]


def cues(*said: str) -> str:
    """SRT of these cues, a second apart, whose lines stand apart by bars."""
    return "".join(
        cue(f"00:00:{nth:02},000 --> 00:00:{nth:02},900", *one.split("|"), name=str(nth))
        for nth, one in enumerate(said)
    )


@each_row(
    "text",
    [
        "WEBVTT\n\n" + cues("<v Kim>one</v>", "I live in Rome", "<v Bo>two</v>", "<v >I live in Rome</v>"),
        cues("Kim:|one", "Bo:|two"),
        cues("[Kim]: one", "[Bo]: two"),
        cues("Kim: one", "Bo: two").replace("\n\n", "\n"),
        "\n\n" + cues("Kim: one", "Bo: two"),
        cue("00:01,000 --> 00:02,000", "Kim: one") + cue("00:03,000 --> 00:04,000", "Bo: two"),
        "WEBVTT\nKind: captions\n\nSTYLE\n::cue {}\n\nNOTE\nKim: Rome\n\n" + cues("Kim: one", "Bo: two"),
        cues("Kim: one", "Bo: two") + "9\n00:00:0",
        cues("Kim: one", "", "Bo: two"),
    ],
)
def test_cues_are_read_in_all_their_forms(text: str) -> None:
    assert turns(text) == SAID


@each_row(
    "text",
    [
        "WEBVTT\n\n" + cue("00:01.000 --> 00:02.000", "I live in Rome"),
        cues("MAN: run", *["it is late"] * 30),
        "Notes\n\nKim: I live in Rome\n\nTranscription ended after 00:02:31\n",
        "".join(cue("00:00:01,000 --> 00:00:02,000", said, name="1") for said in ("- Hi.", "- You?", "MAN: run", "ok")),
        "WEBVTT\n",
        "\n# aider chat started at 2025-10-20 21:49:17\n\n#### I live in Rome\n\nOk.\n\n#### Step 1\n",
    ],
)
def test_a_text_that_does_not_say_whose_words_it_has_is_refused(text: str) -> None:
    assert [type(one) for one in read(text)] == [Unrecognised]


AIDER = (
    "\n# aider chat started at 2024-05-05 10:00:00\n\n> /usr/bin/aider --message # Task  \n\n**Task**: none\n\n"
    "> Aider v0.86.1  \n\n#### /add a.py  \n> Added a.py to the chat  \n\n#### I live in Ghent.  \n####   \n"
    "#### Fix a.py  \n>  \n\nSure:\n\n#### Step 1\n\n> quoted\n\n# Head\n\n\n> Applied edit to a.py  \n"
    "> Commit 0ad6080 fix: it\n- I live\n\n- in Rome  \n\nAll done.\n\n\n"
    "#### Add b.py to the chat? (Y)es/(N)o [Yes]: y  \n\nMore.\n\n#### /run ls  \n\nI live in Rome\n\n"
    "#### <blank>  \n\n#### /architect why?  \n\n#### why?  \n\n"
    "Because I live in a\n\nsmall town near Rome, it seems.\n"
    "\n> Edit the files? (Y)es/(N)o [Yes]: y  \n\n#### Because I live in a  \n####   \n"
    "#### small town near Rome, it seems.  \n\nEdited.\n\n"
)
CURSOR = (
    "# Trip\n_Exported on 5/15/2025 at 17:47:04 PDT from Cursor (0.50.4)_\n\n---\n\n**User**\n\n"
    "I live in Ghent.\n\n---\n\n**Cursor**\n\nOk.\n\n**User**\n\nis a heading.\n\n---\n\nBye.\n\n---\n\n"
    "**User**\n\nthanks\n\n---\n"
)
SPECSTORY = (
    "<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n# Trip\n\n_**User (2024-05-05 10:00:00Z)**_\n\n"
    "I live in Ghent.\n\n---\n\n_**Agent (claude-opus-4-8 2024-05-05 10:00:05Z)**_\n\n<think><details>\n"
    'I live in Rome\n</think>\n\n<tool-use data-tool-type="shell"><details>\n\nout\n'
    "</details></tool-use>\n\n<details>\nI live in Rome\n</details>\n\nOk:\n\n```\n_**User**_\n```\n\n---\n\nBye.\n\n"
    "_**User (2024-05-05 10:00:06Z) - sidechain**_\n\nI live in Rome\n\n"
    "_**Agent (m 2024-05-05 10:00:07Z) - sidechain**_\n\nRome\n\n---\n\n_**User (2024-05-05 10:01Z)**_\n\n"
    "thanks\n\n---\n"
)
CHATS: dict[str, tuple[str, list[list[tuple[str, str]]]]] = {
    "aider": (
        AIDER,
        [
            [
                ("user", "I live in Ghent.\n\nFix a.py"),
                ("assistant", "Sure:\n\n#### Step 1\n\n> quoted\n\n# Head\n\nAll done.\n\nMore."),
            ],
            [
                ("user", "why?"),
                ("assistant", "Because I live in a\n\nsmall town near Rome, it seems.\n\nEdited."),
            ],
        ],
    ),
    "cursor": (
        CURSOR,
        [
            [("user", "I live in Ghent."), ("assistant", "Ok.\n\n**User**\n\nis a heading.\n\nBye.")],
            [("user", "thanks")],
        ],
    ),
    "specstory": (
        SPECSTORY,
        [
            [("user", "I live in Ghent."), ("assistant", "Ok:\n\n```\n_**User**_\n```\n\nBye.")],
            [("user", "thanks")],
        ],
    ),
}


@each_row("program", CHATS)
def test_of_an_agent_s_history_only_what_person_and_model_said_is_kept(program: str) -> None:
    text, expected = CHATS[program]
    assert [[(role, said) for role, _, said in turn] for turn in turns(text)] == expected


def test_what_aider_hands_on_is_nobodys_prompt_behind_a_command_either() -> None:
    told = "I would move the canoe to the barn, near the door."
    text = f"# aider chat started at 2024-05-05 10:00:00\n\n#### /run it  \n\n{told}\n\n#### {told}  \n\nDone.\n"
    assert turns(text) == []


def test_times_and_sessions_of_an_agent_s_history_are_its_own() -> None:
    aider = read(AIDER + AIDER.replace("05-05", "05-06"))
    assert {one.turn.session_id for one in aider if isinstance(one, ParsedTurn)} == {
        "aider 2024-05-05 10:00:00",
        "aider 2024-05-06 10:00:00",
    }
    assert times(AIDER)[0] == "2024-05-05T10:00:00Z"
    assert times(SPECSTORY) == [f"2024-05-05T10:{at}Z" for at in ("00:00", "00:05", "01:00")]


MORE = {
    **dict.fromkeys(("zoom", "teams"), cue("00:00:30.000 --> 00:00:31.000", "<v Bo>Bye.</v>")),
    "srt": cue("00:00:30,000 --> 00:00:31,000", "Bo: Bye.", name="5"),
    "otter": "\nBo  0:30\nBye.\n",
    "old meet": "00:00:30\nBo: Bye.\n",
    "aider": "\n# aider chat started at 2024-05-06 10:00:00\n\n#### Bye.  \n",
    "cursor": "\n**User**\n\nBye.\n",
    "specstory": "\n_**User (2024-05-05 10:02Z)**_\n\nBye.\n",
}


@each_row("program", MORE)
def test_a_longer_export_gives_the_old_turns_their_old_names(program: str) -> None:
    text = MEETINGS.get(program) or CHATS[program][0]
    before, after = (
        [
            (one.turn.session_id, one.turn.turn_id, one.turn.messages)
            for one in read(told)
            if isinstance(one, ParsedTurn)
        ]
        for told in (text, text + MORE[program])
    )
    assert after[:-1] == before
    assert [getattr(said, "content", None) for said in after[-1][2]] == ["Bye."]


@each_row(
    "text",
    [
        "Breakfast  8:00\nin the hall\n\nLunch  12:00\nin the hall\n",
        "# The editor Cursor\n\n**User**\n\nwho uses it\n",
        "1\n2\n3\n",
        "[Kim] 10:00:05\n[Bo] 10:00:06\n",
        "[INFO] 10:00:05 started\n[INFO] 10:00:06 stopped\n",
        "# aider\n\n#### Usage  \n",
    ],
)
def test_a_text_that_only_looks_like_one_is_not_taken_for_it(text: str) -> None:
    assert detect_format(text.encode()) is None


def test_the_formats_are_known_by_how_they_begin() -> None:
    forms = [detect_format(text.encode()) for text in (*MEETINGS.values(), AIDER, CURSOR, SPECSTORY)]
    assert forms == [
        *[Format.CAPTIONS] * 3,
        Format.OTTER,
        *[Format.MEET] * 2,
        Format.AIDER,
        Format.CURSOR,
        Format.SPECSTORY,
    ]


MAIL = "From: Kim <kim@example.org>\nTo: Bo <bo@example.org>\nSubject: the canoe\n\n"
#: Files in forms that are not read, and what their refusal names.
REFUSED: dict[bytes, str] = {
    b"PK\x03\x04" + b"\0" * 26 + b"_chat.txt": "ZIP",
    b"PK\x03\x04" + b"\0" * 26 + b"[Content_Types].xml": "Word",
    b"\x1f\x8b\x08": "decompress",
    b"\x28\xb5\x2f\xfd": "decompress",
    b"SQLite format 3\0": "Cursor",
    b"%PDF-1.7\n": "PDF",
    b"\x89PNG\r\n\x1a\n": "picture",
    b"\0\0\0\x18ftypmp42": "film",
    "Kim: hi\nBo: hi\n".encode("utf-16-le"): "UTF-16",
    b"<!DOCTYPE html>\n<html><body>Kim: hi</body></html>": "HTML",
    MAIL.encode(): "mail",
    b"From kim@example.org Sun May  5 10:00:00 2024\n" + MAIL.encode() + b"Kim: hi\nBo: hi\n" * 9: "mail",
    b"BEGIN:VCARD\nFN:Kim\nEND:VCARD\n": "card",
    b'{"id": "resp_1", "object": "response", "output": []}': "OpenAI",
    b'{"display":"hi","pastedContents":{},"timestamp":1,"project":"/w"}\n': "typed",
    b'{"session_id":"0199-a","ts":1714903200,"text":"hi"}\n': "typed",
    b"\n# 2024-05-05 10:00:00.123456\n+hi\n": "typed",
    b"timestamp,role,content\n2024-05-05,user,hi\n": "CSV",
    b"[10:00] <kim> hi\n[10:01] <bo> hi\n": "Name: text",
    b"[00:00:01] Kim: hi\n[00:00:03] Bo: hi\n": "time before each name",
    b"[05/05/2024 10:00 AM] kim\nhi\n\n[05/05/2024 10:01 AM] bo\nhi\n": "Discord",
    b"## User\n\nhi\n\n## Assistant\n\nhi\n": "Markdown",
    b"**User:** hi\n\n**Assistant:** hi\n": "Markdown",
}


@each_row("raw", REFUSED)
def test_a_form_that_is_not_read_is_named_with_what_to_do(raw: bytes) -> None:
    assert detect_format(raw) is None
    assert REFUSED[raw] in (name_refused(raw) or "")


@each_row("raw", [b"", b"I sold the canoe.\n", b"name: app\nversion: 2\n", b'{"a": 1}', "Gr\u00fc\u00dfe\n".encode()])
def test_what_is_not_known_has_no_other_name(raw: bytes) -> None:
    assert name_refused(raw) is None


@each_row("encoding", ["utf-16", "utf-16-be", "utf-8-sig", "utf-8"])
def test_a_file_in_utf_16_is_read_as_one_in_utf_8(encoding: str) -> None:
    text = "Kim: Gr\u00fc\u00dfe \U0001f6f6\r\nBo: hi\r\n" * 9_000
    raw = (codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b"") + text.encode(encoding)
    stream = read_as_utf8(cast(BinaryIO, io.BufferedReader(io.BytesIO(raw), 1_000)), 1_000)
    assert stream.read().removeprefix(codecs.BOM_UTF8) == text.encode()


def test_half_a_character_in_utf_16_loses_its_line_alone() -> None:
    raw = (
        codecs.BOM_UTF16_LE
        + "Kim: hi\nKim: ".encode("utf-16-le")
        + b"\x3d\xd8"
        + "\nBo: hi\nKim: a".encode("utf-16-le")
        + b"x"
    )
    stream = read_as_utf8(cast(BinaryIO, io.BufferedReader(io.BytesIO(raw))), 1_000)
    found = list(parse_file(stream, Format.TRANSCRIPT, SessionChoice("talk.txt")))
    assert [(one.line, type(one)) for one in found] == [(1, ParsedTurn), (2, BadLine), (3, ParsedTurn), (4, BadLine)]
