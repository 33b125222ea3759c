"""Recall on a real database with the real sentence model: what is said is found, and only by whom it may be."""

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from afterturn_client.contract.freshness import UNWRITTEN
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import ONE_PLAN, Settings
from store.memory.turns import NewMessage
from store.memory.units import Units
from store.recall import ranking, recaller
from store.recall.arms import query_arms
from store.recall.candidates import POOL
from store.recall.filters import filter_parameters
from store.recall.lexical import ANSWER, CONTEXT
from store.recall.query import RecallQuery
from store.recall.recaller import ARMS, Recaller
from store.recall.rules import RULES
from store.recall.settings import RecallSettings
from store.recall.state import BegunQuestion, RecallState
from tests.generations import add_retired, make_generation_live
from tests.patience import until
from tests.store.conftest import NOON, explain, new_host, rows
from tests.store.recall.conftest import BANK, Memory

CHATTER = (
    "The printer on the third floor is out of toner again.",
    "Our quarterly report goes to the board on Tuesday.",
    "I think the new coffee machine is far too loud.",
    "Could somebody water the plants while I am away?",
    "The parking garage will be closed for repairs.",
    "My train was late, so I missed the first meeting.",
    "The intern fixed the broken link on our home page.",
    "There were sandwiches for the whole team.",
    "The fire drill is planned for next month.",
    "Please update the shared calendar with your holidays.",
    "The heating in the small meeting room does not work.",
    "Someone left an umbrella at the reception.",
)


@pytest.mark.law("L4")
async def test_a_turn_is_found_by_its_word_as_soon_as_it_is_acknowledged(memory: Memory) -> None:
    await memory.say(*CHATTER)
    await memory.say("Remember the codeword: xylophonist.", session="s2")
    memory.settings = RecallSettings(fresh_tail_chunks=0)
    assert (await memory.texts("What about the xylophonist?"))[0] == "Remember the codeword: xylophonist."


@pytest.mark.law("L4")
async def test_a_turn_is_found_by_its_meaning_before_any_worker_saw_it(memory: Memory) -> None:
    await memory.say(*CHATTER)
    await memory.embed_all()
    await memory.say("Biscuit chewed up my slippers, that naughty puppy.", session="s2")
    found = await memory.texts("Which animal does the person own?", session_name="s2")
    assert "Biscuit chewed up my slippers, that naughty puppy." in found[:3]


@pytest.mark.law("L4")
async def test_the_newest_message_of_the_own_session_is_read_whatever_the_time(memory: Memory) -> None:
    await memory.say("an older thing", "the question", "the newest thing", session="mine")
    await memory.say("said later elsewhere", session="other")
    memory.settings = RecallSettings(fresh_tail_ms=0)
    await memory.ask("anything?", session_name="mine")
    assert memory.embedder.heard == [["anything?"], ["the newest thing", "the question"]]


@pytest.mark.law("L4")
async def test_the_fresh_tail_is_read_own_session_first_newest_first_and_only_as_time_allows(memory: Memory) -> None:
    await memory.say("mine 1", "mine 2", session="mine")
    await memory.say("other 1", "other 2", "other 3", session="other")
    memory.settings = RecallSettings(fresh_tail_ms=50)
    await memory.ask("anything?", session_name="mine")
    assert memory.embedder.heard == [["anything?"], ["mine 2", "mine 1", "other 3", "other 2"]]


@pytest.mark.law("L4")
async def test_the_fresh_tail_has_a_length(memory: Memory) -> None:
    await memory.say(*(f"message {n}" for n in range(10)))
    memory.settings = RecallSettings(fresh_tail_chunks=4, fresh_tail_ms=1000)
    await memory.ask("anything?")
    assert memory.embedder.heard == [["anything?"], ["message 9", "message 8", "message 7", "message 6"]]


