"""Attacks by content: few calls, each just within the documented limits or above them, and costly to process."""

import asyncio
import itertools
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import orjson

from deploy.lab.bench.attacks.attack import RequiredEnding, attack
from deploy.lab.bench.attacks.attacker import BANK, Attacker

KIB = 1024
MIB = 1024 * KIB
#: Words that are names of times: short, so that many fit into a text, and costly to interpret.
DAYS = "april may march june "
#: Length of most messages of an attack, in characters: under the limit of one message.
MESSAGE = 250 * KIB


def _repeat_words(size: int, words: str) -> str:
    return (words * (size // len(words) + 1))[:size]


def _make_names() -> Iterator[str]:
    syllables = [consonant + vowel for consonant in "bdfgklmnprstv" for vowel in "ao"]
    for parts in itertools.product(syllables, repeat=3):
        yield "".join(parts).capitalize()


async def _send_document(attacker: Attacker, **body: object) -> None:
    await attacker.call("POST", "/api/v1/docs", {"bank": BANK, **body})


@attack("document_metadata", "2 documents of 500 chunks with 768 KiB of metadata", RequiredEnding.BE_REFUSED)
async def _send_document_metadata(attacker: Attacker) -> None:
    prose = " ".join(f"Line {n}: the meeting about plan {n} was moved." for n in range(5000))
    metadata = {f"key{n}": "m" * 1024 for n in range(768)}
    await asyncio.gather(*(_send_document(attacker, content=f"{n} {prose}", metadata=metadata) for n in range(2)))


@attack("large_documents", "a document of 2 MiB three times")
async def _send_large_documents(attacker: Attacker) -> None:
    """Send a document of nearly 2 MiB twice at the same time, and once more afterwards."""
    content = "\n".join(f"Note {n}: Ana met Boris in Porto about plan {n}." for n in range(37_000))
    await asyncio.gather(_send_document(attacker, content=content), _send_document(attacker, content=content))
    await _send_document(attacker, content=content)


async def _make_bank(attacker: Attacker) -> None:
    await attacker.turn("Ana met Boris in Porto in April.")


@attack("time_words_in_questions", "4 questions of 16 KB of dates and of names", prepare=_make_bank)
async def _ask_time_words(attacker: Attacker) -> None:
    words = " ".join(itertools.islice(_make_names(), 1700))
    questions = (
        _repeat_words(16_000, DAYS),
        _repeat_words(16_000, "april "),
        _repeat_words(16_000, "in 1 may 2 "),
        words,
    )
    for question in questions:
        await attacker.recall(question, key=attacker.read_only_key)


async def _store_time_words(attacker: Attacker) -> None:
    for words in ("april ", DAYS, "last week "):
        await attacker.turn(*(_repeat_words(MESSAGE, words) for _ in range(4)))


@attack("time_words_in_texts", "4 short questions about a time to a bank of 3 MiB of dates", prepare=_store_time_words)
async def _recall_time_words(attacker: Attacker) -> None:
    for _ in range(4):
        await attacker.recall("what happened in april?", key=attacker.read_only_key)


@attack("deep_json", "JSON of 500,000 levels", RequiredEnding.BE_REFUSED)
async def _send_deep_json(attacker: Attacker) -> None:
    deep = b"[" * 500_000 + b"]" * 500_000
    objects = b'{"a":' * 200_000 + b"1" + b"}" * 200_000
    turn = b'{"bank":"attack","session_id":"s","turn_id":"deep","messages":[%s]}'
    message = turn % b'{"role":"user","content":[{"type":"a","b":%s}]}'
    for body in (deep, objects, message % deep, message % objects):
        await asyncio.gather(*(attacker.call("POST", "/api/v1/turns", body) for _ in range(4)))


@attack("turn_metadata", "a turn with 1 MiB of metadata", RequiredEnding.BE_REFUSED)
async def _send_turn_metadata(attacker: Attacker) -> None:
    await attacker.turn("hello", metadata={f"key{n}": "m" * KIB for n in range(1024)})


@attack("turn_metadata_within", "20 turns of 64 messages with 16 KiB of metadata")
async def _send_allowed_turn_metadata(attacker: Attacker) -> None:
    """Send turns of many short messages with as much metadata as a turn may have."""
    metadata = {f"key{n}": "m" * 1000 for n in range(16)}
    said = [f"line {n}" for n in range(64)]
    await attacker.keep_at(2, lambda: attacker.turn(*said, metadata=metadata), most=20)


async def _store_days(attacker: Attacker) -> None:
    """Store 2,000 turns, one an hour."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for first in range(0, 2000, 500):
        turns = [
            {
                "bank": BANK,
                **attacker.turn_of(f"Ana saw plan {n} at the lake."),
                "occurred_at": (begin + timedelta(hours=n)).isoformat(),
            }
            for n in range(first, first + 500)
        ]
        await attacker.call("POST", "/api/v1/turns:batch", {"turns": turns})


@attack("directives", "8 directives of 1 MiB, then 2 questions", RequiredEnding.BE_REFUSED)
async def _send_directives(attacker: Attacker) -> None:
    for n in range(8):
        body = {"bank": BANK, "name": f"rule {n}", "content": _repeat_words(MIB, f"Rule {n}: be kind. "), "priority": n}
        await attacker.call("POST", "/api/v1/directives", body)
    await asyncio.gather(*(attacker.recall("who is kind?", counted=False) for _ in range(2)))


@attack(
    "job_filters",
    "40 recall jobs with 1 MiB of filters, with a key that may only read",
    RequiredEnding.BE_REFUSED,
    prepare=_make_bank,
)
async def _send_job_filters(attacker: Attacker) -> None:
    """Create recall jobs with filters of 1 MiB, with a read-only key."""
    metadata = {f"key{n}": secrets.token_hex(32 * KIB) for n in range(16)}
    body = orjson.dumps({"bank": BANK, "query": "who?", "metadata": metadata, "ttl_s": 60})
    await attacker.keep_at(
        8, lambda: attacker.call("POST", "/api/v1/recall/jobs", body, key=attacker.read_only_key), most=40
    )


@attack("quoted_frames", "8 texts of 30 overlapping frames")
async def _send_quoted_frames(attacker: Attacker) -> None:
    """Send texts in which 30 quoted frames overlap, none of them ours, each as long as the text."""
    marks = [("\\" * n, tag) for n in range(1, 16) for tag in ("memory_reference", "memory_directives")]
    begins, ends = ("".join(f"{one}u003c{end}{tag}{one}u003e" for one, tag in marks) for end in ("", "/"))
    said = f"{begins}historical_memory standing_directives {_repeat_words(MESSAGE - 8 * KIB, 'words ')}{ends}"
    await attacker.keep_at(2, lambda: attacker.turn(said), most=8)


@attack("many_values", "8 bodies of 600,000 and 900,000 values", RequiredEnding.BE_REFUSED)
async def _send_many_values(attacker: Attacker) -> None:
    """Send bodies that are nothing but small values."""
    bodies = [b'{"messages":[%s{}]}' % (b"{}," * 600_000), b'{"turns":[%s0]}' % (b"0," * 900_000)]
    for path, body in zip(("/api/v1/turns", "/api/v1/turns:batch"), bodies, strict=True):
        await asyncio.gather(*(attacker.call("POST", path, body) for _ in range(4)))


@attack("statements", "a turn of 10,000 statements")
async def _send_statements(attacker: Attacker) -> None:
    """Send a turn in which each sentence states a fact."""
    likings = (f"I like {name.lower()}. " for name in _make_names())
    await attacker.worked_off(await attacker.turn("".join(itertools.islice(likings, 10_000))[:MESSAGE]))


@attack("large_turns", "4 turns of 1.7 MiB at once")
async def _send_large_turns(attacker: Attacker) -> None:
    """Send four turns of 7 messages of 250 KiB, each in a session of its own."""
    said = [_repeat_words(MESSAGE, f"Ana met Boris in Porto about plan {n}. ") for n in range(7)]
    await asyncio.gather(*(attacker.turn(*said) for _ in range(4)))


@attack("name_lists", "a turn of 24 KiB with 3,360 names")
async def _send_name_lists(attacker: Attacker) -> None:
    """Send a turn of 24 KiB that is nothing but names."""
    names = _make_names()
    said = (f"I met {', '.join(itertools.islice(names, 60))}." for _ in range(56))
    await attacker.worked_off(await attacker.turn(*said))


@attack("named_days", "8 questions at a time about a month to a bank of 2,000 turns", prepare=_store_days)
async def _ask_for_days(attacker: Attacker) -> None:
    ask = "What did Ana see at the lake in February 2026?"
    await attacker.keep_at(8, lambda: attacker.recall(ask, key=attacker.read_only_key))


@attack("entities", "a turn of 131 KiB with 16,384 names")
async def _send_entities(attacker: Attacker) -> None:
    """Send a turn of 64 messages with 256 names each: as many pairs of names as a turn can hold."""
    names = _make_names()
    said = (f"I met {', '.join(itertools.islice(names, 256))}." for _ in range(64))
    await attacker.worked_off(await attacker.turn(*said))


async def _fill_with_big_units(attacker: Attacker) -> None:
    """Store units as large as a message may be, and recall their ids."""
    for n in range(8):
        await attacker.turn(
            *(_repeat_words(MESSAGE, f"Ana met Boris in Porto about plan {n} of {m}. ") for m in range(7))
        )
    answer = await attacker.recall("Ana Boris Porto", k=50)
    if answer is not None and answer.is_success:
        attacker.units += [one["unit_id"] for one in answer.json()["results"]]


@attack("large_answers", "24 questions for 1,000,000 tokens of a bank of 14 MiB", prepare=_fill_with_big_units)
async def _request_large_answers(attacker: Attacker) -> None:
    await attacker.keep_at(4, lambda: attacker.recall("Ana Boris Porto", k=100, max_tokens=1_000_000), most=24)


async def _fill_session(attacker: Attacker) -> None:
    """Store a session of 126 messages of 250 KiB, more than half of them calls of functions and their outputs."""
    for n in range(18):
        said = [{"role": "user", "content": _repeat_words(MESSAGE, f"Line {m} of day {n}. ")} for m in range(3)]
        calls = [call for m in range(2) for call in _make_call(f"call-{n}-{m}")]
        body = {"bank": BANK, "session_id": "long", "turn_id": f"t{n}", "messages": [*said, *calls]}
        await attacker.call("POST", "/api/v1/turns", body)


def _make_call(call_id: str) -> list[dict[str, str]]:
    """Return a call of a function and its output."""
    called = {"type": "function_call", "name": "read", "arguments": _repeat_words(MESSAGE, f"{call_id} ")}
    output = {"type": "function_call_output", "output": _repeat_words(MESSAGE, f"{call_id} ")}
    return [{**one, "call_id": call_id} for one in (called, output)]


@attack("long_sessions", "24 prepared turns of a session of 31 MiB", prepare=_fill_session)
async def _prepare_turns(attacker: Attacker) -> None:
    body = {"bank": BANK, "session_id": "long", "turn_id": "next", "max_input_tok": 100}
    said = [{"type": "message", "role": "user", "content": "What was said on day 3?"}]
    await attacker.keep_at(
        4, lambda: attacker.call("POST", "/api/v1/turns/before", {**body, "current_input": said}), most=24
    )


@attack("corrections", "40 corrections of units of 250 KiB", prepare=_fill_with_big_units)
async def _send_corrections(attacker: Attacker) -> None:
    texts = itertools.count()

    async def correct() -> None:
        content = _repeat_words(MESSAGE, f"Carla met Daniel in Vienna about plan {next(texts)}. ")
        unit = attacker.units[attacker.number() % len(attacker.units)]
        await attacker.call("PATCH", f"/api/v1/units/{unit}?bank={BANK}", {"content": content})

    if attacker.units:
        await attacker.keep_at(4, correct, most=40)
