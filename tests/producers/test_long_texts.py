"""Work on long texts leaves the event loop, whatever brings them: who else is served does not wait for it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from store import off_loop
from store.derived import postings
from store.memory import documents, offered_turns
from store.recall import meaning, pool, preparation, recaller
from tests.producers.conftest import Tenant

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