@pytest.mark.law("L4")
async def test_while_far_more_waits_than_can_be_read_the_own_session_is_and_the_newest_of_others(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.say("mine 1", "mine 2", "mine 3", session="mine")
    await memory.say(*(f"other {n}" for n in range(5)), session="other")
    monkeypatch.setattr("store.recall.meaning.BACKLOG", 20)
    memory.settings = RecallSettings(fresh_tail_chunks=6, fresh_tail_ms=1000)
    await memory.ask("anything?", session_name="mine")
    assert memory.embedder.heard == [["anything?"], ["mine 3", "mine 2", "mine 1", "other 4", "other 3"]]


async def test_a_tail_that_can_be_read_whole_is_read_however_much_other_work_waits(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.say(*(f"message {n}" for n in range(5)))
    monkeypatch.setattr("store.recall.meaning.BACKLOG", 0)
    memory.settings = RecallSettings(fresh_tail_chunks=6, fresh_tail_ms=1000)
    await memory.ask("anything?")
    assert len(memory.embedder.heard[1]) == 5


@pytest.mark.law("L4")
async def test_what_is_undone_is_told_exactly_though_only_some_of_it_is_counted_before_the_search(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.say("one", "two", "three")
    whole = (await memory.ask("anything?")).freshness
    monkeypatch.setattr("store.recall.preparation.IN_PASSING", 2)
    assert (await memory.ask("anything?")).freshness == whole
    assert (whole.pending, whole.embedded < whole.position) == (9, True)


async def test_while_workers_lag_a_text_is_embedded_once_not_with_every_question(memory: Memory) -> None:
    await memory.say("one", "two", "three", "four")
    memory.settings = RecallSettings(fresh_tail_ms=30)
    for _ in range(3):
        answer = await memory.ask("anything?")
    assert memory.embedder.heard == [["anything?"], ["four", "three"], ["anything?"], ["two", "one"], ["anything?"]]
    assert {item.arms[0] for item in answer.items} == {"dense"}


async def test_what_has_a_vector_is_not_embedded_again(memory: Memory) -> None:
    await memory.say("one", "two", session="mine")
    await memory.embed_all()
    await memory.ask("anything?", session_name="mine")
    assert memory.embedder.heard == [["anything?"]]


async def test_a_stored_vector_scores_like_one_read_with_the_question(memory: Memory) -> None:
    await memory.say(*CHATTER)
    memory.settings = RecallSettings(fresh_tail_ms=1000)
    before = await memory.ask("Is it cold in the office?", k=3)
    await memory.embed_all()
    after = await memory.ask("Is it cold in the office?", k=3)
    assert [item.unit_id for item in before.items] == [item.unit_id for item in after.items]
    assert [item.score for item in before.items] == pytest.approx([item.score for item in after.items], abs=2e-3)


@pytest.mark.law("L10")
async def test_no_transaction_is_open_while_the_model_works(memory: Memory) -> None:
    await memory.say("hello")
    await memory.embed_all()
    open_at: list[int] = []
    inner = memory.embedder.inner.embed

    async def looking(texts: list[str]) -> object:
        pool = memory.database._app.sync_engine.pool
        open_at.append(pool.checkedout())  # type: ignore[attr-defined] # a QueuePool counts what is lent
        return await inner(texts)

    memory.embedder.embed = looking  # type: ignore[assignment, method-assign] # listening more closely
    await memory.ask("hello?")
    assert open_at == [0]


@pytest.mark.law("L10")
async def test_no_transaction_waits_for_a_question_that_is_embedded_beside_it(memory: Memory) -> None:
    await memory.say("hello")
    await memory.embed_all()
    await memory.ask("hello?")
    inner, ended = memory.embedder.inner.embed, asyncio.Event()

    async def slow(texts: list[str]) -> object:
        await ended.wait()
        return await inner(texts)

    memory.embedder.embed = slow  # type: ignore[assignment, method-assign] # the model takes its time
    lent, pool = list[object](), memory.database._app.sync_engine.pool
    event.listen(pool, "checkout", lambda *_: lent.append(1))
    asked = asyncio.create_task(memory.ask("hello?"))

    async def is_free() -> bool:
        return bool(lent) and pool.checkedout() == 0  # type: ignore[attr-defined] # a QueuePool counts what is lent

    await until(is_free, "the preparation holds no connection")
    assert not asked.done()
    ended.set()
    assert [(one.text, one.arms[0]) for one in (await asked).items] == [("hello", "dense")]
    assert len(lent) == 2


async def test_what_the_models_thread_has_found_is_taken_before_another_transaction_is_begun() -> None:
    in_thread = Future[str]()

    async def embed() -> str:
        return await asyncio.wrap_future(in_thread)

    begun = BegunQuestion(frozenset(), work=asyncio.create_task(embed()))
    assert not await begun.has_ended()
    in_thread.set_result("embedding: late")
    assert not begun.work or not begun.work.done()
    assert await begun.has_ended()


@pytest.mark.parametrize("settings", [ONE_PLAN, {"enable_sort": "off", "ivfflat.probes": "2"}])
async def test_where_the_model_is_done_in_time_one_transaction_prepares_and_searches(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(recaller, "_choose_settings", lambda _state: settings)
    await memory.say(*CHATTER)
    await memory.embed_all()
    before = await memory.ask("Who watered the plants?", explain=True)
    [vector] = await memory.embedder.inner.embed(["Who watered the plants?"])

    async def known(_texts: list[str]) -> object:
        return np.stack([vector])

    told = list[str]()

    async def query(connection: AsyncConnection, *about: Any, **more: Any) -> None:
        found = await connection.exec_driver_sql("select current_setting('plan_cache_mode')")
        told.append(str(found.scalar_one()))
        await query_arms(connection, *about, **more)

    monkeypatch.setattr(recaller, "query_arms", query)
    memory.embedder.embed = known  # type: ignore[assignment, method-assign] # it takes no time
    lent, pool = list[object](), memory.database._app.sync_engine.pool
    event.listen(pool, "checkout", lambda *_: lent.append(1))
    after = await memory.ask("Who watered the plants?", explain=True)
    assert len(lent) == 1
    assert (after.items, after.freshness, after.evidence) == (before.items, before.freshness, before.evidence)
    assert told == ["force_generic_plan", settings.get("plan_cache_mode", "auto")]
    assert list(after.took) == list(before.took)  # steps are told in one order


@pytest.mark.law("L10")
async def test_no_transaction_waits_for_fresh_texts_to_be_embedded(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.say("hello")
    inner, searched, ended = memory.embedder.inner.embed, asyncio.Event(), asyncio.Event()

    async def slow(texts: list[str]) -> object:
        if texts == ["hello"]:
            await ended.wait()
        return await inner(texts)

    async def query(*about: Any, **more: Any) -> None:
        await query_arms(*about, **more)
        searched.set()

    memory.embedder.embed = slow  # type: ignore[assignment, method-assign] # the model takes its time
    monkeypatch.setattr(recaller, "query_arms", query)
    asked = asyncio.create_task(memory.ask("hello?"))
    await searched.wait()
    pool = memory.database._app.sync_engine.pool

    async def is_free() -> bool:
        return pool.checkedout() == 0  # type: ignore[attr-defined,no-any-return] # a QueuePool counts what is lent

    await until(is_free, "the search holds no connection")
    assert not asked.done()
    ended.set()
    assert [(one.text, one.arms[0]) for one in (await asked).items] == [("hello", "dense")]


@pytest.mark.law("L6")
async def test_another_host_with_the_same_names_is_another_memory(memory: Memory) -> None:
    await memory.say("my secret is teal")
    other = Memory(memory.database, await new_host(memory.database), memory.embedder)
    await other.say("nothing to see here")
    assert await other.texts("what is the secret teal?") == ["nothing to see here"]


async def test_other_banks_are_not_searched(memory: Memory) -> None:
    await memory.say("the teapot is red", bank="kitchen")
    await memory.say("hello")
    assert await memory.texts("what colour is the teapot?") == ["hello"]


async def test_a_bank_that_does_not_exist_gives_nothing_and_costs_no_embedding(memory: Memory) -> None:
    answer = await memory.ask("hello?", bank="nowhere")
    assert answer.items == ()
    assert answer.freshness == UNWRITTEN
    assert memory.embedder.heard == []


async def test_freshness_tells_what_the_read_shows(memory: Memory) -> None:
    await memory.say("one", "two")
    shown = (await memory.ask("one?")).freshness
    assert (shown.embedded < shown.position, shown.pending) == (True, 6)


async def test_questions_and_an_agents_lines_leave_room_for_what_answers(memory: Memory) -> None:
    told = "We moved to Celje in spring."
    await memory.say(told)
    for n in range(7):
        asked = f"Which home of mine is number {n}?"
        await memory.say(asked, NewMessage("assistant", f"You ask about your home: {asked}"), session=f"s{n}")
    await memory.embed_all()
    memory.settings = RecallSettings(candidates=10)
    assert told in await memory.texts("Where is my home?", without=["lexical"])
    assert told not in await memory.texts("What did you say about my home?", without=["lexical"])


async def test_k_bounds_the_answer_and_the_best_comes_first(memory: Memory) -> None:
    await memory.say(*CHATTER)
    answer = await memory.ask("Who watered the plants?", k=4)
    assert len(answer.items) == 4
    assert answer.items[0].text == "Could somebody water the plants while I am away?"
    scores = [item.score for item in answer.items]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.law("L11")
async def test_what_is_forgotten_is_gone_from_the_next_recall(memory: Memory) -> None:
    await memory.say("the safe opens with 4711", "the safe is behind the painting")
    await memory.embed_all()
    first = (await memory.ask("what opens the safe?")).items[0]
    await Units(memory.database, lambda: NOON).forget(memory.host, BANK, first.unit_id)
    assert await memory.texts("what opens the safe?") == ["the safe is behind the painting"]


async def test_an_explanation_names_each_arms_rank_and_what_moved_the_score(memory: Memory) -> None:
    await memory.say(*CHATTER)
    await memory.embed_all()
    best = (await memory.ask("When is the fire drill?", explain=True)).items[0]
    assert best.text == "The fire drill is planned for next month."
    assert best.arms == ("dense", "lexical")
    assert best.explain is not None
    assert best.explain.arms["lexical"].rank == 1
    assert best.explain.moved["substance"] > 0
    raw = sum(arm.score * arm.weight for arm in best.explain.arms.values())
    assert best.score == pytest.approx(raw + sum(best.explain.moved.values()))


async def test_without_explain_there_is_none(memory: Memory) -> None:
    await memory.say("hello")
    assert (await memory.ask("hello?")).items[0].explain is None


async def test_a_long_message_comes_back_whole(memory: Memory) -> None:
    long = "The logbook of the expedition. " + "Day after day the ice held us. " * 400
    await memory.say(long)
    assert await memory.texts("What did the ice do to the expedition?") == [long]


async def test_a_budget_of_tokens_is_kept(memory: Memory) -> None:
    await memory.say(*CHATTER)
    answer = await memory.ask("the printer toner on the third floor", max_tokens=100)
    assert answer.items[0].text == CHATTER[0]
    assert 0 < len(answer.items) < len(CHATTER)
    assert answer.tokens <= 100


async def test_the_model_reads_a_question_as_the_speaker_it_names_would_put_it(memory: Memory) -> None:
    await memory.say(NewMessage("user", "I adopted a greyhound", name="Marta"))
    await memory.ask("Which dog did Marta adopt?")
    assert memory.embedder.heard[0][0] == "Which dog did I adopt?"


async def test_a_name_is_replaced_before_the_bank_is_read_once_it_is_known_for_a_speakers(memory: Memory) -> None:
    await memory.say(NewMessage("user", "I adopted a greyhound", name="Marta"))
    await memory.embed_all()
    for question in ("Which dog did Marta adopt?", "When did Marta adopt it?"):
        await memory.ask(question)
    assert memory.embedder.heard == [["Which dog did I adopt?"], ["When did I adopt it?"]]


async def test_a_question_that_was_begun_with_another_text_is_embedded_anew(memory: Memory) -> None:
    await memory.say(NewMessage("user", "I adopted a greyhound", name="Marta"), "It is called Lotte")
    await memory.embed_all()
    alone = await memory.ask("Which dog did Marta adopt?", explain=True)
    memory.recaller = None
    await memory.ask("What is it called?")
    memory.embedder.heard.clear()
    again = await memory.ask("Which dog did Marta adopt?", explain=True)
    assert memory.embedder.heard == [["Which dog did Marta adopt?"], ["Which dog did I adopt?"]]
    assert again.items == alone.items


@pytest.mark.parametrize("question", ["the of and", "?!", "\U0001f600", "猫", "x" * 20000, "word " * 4000, "' -- ; \\"])
async def test_any_question_is_answered(memory: Memory, question: str) -> None:
    await memory.say("我喜欢猫", "a b c")
    assert len((await memory.ask(question)).items) == 2


async def test_words_of_scripts_without_spaces_are_found(memory: Memory) -> None:
    memory.settings = RecallSettings(fresh_tail_chunks=0)
    await memory.say("我喜欢猫", "今天下雨", "昨天很热")
    assert (await memory.texts("谁喜欢猫?"))[0] == "我喜欢猫"


async def test_neighbours_are_found_by_the_index_alone(first_memory: Memory) -> None:
    """Arithmetic beside row-level security would read the whole session for every candidate."""
    await first_memory.say(*(f"message number {n}" for n in range(400)))
    units = [
        unit
        for (unit,) in await rows(first_memory.database, first_memory.host, "select unit_id from agent_memory_unit_t")
    ]
    arguments = {
        "host": first_memory.host,
        "bank": first_memory.bank,
        "generation": 1,
        "characters": 100,
        "vector": np.zeros(384, dtype=np.float32),
        "units": units[:50],
        "sessions": [],
        "seqs": [],
        **filter_parameters(RecallQuery(BANK, "?"), first_memory.bank),
    }
    async with first_memory.database.tenant(first_memory.host) as connection:
        lines = await explain(connection, POOL, arguments)
    for neighbour in ("seq_before", "seq_after"):
        assert any(line.startswith("Index Cond") and f"seq = u.{neighbour}" in line for line in lines), "\n".join(lines)


async def test_an_answer_is_found_by_the_words_of_the_question_it_answers(memory: Memory) -> None:
    asked = "Which instruments do you play these days?"
    for session, other in (("s1", "Igor"), ("s2", "Marta")):
        await memory.say(
            NewMessage("user", asked, name="Marta"),
            NewMessage("user", "The clarinet, mostly.", name=other),
            session=session,
        )
    answer = await memory.ask("Which instruments are played?", explain=True)
    scores = {
        i.session_name: i.explain.arms["lexical"].score for i in answer.items if i.explain and "clarinet" in i.text
    }
    assert scores["s1"] == pytest.approx((CONTEXT + ANSWER) / CONTEXT * scores["s2"], rel=0.01)


async def test_arms_and_rules_can_be_left_out(memory: Memory) -> None:
    await memory.say("I bought a lamp.", "The lamp is green.")
    await memory.embed_all()
    names = [*(arm.name for arm in ARMS), *(name for name, _ in RULES)]
    for name in names:
        answer = await memory.ask("Which lamp?", explain=True, without=[name])
        assert answer.items
        assert all(i.explain and name not in (*i.explain.arms, *i.explain.moved) for i in answer.items), name
    assert not (await memory.ask("Which lamp?", without=[arm.name for arm in ARMS])).items


async def test_a_recall_is_let_go_when_it_is_answered_without_the_collector(memory: Memory) -> None:
    await memory.say(*CHATTER)
    await memory.ask("Who watered the plants on Monday?")
    gc.collect()
    gc.disable()
    try:
        await memory.ask("Who watered the plants on Monday?")
        states = (one for one in gc.get_objects() if isinstance(one, RecallState))
        held = [one for one in states if one.host == memory.host]
    finally:
        gc.enable()
    assert not held


async def test_the_text_with_the_exact_identifier_goes_before_a_shorter_one_with_another(memory: Memory) -> None:
    told = {
        "Order A-1001": "Order A-1001 has shipped from the warehouse with the two spare lamps and a cable drum.",
        "Order A-1002": "Order A-1002 waits.",
        "Version 3.12.1": "Version 3.12.1 fixed the crash that we saw whenever the log was rotated while it was read.",
        "1.10.2": "We went from 1.10.2 to the next release in spring, after the long discussion about the old one.",
        "1.1": "Version 1.1 is old.",
        "ERR_CONN_42": "We saw ERR_CONN_42 again when the router in the cellar had lost its power for a few minutes.",
        "ERR_CONN_43": "ERR_CONN_43 is new.",
        "getUserName": "The helper getUserName returns what the directory holds, or an empty text if it holds none.",
        "getUserId": "Call getUserId first.",
    }
    for number, text in enumerate(told.values()):
        await memory.say(text, session=f"s{number}")
    await memory.embed_all()
    assert {asked: (await memory.texts(asked))[0] for asked in told} == told
    assert (await memory.texts("What is the name of the user?"))[0] == told["getUserName"]


async def test_small_talk_of_the_last_minutes_does_not_displace_an_answer(memory: Memory) -> None:
    memory.recaller = Recaller(memory.database, memory.embedder, memory.settings, clock=lambda: NOON)
    before = NOON - timedelta(days=90)
    siren = "The number that disarms the siren at our holiday hut is the year of the flood."
    await memory.say(siren, session="a", occurred_at=before)
    await memory.say("I feed the cat at six.", session="z", occurred_at=before)
    talk = ["Good morning!", "It is sunny today.", "Lunch was nice.", "See you at the office."]
    await memory.say(*talk, session="b", occurred_at=NOON)
    await memory.embed_all()
    assert (await memory.texts("what is the alarm code of the cabin?"))[0] == siren
    assert (await memory.texts("What did I just say?"))[0] in talk


async def test_after_a_change_of_the_model_an_answer_says_what_has_no_vector_of_it(first_memory: Memory) -> None:
    memory = first_memory
    await memory.say("The tram is late.", "The bus is early.")
    await memory.embed_all()
    await make_generation_live(memory.database, memory.embedder.generation)
    before = (await memory.ask("Is the tram late?")).freshness
    await make_generation_live(memory.database, memory.embedder.generation + 1)
    await add_retired(memory.database, memory.embedder.generation)
    after = (await memory.ask("Is the tram late?")).freshness
    assert before.embedded == before.position
    assert (after.position, after.embedded < after.position - 1) == (before.position, True)


async def test_other_calls_have_their_turn_while_an_answer_is_ranked_and_its_times_are_told(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.say(*(f"We met on {day} March in Ghent." for day in range(1, 13)))
    turns, at = [0], dict[str, int]()

    async def count_turns() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    ranks = [(ranking, name) for name in ("score_pool", "fuse_scores", "find_successors")]
    for module, name in (*ranks, (recaller, "resolve_times")):
        monkeypatch.setattr(module, name, noting(getattr(module, name), name, turns, at))
    counting = asyncio.create_task(count_turns())
    answer = await memory.ask("When did we meet in Ghent?", k=10)
    counting.cancel()
    assert all(item.times for item in answer.items)
    assert at["score_pool"] < at["fuse_scores"] < at["find_successors"]
    assert at["resolve_times"] > at["first resolve_times"]


def noting(work: Callable[..., Any], name: str, turns: list[int], at: dict[str, int]) -> Callable[..., Any]:
    """Return the work, which notes the turn in which it was called first and last."""

    def noted(*args: Any, **named: Any) -> Any:
        at.setdefault(f"first {name}", turns[0])
        at[name] = turns[0]
        return work(*args, **named)

    return noted
