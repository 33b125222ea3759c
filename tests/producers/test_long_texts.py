"""Work on long texts leaves the event loop, whatever brings them: who else is served does not wait for it."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from store import off_loop
from store.derived import postings
from store.memory import documents, offered_turns
from store.recall import meaning, pool, preparation, recaller
from tests.patience import PATIENCE_S
from tests.producers.conftest import Tenant
from tests.tables import each_row

PARAGRAPH = "The boiler is serviced in May, and its key hangs behind the green door. "
LONG = PARAGRAPH * (2 * off_loop.LONG_CHARACTERS // len(PARAGRAPH))


class Places:
    """Where work was done: in the loop's own thread or in another."""

    def __init__(self) -> None:
        self.in_loop: set[bool] = set()

    def watch(self, patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        work: Callable[..., object] = getattr(module, name)

        def watched(*args: object, **named: object) -> object:
            self.in_loop.add(threading.current_thread() is threading.main_thread())
            return work(*args, **named)

        patch.setattr(module, name, watched)


@pytest.fixture
def places() -> Places:
    return Places()


async def say(ana: Tenant, turn_id: str, content: str) -> None:
    turn = {"session_id": "s", "turn_id": turn_id, "messages": [{"role": "user", "content": content}]}
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201


async def test_work_in_a_thread_goes_on_when_the_loop_has_done_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(off_loop, "TURN_S", 0.0)
    begun, done = threading.Event(), list[int]()

    def work() -> int:
        for nth in range(1_000):
            done.append(nth)
            begun.set()
            off_loop.give_way()
        return len(done)

    working = asyncio.create_task(off_loop.run_off_loop(off_loop.LONG_CHARACTERS, work))
    await asyncio.sleep(0)
    assert begun.wait(PATIENCE_S)  # the loop itself waits here
    before = len(done)
    threading.Event().wait(0.05)
    assert (before, len(done)) == (1, 1)
    assert await working == 1_000


@each_row("size", [0, 10, off_loop.PIECE, 3 * off_loop.PIECE])
def test_pieces_of_a_text_are_the_text_and_end_at_spaces(size: int) -> None:
    text = ("word " * size)[:size]
    pieces = list(off_loop.cut_at_spaces(text))
    assert "".join(pieces) == text
    assert all(piece.startswith(" ") for piece in pieces[1:])
    assert len(pieces) == max(1, -(-size // (off_loop.PIECE + len("word "))))


@pytest.mark.parametrize("text, in_loop", [(PARAGRAPH, True), (LONG, False)], ids=["short", "long"])
async def test_a_turn_is_cut_into_words(
    ana: Tenant, monkeypatch: pytest.MonkeyPatch, places: Places, text: str, *, in_loop: bool
) -> None:
    places.watch(monkeypatch, offered_turns, "analyse_message")
    await say(ana, "1", text)
    assert places.in_loop == {in_loop}


@pytest.mark.parametrize("text, in_loop", [(PARAGRAPH, True), (LONG, False)], ids=["short", "long"])
async def test_a_document_is_cut_into_units_and_these_into_words(
    ana: Tenant, monkeypatch: pytest.MonkeyPatch, places: Places, text: str, *, in_loop: bool
) -> None:
    places.watch(monkeypatch, documents, "split_chunks")
    places.watch(monkeypatch, offered_turns, "analyse_text")
    assert (await ana.http.post("/api/v1/docs", json={"content": text})).status_code == 201
    assert places.in_loop == {in_loop}


async def test_the_same_document_again_is_not_read_again(
    ana: Tenant, monkeypatch: pytest.MonkeyPatch, places: Places
) -> None:
    first = (await ana.http.post("/api/v1/docs", json={"content": LONG})).json()
    places.watch(monkeypatch, offered_turns, "analyse_text")
    again = await ana.http.post("/api/v1/docs", json={"content": LONG})
    assert (again.status_code, again.json()) == (200, first | {"duplicate": True})
    assert places.in_loop == set()


async def test_a_correction_is_cut_into_words(ana: Tenant, monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    await say(ana, "1", PARAGRAPH)
    [found] = (await ana.http.post("/api/v1/recall", json={"query": "boiler"})).json()["results"]
    places.watch(monkeypatch, postings, "analyse_message")
    unit = await ana.http.patch(f"/api/v1/units/{found['unit_id']}", json={"content": LONG})
    assert unit.json()["changed"] is True
    assert places.in_loop == {False}


async def test_a_long_question_is_taken_apart(ana: Tenant, monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    await say(ana, "1", PARAGRAPH)
    places.watch(monkeypatch, recaller, "parse_question")
    places.watch(monkeypatch, meaning, "put_in_first_person")
    assert (await ana.http.post("/api/v1/recall", json={"query": LONG[:8000]})).status_code == 200
    assert places.in_loop == {False}


async def test_a_long_question_is_put_anew(ana: Tenant, monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    said = [{"role": "user", "name": "Katherine", "content": PARAGRAPH}]
    turn = {"session_id": "s", "turn_id": "1", "messages": said}
    assert (await ana.http.post("/api/v1/turns", json=turn)).status_code == 201
    places.watch(monkeypatch, preparation, "parse_question")
    asked = f"What does Kahterine say? {LONG}"[:8000]
    assert (await ana.http.post("/api/v1/recall", json={"query": asked})).status_code == 200
    assert places.in_loop == {False}


async def test_many_long_texts_are_ranked(ana: Tenant, monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    for n in range(25):
        await say(ana, str(n), f"{n} {LONG}")
    places.watch(monkeypatch, pool, "split_questions")
    assert (await ana.http.post("/api/v1/recall", json={"query": "When is the boiler serviced?"})).status_code == 200
    assert places.in_loop == {False}
