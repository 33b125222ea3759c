"""light-portal's form of an export: what becomes of each table and field, and back."""

import io
import json
import re
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from store import identity
from store.errors import SnapshotRefused
from store.log.catalog import AGGREGATES, COLUMNS, EVENTS, Aggregate, EventType, aggregate_id
from store.snapshot import portal_document
from store.snapshot.events import UnreadableEvent, read_event
from store.snapshot.portal_document import CHUNK, iterate_document
from store.snapshot.portal_form import KEPT, MOST_WAITING, Conversion, from_portal, to_portal
from store.text.redaction import Redaction
from tests.tables import each_row

HOST, THEIRS = identity.host_id("acme"), UUID("01964b05-552a-7c4b-9184-6857e7f3dc5f")
BANK, DOC, UNIT, OTHER, ENTITY, SESSION = (UUID(int=n) for n in range(1, 7))
AT = "2026-03-01T12:00:00+00:00"
PAGE = (Path(__file__).parents[3] / "docs/snapshots.md").read_text(encoding="utf-8")
#: Fields that the page says are dropped, and the tables whose events had them.
DROPPED = re.findall(r"^\| `(\w+)` \| (agent_\w+(?:, agent_\w+)*) \|", PAGE, re.MULTILINE)


def rows(**more: list[dict[str, Any]]) -> dict[str, Any]:
    """An export of the platform's tables, children before their parents."""
    of = {"bankId": str(BANK), "hostId": str(THEIRS), "updateTs": AT, "active": True}
    unit = {**of, "content": "Ann Moore lives in Porto.", "factType": "world", "eventDate": AT, "embedding": [0.1]}
    tables = {
        "agent_memory_link_t": [
            {**of, "fromUnitId": str(UNIT), "toUnitId": str(OTHER), "linkType": "semantic", "weight": 0.5}
        ],
        "agent_memory_unit_entity_t": [{"bankId": str(BANK), "unitId": str(UNIT), "entityId": str(ENTITY)}],
        "agent_memory_entity_t": [{**of, "entityId": str(ENTITY), "canonicalName": "Ann Moore", "metadata": {}}],
        "agent_memory_unit_t": [
            {**unit, "unitId": str(OTHER), "docId": str(DOC)},
            {**unit, "unitId": str(UNIT), "aggregateVersion": 7},
        ],
        "agent_memory_doc_t": [{**of, "docId": str(DOC), "originalText": "Ann Moore lives in Porto."}],
        "agent_session_history_t": [
            {**of, "sessionId": str(SESSION), "messages": [{"role": "user", "content": "Hello."}], "metadata": {}}
        ],
        "agent_memory_entity_cooccur_t": [{**of, "entityId1": str(ENTITY), "entityId2": str(UUID(int=9))}],
        "agent_memory_bank_t": [{**of, "bankName": "notes", "disposition": {"empathy": 4}, "aggregateVersion": 3}],
        **more,
    }
    return {"sourceHostId": str(THEIRS), "tables": {name: {"rows": found} for name, found in tables.items()}}


def convert(document: Any, redaction: Redaction = Redaction.KEYS) -> tuple[list[dict[str, Any]], Conversion]:
    done, items = Conversion(), iterate_document(io.BytesIO(json.dumps(document, indent=1).encode()))
    with tempfile.TemporaryDirectory() as folder:
        return [*from_portal(items, HOST, redaction, done, Path(folder))], done


def test_rows_become_events_of_this_tenant_parents_first_with_their_versions() -> None:
    events, done = convert(rows())
    assert [one["aggregatetype"] for one in events] == [
        *("AgentMemoryBank", "AgentMemoryDoc", "AgentMemoryUnit", "AgentMemoryUnit", "AgentMemoryEntity"),
        *("AgentMemoryUnitEntity", "AgentMemoryLink", "AgentSessionHistory"),
    ]
    assert (done.counts["events"], done.counts["leftOut"], done.named) == (8, 1, [])
    assert {one["data"].get("unitId"): one["aggregateversion"] for one in events[2:4]} == {str(UNIT): 7, str(OTHER): 1}
    for one in events:
        assert read_event(one, HOST).subject == one["subject"]
    assert "embedding" not in json.dumps(events)


