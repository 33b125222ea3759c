"""A project's folder as the file engine of the memory tools writes it: both layouts mixed, an archive, bad lines."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deploy.cli.compression import zstd

#: The reasons of every kind of bad record in `write_bad_session`, by file and line.
BAD = {
    ("events/archive/2026/03/01/log-20260301.jsonl.zst", 1): "not a zstd archive, or a damaged one",
    ("events/archive/2026/03/02/log-20260302.jsonl.zst", 1): "the archive is cut off",
    ("events/raw/2026/03/03/log-20260303.jsonl", 2): "not UTF-8 (byte 1 of the line)",
    ("events/raw/2026/03/03/log-20260303.jsonl", 3): "holds a NUL character",
    ("events/raw/2026/03/03/log-20260303.jsonl", 4): "longer than 2097152 bytes",
    ("events/raw/2026/03/03/log-20260303.jsonl", 5): "not a JSON object",
    ("events/raw/2026/03/03/log-20260303.jsonl", 6): "not an event of the engine: its type is unknown",
    ("events/raw/2026/03/03/log-20260303.jsonl", 7): "an event without turn_id",
    ("events/raw/2026/03/03/log-20260303.jsonl", 8): "an event without an item",
    ("events/raw/2026/03/03/log-20260303.jsonl", 9): "an event without a time (ts)",
    ("events/raw/2026/03/03/log-20260303.jsonl", 10): "another item under the id of an event before it",
    ("events/raw/2026/03/03/log-20260303.jsonl", 11): "not JSON (expecting value, column 10)",
    ("indexes/active_facts.json", 0): "not JSON (expecting value, column 11)",
    ("memory_tiers/L0/2026/03/facts-202603.jsonl", 2): "a fact without fact_id and key",
    ("memory_tiers/L0/2026/03/facts-202603.jsonl", 3): "a fact without a value",
    ("memory_tiers/L0/2026/03/facts-202603.jsonl", 4): "not a record of a fact: its type is unknown",
}


def say(text: str, role: str = "user") -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def log_turn(turn: str, at: str, given: Sequence[Any], output: Sequence[Any] = (), user: str = "alice") -> list[Any]:
    """The events of a turn, as AfterTurn appends them."""
    kinds = (("in", "input_item", given), ("out", "output_item", output))
    return [
        {"id": f"{turn}-{side}-{n}", "ts": at, "type": kind, "turn_id": turn, "user_id": user, "item": item}
        for side, kind, items in kinds
        for n, item in enumerate(items)
    ]


def fact(turn: str, name: str, key: str, value: str, **more: Any) -> dict[str, Any]:
    """A record of a fact that holds."""
    return {
        "id": f"{turn}-fact-{key}",
        "ts": "2026-03-01T09:00:00Z",
        "type": "fact_upsert",
        "fact_id": name,
        "key": key,
        "value": value,
        "confidence": 0.9,
        "tier": "L0",
        "state": "active",
        "source_turn_id": turn,
        "source_user_id": "alice",
        **more,
    }


def lines(records: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def write(session: Path, place: str, data: bytes) -> None:
    file = session / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


CALL = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}", "metadata": {"item_id": "i1"}}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "gate 12"}


def write_canonical_session(session: Path) -> None:
    """Two days, of which the first is archived; everything is in the legacy log, too; facts of a rule and a model."""
    first = log_turn("m1", "2026-03-01T09:00:00Z", [say("My name is Alice.")], [say("Hello Alice", "assistant")])
    second = log_turn("m2", "2026-03-02T09:00:00Z", [say("Which gate?")], [CALL, RESULT, say("Gate 12", "assistant")])
    told = {"id": "compact-20260302T090500.1", "ts": "2026-03-02T09:05:00Z", "type": "compact_summary", "summary": "2"}
    write(session, "events/archive/2026/03/01/log-20260301.jsonl.zst", zstd.compress(lines(first)))
    write(session, "events/raw/2026/03/02/log-20260302.jsonl", lines([*second, second[0]]))
    write(session, "events/compact/2026/03/02/compact-20260302.jsonl", lines([told]))
    write(session, "runtime/context/current.jsonl", lines([told, *second]))
    write(session, "log.jsonl", lines([*first, *second]))
    held = {
        "user_name::name": fact("m1", "user_name", "name", "alice"),
        "user_allergy::allergy": fact("m2", "user_allergy", "allergy", "peanuts", id="m2-llm-0123456789ab"),
        "user_like::like": fact("m0", "user_like", "like", "hiking", tier="L2", expires_at="not a time"),
        "today_task::task": fact("m1", "today_task", "task", "milk", tier="L1", expires_at="2026-03-02T00:00:00Z"),
        "user_pet::pet": fact("m1", "user_pet", "pet", "a cat", state="superseded"),
    }
    write(session, "indexes/active_facts.json", json.dumps({"updated_at": "x", "facts": held}).encode())
    write(session, "meta/state.json", b'{"version": 1, "latest_turn_id": "m2", "processed_turn_ids": ["m1", "m2"]}')
    write(session, "memory_tiers/.abstract", b"a text with the path")


def write_legacy_session(session: Path) -> None:
    """The legacy files alone, with the older form of meta."""
    turns = log_turn("t1", "2026-03-01T10:00:00Z", [say("The boiler is serviced in May.")], user="bob")
    write(session, "log.jsonl", lines(turns))
    write(session, "context.jsonl", lines(turns))
    facts = [
        fact("t1", "user_home", "home", "Kiel", id="t1-llm-0", source_user_id="bob"),
        fact("t1", "user_home", "home", "Kiel", id="t1-llm-0", source_user_id="bob"),
        fact("t1", "user_home", "home", "Kiel", id="t2-fact_supersede-0", type="fact_supersede"),
        fact("t2", "user_home", "home", "Bremen", id="t2-fact-home", source_user_id="bob"),
        fact("t1", "user_dog", "dog", "Rex", id="t1-llm-1"),
        {**fact("t3", "user_dog", "dog", "", id="t3-gone"), "type": "fact_delete", "ts": "2026-03-02T09:00:00Z"},
    ]
    write(session, "memory_facts.jsonl", lines(facts))
    write(session, "meta.json", b'{"processed_turn": ["t1"]}')


def write_bad_session(session: Path) -> None:
    """An older turn in the legacy log, a newer one in a shard, and a bad record of each kind around them."""
    write(session, "log.jsonl", lines(log_turn("w1", "2026-03-01T08:00:00Z", [say("The key is under the mat.")])))
    good = log_turn("w2", "2026-03-03T08:00:00Z", [say("The cat is called Tom.")])[0]
    write(session, "events/archive/2026/03/01/log-20260301.jsonl.zst", b"not an archive")
    cut = zstd.compress(lines(log_turn("w0", "2026-03-02T08:00:00Z", [say("Lost."), say("Lost too.")])))
    write(session, "events/archive/2026/03/02/log-20260302.jsonl.zst", cut[: len(cut) - 9])
    bad = [
        b"\xff\xfe",
        b'{"id": "a\0"}',
        b'"' + b"x" * 2_097_152 + b'"',
        b"[]",
        json.dumps(good | {"id": "x1", "type": "note"}).encode(),
        json.dumps(good | {"id": "x2", "turn_id": " "}).encode(),
        json.dumps(good | {"id": "x3", "item": None}).encode(),
        json.dumps(good | {"id": "x4", "ts": "yesterday"}).encode(),
        json.dumps(good | {"item": say("Another.")}).encode(),
        b'{"type": ',
    ]
    write(session, "events/raw/2026/03/03/log-20260303.jsonl", lines([good]) + b"\n".join(bad))
    write(session, "indexes/active_facts.json", b'{"facts": ')
    facts = [
        fact("w2", "user_cat", "cat", "Tom", id="w2-llm-0"),
        fact("w2", "", " ", "nobody", id="w2-llm-1"),
        fact("w2", "user_cat", "cat", " ", id="w2-llm-2"),
        fact("w2", "user_cat", "cat", "Kim", id="w2-llm-3", type="fact_guess"),
    ]
    write(session, "memory_tiers/L0/2026/03/facts-202603.jsonl", lines(facts))


def write_project(folder: Path) -> Path:
    """Write three sessions, and folders and links that are none."""
    memory = folder / "memory"
    write_canonical_session(memory / "monday")
    write_legacy_session(memory / "tuesday")
    write_bad_session(memory / "wednesday")
    (memory / "empty").mkdir()
    (memory / "elsewhere").symlink_to(memory / "monday")
    return folder