def test_converting_twice_gives_the_same_whatever_the_order_of_the_rows() -> None:
    document, turned = rows(), rows()
    turned["tables"]["agent_memory_unit_t"]["rows"].reverse()
    assert json.dumps(convert(document)[0]) == json.dumps(convert(turned)[0]) == json.dumps(convert(document)[0])


def test_ended_rows_and_their_children_stay_behind_and_broken_ones_are_named() -> None:
    ended = rows()
    ended["tables"]["agent_memory_unit_t"]["rows"][1]["active"] = False
    ended["tables"]["agent_memory_doc_t"]["rows"][0]["docId"] = "none"
    ended["tables"]["agent_session_history_t"]["rows"][0]["updateTs"] = "yesterday"
    events, done = convert(ended)
    assert [one["aggregatetype"] for one in events] == ["AgentMemoryBank", "AgentMemoryEntity"]
    assert (done.counts["inactive"], done.counts["orphaned"], done.counts["refused"]) == (1, 3, 2)
    assert [one.split(":")[0] for one in done.named] == ["agent_memory_doc_t row 1", "agent_session_history_t row 1"]


def test_secrets_in_texts_are_replaced() -> None:
    told = rows()
    key = "sk-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    told["tables"]["agent_memory_unit_t"]["rows"][0]["content"] = f"The key is {key}"
    assert key not in json.dumps(convert(told)[0])
    assert key in json.dumps(convert(told, Redaction.OFF)[0])


@each_row(
    "document, why",
    [
        ({}, "no `tables`"),
        ("x", "no `tables`"),
        ({"tables": {"agent_memory_bank_t": []}}, "no list `rows`"),
        ({"tables": {"agent_memory_bank_t": {"rows": [1]}}}, "no list `rows`"),
        ({"tables": {"user_t": {"rows": []}}}, "'user_t'"),
    ],
)
def test_another_document_is_refused(document: Any, why: str) -> None:
    with pytest.raises(SnapshotRefused, match=why):
        convert(document)


@each_row("raw", ["", "[1", "[1,]", "[1] 2", '{"tables": {"agent_memory_bank_t": {"rows": [{}', "\xff", "{1: 2}"])
def test_what_is_no_json_is_refused(raw: str) -> None:
    with pytest.raises(SnapshotRefused, match="no JSON document"):
        [*iterate_document(io.BytesIO(raw.encode("latin-1")))]


@each_row("chunk", [1, 2, 7])
def test_a_document_is_the_same_however_it_is_read(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    document = {"made": [1.5e3, -12, None, True, "ä\U0001f600"], **rows(), "after": {}}
    wanted = [(one.table, one.told) for one in iterate_document(io.BytesIO(json.dumps(document).encode()))]
    monkeypatch.setattr(portal_document, "CHUNK", chunk)
    for raw in (
        json.dumps(document),
        json.dumps(document, indent=2, ensure_ascii=False),
        f"\ufeff{json.dumps(document)}",
    ):
        assert [(one.table, one.told) for one in iterate_document(io.BytesIO(raw.encode()))] == wanted
    assert [one.told for one in iterate_document(io.BytesIO(b" [12, 3.25 ,\n{}]\n"))] == [12, 3.25, {}]


class EndlessExport(io.RawIOBase):
    """An export of so many units, made while it is read; `largest` is the most that was asked for at once."""

    def __init__(self, units: int) -> None:
        self._left, self._parts, self.largest = b"", self._make(units), 0

    def _make(self, units: int) -> Iterator[bytes]:
        of = {"hostId": str(THEIRS), "updateTs": AT, "active": True, "bankId": str(BANK)}
        yield json.dumps({"tables": {"agent_memory_bank_t": {"rows": [{**of, "bankName": "notes"}]}}})[:-2].encode()
        yield b', "agent_memory_unit_t": {"rows": ['
        for n in range(units):
            told = {**of, "unitId": str(UUID(int=n + 9)), "content": f"{n} {'x' * 500}", "factType": "world"}
            yield (b"," if n else b"") + json.dumps({**told, "eventDate": AT}).encode()
        yield b"]}}}"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self.largest = max(self.largest, size if size >= 0 else 1 << 60)
        while len(self._left) < size and (more := next(self._parts, b"")):
            self._left += more
        told, self._left = self._left[:size], self._left[size:]
        return told


def test_memory_stays_flat_however_many_rows_an_export_has(tmp_path: Path) -> None:
    peaks = list[int]()
    for units in (500, 2_500):
        (folder := tmp_path / str(units)).mkdir()
        export, done = EndlessExport(units), Conversion()
        items = iterate_document(export)  # type: ignore[arg-type]  # a raw file
        tracemalloc.start()
        count = sum(1 for _ in from_portal(items, HOST, Redaction.OFF, done, folder))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (count, done.counts["refused"], export.largest) == (units + 1, 0, CHUNK)
    # What the larger export has more is 1.3 MB of text, and ten times as much in Python's objects.
    assert peaks[1] - peaks[0] < 500_000, peaks


def test_an_empty_export_is_an_empty_snapshot() -> None:
    assert convert({"tables": {}})[0] == convert([])[0] == []


def event(kind: EventType, version: int = 1, **data: Any) -> dict[str, Any]:
    spec = EVENTS[kind]
    ids = [data[name] for name in AGGREGATES[spec.aggregate].ids]
    return {
        "specversion": "1.0",
        "id": str(uuid4()),
        "source": "/afterturn",
        "type": kind.value,
        "subject": aggregate_id(HOST, BANK, *ids),
        "time": AT,
        "host": str(HOST),
        "user": str(uuid4()),
        "nonce": 12,
        "aggregatetype": spec.aggregate.value,
        "aggregateversion": version,
        "data": {"hostId": str(HOST), "bankId": str(BANK), **data},
        "laidDown": "an extension",
    }


def test_an_events_version_is_read_in_each_spelling_and_its_subject_and_kind_are_derived() -> None:
    told = event(EventType.BANK_UPDATED, 7, bankName="notes")
    for name in ("aggregateversion", "subject", "aggregatetype"):
        told.pop(name)
    for spelt, version in (({"aggregateversion": "7"}, 7), ({"aggregateVersion": 7}, 7), ({}, 1)):
        read = read_event({**told, **spelt}, HOST)
        assert (read.version, read.subject, read.aggregate) == (version, f"{HOST}|{BANK}", "AgentMemoryBank")
        assert read.metadata == {"laidDown": "an extension"}


def test_ids_are_kept_as_the_log_spells_them_and_a_subject_in_another_spelling_is_refused() -> None:
    of = UUID("0a964b05-552a-7c4b-9184-6857e7f3dc5f")
    told = unit(of, "kept between us")
    data = {**told["data"], "unitId": str(of).upper(), "bankId": f"{{{BANK}}}"}
    read = read_event({**told, "id": told["id"].upper(), "data": data}, HOST)
    assert (read.id, read.subject, read.bank) == (told["id"], told["subject"], BANK)
    assert "kept between us" not in repr(read)
    for subject in (f"{HOST}|{BANK}|{str(of).upper()}", f"{HOST}|{BANK}", told["subject"] + "|", None, [of]):
        with pytest.raises(UnreadableEvent, match="subject: is another than its data"):
            read_event({**told, "data": data, "subject": subject}, HOST)


@pytest.mark.parametrize("value", ["a\x00b", "\ud800", 2**64, float("nan")])
@pytest.mark.parametrize("name", ["source", "traceparent", "of"])
def test_an_extension_that_the_log_cannot_hold_is_refused(name: str, value: object) -> None:
    with pytest.raises(UnreadableEvent, match="extensions: "):
        read_event({**unit(UNIT, "Hello."), name: [value]}, HOST)


def messages(*units: UUID) -> list[dict[str, Any]]:
    return [{"unitId": str(one), "role": "user", "timestamp": AT} for one in units]


def unit(of: UUID, content: str, version: int = 1) -> dict[str, Any]:
    more = {"turnName": "t", "sessionName": "s", "parts": "[]", "expiresAt": AT, "origin": "message"}
    kind = EventType.UNIT_RETAINED if version == 1 else EventType.UNIT_UPDATED
    return event(kind, version, unitId=str(of), content=content, eventDate=AT, factType="experience", **more)


def portal(*events: dict[str, Any]) -> tuple[list[dict[str, Any]], Conversion]:
    done = Conversion()
    return [*to_portal(events, done)], done


def test_events_keep_their_order_ids_and_versions_and_lose_what_has_no_place_there() -> None:
    long = "n" * 200
    bank = event(EventType.BANK_CREATED, bankName=long, expiresAt=AT)
    appended = event(
        EventType.SESSION_APPENDED, 2, sessionId=str(SESSION), messages=messages(UNIT, OTHER), turnName="t"
    )
    erased = event(EventType.UNIT_DELETED, 3, unitId=str(UNIT), erased=True)
    given = [bank, appended, unit(UNIT, "Hello."), unit(OTHER, "Good day."), unit(UNIT, "Hi.", 2), erased]
    told, done = portal(*given)
    assert [one["id"] for one in told] == [one["id"] for one in given[:-1]]
    assert [one["aggregateversion"] for one in told] == [1, 2, 1, 1, 2]
    assert [(one["role"], one["content"]) for one in told[1]["data"]["messages"]] == [
        ("user", "Hello."),
        ("user", "Good day."),
    ]
    assert len(told[0]["data"]["bankName"]) <= 126
    assert done.counts["erased"] == 1
    assert done.counts["dropped.turnName"] == 4
    assert all(one["data"].keys() <= KEPT[Aggregate(one["aggregatetype"])] | COLUMNS for one in told)
    assert not any("laidDown" in one for one in told)


def test_a_message_whose_unit_is_not_in_the_snapshot_is_left_out_and_counted() -> None:
    appended = event(EventType.SESSION_APPENDED, 2, sessionId=str(SESSION), messages=messages(UNIT))
    others = [unit(UUID(int=100 + n), "x") for n in range(MOST_WAITING + 1)]
    told, done = portal(appended, *others)
    assert told[0]["data"]["messages"] == []
    assert done.counts["dropped.messages"] == 1
    assert len(told) == len(others) + 1


def test_what_the_platform_gets_it_may_send_back() -> None:
    given = [
        event(EventType.BANK_CREATED, bankName="notes"),
        event(EventType.SESSION_CREATED, sessionId=str(SESSION)),
        event(EventType.SESSION_APPENDED, 2, sessionId=str(SESSION), messages=messages(UNIT)),
        unit(UNIT, "Hello."),
        event(EventType.SESSION_APPENDED, 3, sessionId=str(SESSION), messages=[{"role": "user", "content": "More."}]),
        unit(UNIT, "Hi.", 2),
        unit(OTHER, "Good day."),
        event(EventType.UNIT_DELETED, 2, unitId=str(OTHER)),
    ]
    told, _ = portal(*given)
    back, done = convert([*told, {"type": "AgentMemoryCreatedEvent"}, 7])
    assert [(one["aggregatetype"], one["aggregateversion"]) for one in back] == [
        ("AgentMemoryBank", 1),
        ("AgentMemoryUnit", 2),
        ("AgentSessionHistory", 3),
    ]
    assert back[1]["data"]["content"] == "Hi."
    assert [one["content"] for one in back[2]["data"]["messages"]] == ["Hello.", "More."]
    assert (done.counts["inactive"], done.counts["refused"]) == (1, 2)


@each_row("aggregate", Aggregate)
def test_every_field_of_every_event_is_kept_or_named_as_dropped_by_the_page(aggregate: Aggregate) -> None:
    models: set[type[BaseModel]] = {spec.model for spec in EVENTS.values() if spec.aggregate is aggregate}
    fields = {field.alias or name for model in models for name, field in model.model_fields.items()}
    dropped = {name for name, tables in DROPPED if AGGREGATES[aggregate].table in tables.split(", ")}
    assert fields - COLUMNS == KEPT[aggregate] | dropped
    assert not KEPT[aggregate] & dropped
