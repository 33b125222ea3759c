"""A long session is summarised, not cut: a turn is given what came before, and nothing that is gone."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import httpx
import orjson
import pytest

from producers.mcp.bank_memory import BankMemory
from producers.mcp.settings import TurnMemorySettings
from producers.service import session_calls, turn_lifecycle
from producers.service.prepared_turns import trim_to_budget
from producers.service.session_summaries import RuleDigester, Summarised, Summariser
from producers.turns.history import keep_paired
from producers.turns.summaries import MOST_TOKENS, SHARE, EarlierMessages
from store import identity
from store.memory.session_summaries import SessionPlace, SessionSummaries, SessionSummary
from store.memory.turns import TurnStore
from store.off_loop import Steps, run_steps
from store.replay import ReplayScope, verify_log
from store.text.session_digest import DigestEntry
from tests.client.loopback import loopback
from tests.producers.conftest import Tenant, World
from tests.producers.mcp.test_tools import call, client_of
from tests.producers.turns.test_cut_histories import refuse_unpaired, said, turn_of

BEFORE, AFTER = "/api/v1/turns/before", "/api/v1/turns/after"
#: What the first half of a long session says, and a question about it with a word of its answer.
PLANTED = (
    ("My name is Tilda Sorensen and I run the harbour office.", "What is my name?", "Tilda"),
    ("We decided to call the release Kestrel.", "What did we call the release?", "Kestrel"),
    ("The budget for the quay is 48,200 EUR.", "What is the budget for the quay?", "48,200"),
    ("The tide tables are in data/tides-2031.csv.", "Which file holds the tide tables?", "tides-2031.csv"),
    ("Could you compare the cranes of Liebherr and Konecranes?", "Which cranes did I ask about?", "Konecranes"),
    ("It is still open who inspects the north lock.", "What is open about the north lock?", "inspects"),
    ("Our pilot is called Ibrahim Haddad.", "Who is our pilot?", "Ibrahim"),
    ("Let's use Mapnik for the charts.", "What do we use for the charts?", "Mapnik"),
    ("The ferry to Vlieland leaves at 07:40.", "When does the ferry to Vlieland leave?", "07:40"),
    ("I prefer the reports in German.", "In which language do I prefer reports?", "German"),
)


def summariser_of(world: World, **settings: Any) -> Summariser:
    turns = TurnStore(world.database, world.clock)
    return Summariser(turns.summaries, turns.sessions, BankMemory(TurnMemorySettings(**settings)).limit_summaries)


def place_of(tenant: Tenant, session: str = "s", bank: str = "default") -> SessionPlace:
    host = identity.host_id(tenant.host)
    bank_id = identity.bank_id(host, bank)
    return SessionPlace(host, bank_id, identity.session_id(bank_id, session))


async def keep(tenant: Tenant, turn: str, items: Sequence[Any], session: str = "s", **more: Any) -> None:
    body = {"session_id": session, "turn_id": turn, "input_items": [], "output_items": list(items), **more}
    reply = await tenant.http.post(AFTER, json=body)
    assert reply.status_code == 200, reply.text


async def talk(tenant: Tenant, messages: int, first: int = 0, session: str = "s") -> None:
    """Keep turns of ten plain messages each."""
    for at in range(first, first + messages, 10):
        items = [said(f"Item {n} of Anna weighs {n + 100} kg.") for n in range(at, at + 10)]
        await keep(tenant, f"t{at}", items, session)


async def prepare(tenant: Tenant, asked: str = "and now?", **more: Any) -> list[dict[str, Any]]:
    body = {"session_id": "s", "turn_id": "next", "current_input": [said(asked)], **more}
    reply = await tenant.http.post(BEFORE, json=body)
    assert reply.status_code == 200, reply.text
    items: list[dict[str, Any]] = reply.json()["input_items"]
    return items


def find_summary(items: Sequence[dict[str, Any]]) -> str:
    found = [text for item in items if "from earlier in this conversation" in (text := str(item.get("content")))]
    assert len(found) <= 1
    return "".join(found)


async def count_compacted(world: World, tenant: Tenant) -> int:
    rows = await world.sql(
        "select count(*) from afterturn.event_store_t where host_id = :h and event_type like '%Compacted%'",
        h=identity.host_id(tenant.host),
    )
    return int(rows[0][0])


async def hold_preparation(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> tuple[set[int], Callable[[int], dict[str, Any]]]:
    """Prepare a turn once. Returns the `id` of its stored items, and what cuts the same turn to a budget.

    What a summary may tell is made once for each number of messages that are not shown: it takes most of the time.
    """
    trim, held = trim_to_budget, list[Any]()
    digest, digests = EarlierMessages.digest, dict[int, list[DigestEntry]]()

    def digest_once(self: EarlierMessages) -> list[DigestEntry]:
        return digests.get(len(self.unshown)) or digests.setdefault(len(self.unshown), digest(self))

    def hold(*told: Any) -> Steps[dict[str, Any]]:
        held[:] = told
        return trim(*told)

    with monkeypatch.context() as patch:
        patch.setattr(turn_lifecycle, "trim_to_budget", hold)
        await prepare(tenant)
    monkeypatch.setattr(EarlierMessages, "digest", digest_once)
    place, told, conversation, _, counters = held
    stored = {id(item) for item in conversation.stored}
    return stored, lambda most: run_steps(trim(place, told, conversation, most, counters))


async def test_a_session_of_two_thousand_items_is_taken_at_every_budget_and_answers_for_its_first_half(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted, number = list(PLANTED), 0
    for turn in range(20):
        items = [item for n in range(turn * 8, turn * 8 + 8) for item in turn_of(n)]
        if turn < 10:
            items.append(said(planted[turn][0]))
        await keep(
            ana, f"t{turn}", [*items, *(said(f"Noted {turn}.{n}", "assistant") for n in range(100 - len(items)))]
        )
        number += 100
    assert (await summariser_of(world).summarise(place_of(ana))).messages > number - 40
    stored, cut = await hold_preparation(ana, monkeypatch)
    cuts = dict[tuple[int, ...], tuple[int, list[Any]]]()
    # From a budget on whose third is the largest summary, with all the rest beside it, nothing is left out for it.
    whole = cut(20_000)
    settled = whole["context_token_count"] + SHARE * MOST_TOKENS
    assert all(cut(budget) == whole for budget in range(settled, 20_001, 97))
    for budget in range(200, settled + 1):
        prepared = cut(budget)
        assert prepared["context_token_count"] <= budget
        items = prepared["input_items"]
        # A summary differs at nearly every budget. What may be refused is which stored items stand there, and where.
        places = tuple(id(item) if id(item) in stored else 0 for item in items)
        cuts[places] = budget, items
    assert len(cuts) > 10
    with loopback() as server, httpx.Client(base_url=server.url) as model:
        server.answer = refuse_unpaired
        for budget, items in cuts.values():
            reply = await asyncio.to_thread(model.post, "/v1/responses", json={"input": items})
            assert reply.status_code == 200, (budget, reply.text)
    monkeypatch.undo()
    for budget in range(200, 20_001, 2_200):
        assert await prepare(ana, max_input_tok=budget) == cut(budget)["input_items"]
    shown = await prepare(ana)
    assert find_summary(shown)
    assert [item["role"] for item in shown[:2]] == ["developer", "user"]
    for _, question, answer in PLANTED:
        items = await prepare(ana, question)
        assert answer in str(items[:-1]), question


async def test_a_prepared_turn_tells_what_the_budget_drops_before_any_worker_ran(ana: Tenant) -> None:
    await keep(ana, "1", [said("We decided to meet in Bruges."), said("x " * 3_000, "assistant"), said("Fine.")])
    items = await prepare(ana, max_input_tok=600)
    assert "Bruges" in find_summary(items)
    assert [item["content"][0]["text"] for item in items[-2:]] == ["Fine.", "and now?"]
    whole = await prepare(ana)
    assert (len(whole), find_summary(whole)) == (4, "")


async def test_the_summary_stands_before_the_newest_items_within_the_budget_and_covers_all_between(
    world: World, ana: Tenant
) -> None:
    await talk(ana, 70)
    assert await summariser_of(world).summarise(place_of(ana)) == Summarised(40, 0)
    await keep(ana, "later", [said("We decided to keep Otto."), *(said(f"Still {n}") for n in range(30))])
    reply = await ana.http.post(
        BEFORE, json={"session_id": "s", "turn_id": "n", "current_input": [said("?!")], "max_input_tok": 4_000}
    )
    items = reply.json()["input_items"]
    at = next(n for n, item in enumerate(items) if find_summary([item]))
    assert [item["content"][0]["text"] for item in items[at + 1 :]] == [*(f"Still {n}" for n in range(30)), "?!"]
    assert "Otto" in str(items[at]), "said after the summary was written, and shown no longer"
    assert "(turn t0)" in str(items[at]) or "(turn t10)" in str(items[at])
    assert reply.json()["context_token_count"] <= 4_000


@pytest.mark.law("L8")
async def test_a_summary_that_comes_back_is_not_kept(world: World, ana: Tenant) -> None:
    await talk(ana, 70)
    await summariser_of(world).summarise(place_of(ana))
    prepared = await prepare(ana, "what next?")
    assert find_summary(prepared)
    await ana.http.post(AFTER, json={"session_id": "s", "turn_id": "n", "input_items": prepared, "output_items": []})
    rows = await world.sql(
        "select content from afterturn.agent_memory_unit_t where host_id = :h and turn_name = 'n'",
        h=identity.host_id(ana.host),
    )
    assert [row[0] for row in rows] == ["what next?"]
    asjson = await prepare(ana, "what next?", reference="json")
    told = next(text for item in asjson if '"earlier"' in (text := str(item["content"][0].get("text"))))
    await ana.http.post(AFTER, json={"session_id": "z", "turn_id": "n", "input_items": [said(told), said("hm")]})
    kept = await world.sql(
        "select content from afterturn.agent_memory_unit_t where host_id = :h and session_name = 'z'",
        h=identity.host_id(ana.host),
    )
    assert [row[0] for row in kept] == ["hm"]


@pytest.mark.law("L2")
async def test_a_summary_is_written_once_and_only_for_a_session_that_is_long(world: World, ana: Tenant) -> None:
    summariser = summariser_of(world)
    await talk(ana, 60)
    assert await summariser.summarise(place_of(ana)) == Summarised(0, 0)
    await talk(ana, 10, 60)
    found = await asyncio.gather(*(summariser.summarise(place_of(ana)) for _ in range(4)))
    assert sorted(one.messages for one in found) == [0, 0, 0, 40]
    assert await summariser.summarise(place_of(ana)) == Summarised(0, 0)
    assert await count_compacted(world, ana) == 1
    assert (await summariser.summarise(place_of(ana, "unknown"))) == Summarised(0, 0)


async def test_the_threshold_summarises_few_large_items_and_the_rest_stays(world: World, ana: Tenant) -> None:
    await keep(ana, "1", [said(f"The report of lock {n} weighs {n} kg. " + "lock " * 4_000) for n in range(6)])
    assert await summariser_of(world).summarise(place_of(ana)) == Summarised(0, 0)
    # A tenth of 120,000 tokens; half of it is left for the newest items.
    assert await summariser_of(world, compact_threshold=0.1).summarise(place_of(ana)) == Summarised(5, 0)
    items = await prepare(ana, max_input_tok=0)
    assert "report of lock 2" in find_summary(items)
    assert len([item for item in items if "lock lock" in str(item)]) == 1


@pytest.mark.law("L2")
async def test_a_turn_written_meanwhile_stays_and_another_summary_written_meanwhile_wins(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk(ana, 70)
    write, begun = SessionSummaries.write, list[int]()

    async def late(self: SessionSummaries, *rest: Any) -> bool:
        begun.append(1)
        if len(begun) == 1:
            await keep(ana, "meanwhile", [said("We decided on Emden.")])
            assert await summariser_of(world).summarise(place_of(ana)) == Summarised(41, 0)
        return await write(self, *rest)

    monkeypatch.setattr(SessionSummaries, "write", late)
    assert await summariser_of(world).summarise(place_of(ana)) == Summarised(0, 0)
    assert await count_compacted(world, ana) == 1
    assert "Emden" in str(await prepare(ana))


@pytest.mark.law("L11")
async def test_what_is_forgotten_corrected_or_erased_is_in_no_summary(world: World, ana: Tenant) -> None:
    marks = ("quartz-one", "quartz-two", "quartz-three")
    await keep(ana, "0", [said(f"We decided on {mark} for Anna.") for mark in marks])
    await talk(ana, 70)
    summariser = summariser_of(world)
    await summariser.summarise(place_of(ana))
    told = find_summary(await prepare(ana))
    assert all(mark in told for mark in marks)
    units = (await ana.http.get("/api/v1/units?limit=100")).json()["units"]
    ids = {mark: next(one["unit_id"] for one in units if mark in one["text"]) for mark in marks}
    assert (await ana.http.delete(f"/api/v1/units/{ids[marks[0]]}")).status_code == 204
    changed = await ana.http.patch(f"/api/v1/units/{ids[marks[1]]}", json={"content": "It rained."})
    assert changed.status_code == 200
    told = find_summary(await prepare(ana))
    assert [mark in told for mark in marks] == [False, False, True]
    assert (await ana.http.delete(f"/api/v1/units/{ids[marks[2]]}?erase=true")).status_code == 200
    shown = await prepare(ana)
    assert not find_summary(shown) or marks[2] not in find_summary(shown)
    logged = await world.sql(
        "select cast(data as text) from afterturn.event_store_t where host_id = :h and event_type like '%Compacted%'",
        h=identity.host_id(ana.host),
    )
    assert not any("quartz" in row[0] for row in logged)
    kept = await world.sql(
        "select cast(message as text) from afterturn.session_message_t where host_id = :h",
        h=identity.host_id(ana.host),
    )
    assert not any("quartz" in row[0] for row in kept)
    # What is left is summarised anew, from the beginning.
    assert (await summariser.summarise(place_of(ana))).messages > 0
    told = find_summary(await prepare(ana))
    assert "of Anna weighs" in told
    assert not any(mark in told for mark in marks)
    report = await verify_log(world.postgres.owner_url, ReplayScope(identity.host_id(ana.host)))
    assert report.equal


@pytest.mark.law("L11")
async def test_an_erasure_between_reading_and_writing_leaves_nothing_in_the_summary(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(ana, "0", [said("We decided on quartz-four for Anna.")])
    await talk(ana, 70)
    units = (await ana.http.get("/api/v1/units?limit=100")).json()["units"]
    unit = next(one["unit_id"] for one in units if "quartz" in one["text"])
    write = SessionSummaries.write

    async def late(self: SessionSummaries, *rest: Any) -> bool:
        assert (await ana.http.delete(f"/api/v1/units/{unit}?erase=true")).status_code == 200
        return await write(self, *rest)

    monkeypatch.setattr(SessionSummaries, "write", late)
    assert (await summariser_of(world).summarise(place_of(ana))).messages == 41
    logged = await world.sql(
        "select cast(data as text) from afterturn.event_store_t where host_id = :h", h=identity.host_id(ana.host)
    )
    assert not any("quartz" in row[0] for row in logged)
    assert "of Anna weighs" in find_summary(await prepare(ana))


@pytest.mark.law("L6")
async def test_a_summary_holds_words_of_its_own_session_alone(world: World, ana: Tenant) -> None:
    other = await world.tenant()
    own = await world.tenant(ana.host, user="bo")
    for tenant, word in ((own, "attic"), (ana, "harbour"), (other, "meadow")):
        await keep(tenant, "0", [said(f"We decided on the {word} for Anna.")])
        await talk(tenant, 70)
    await keep(ana, "0", [said("We decided on the cellar for Anna.")], "another")
    summariser = summariser_of(world)
    await summariser.summarise(place_of(ana))
    await summariser.summarise(place_of(other))
    await summariser.summarise(place_of(own, bank="~bo/default"))
    for tenant, word in ((ana, "harbour"), (other, "meadow"), (own, "attic")):
        told = find_summary(await prepare(tenant))
        assert [one for one in ("harbour", "meadow", "attic", "cellar") if one in told] == [word]
        await tenant.http.aclose()


@pytest.mark.law("L7")
async def test_a_secret_is_in_no_summary(world: World, ana: Tenant) -> None:
    await keep(ana, "0", [said(f"We decided that the key of Anna is {ana.token}.")])
    await talk(ana, 70)
    await summariser_of(world).summarise(place_of(ana))
    told = find_summary(await prepare(ana))
    assert "key of Anna" in told
    assert ana.token not in told


@pytest.mark.law("L5")
async def test_replay_gives_the_summary_equal_and_direct_readers_find_it_first(world: World, ana: Tenant) -> None:
    await talk(ana, 70)
    await summariser_of(world).summarise(place_of(ana))
    await talk(ana, 70, 70)
    await summariser_of(world).summarise(place_of(ana))
    report = await verify_log(world.postgres.owner_url, ReplayScope(identity.host_id(ana.host)))
    assert report.equal
    [row] = await world.sql(
        "select messages, (select count(*) from afterturn.session_message_t m where m.host_id = h.host_id)"
        " from hindsight.agent_session_history_t h where h.host_id = :h",
        h=identity.host_id(ana.host),
    )
    messages = row[0] if isinstance(row[0], list) else orjson.loads(row[0])
    assert (messages[0]["role"], messages[0]["content"]["kind"], len(messages)) == ("summary", "session_summary", 31)
    assert (messages[1]["content"], row[1]) == ("Item 110 of Anna weighs 210 kg.", 1)


async def read_all(
    _digester: RuleDigester, _place: SessionPlace, span: tuple[int, int], _until: float | None
) -> tuple[int, tuple[()]]:
    """Have every message of a summary read, as if there were no digest."""
    return span[0], ()


async def test_what_the_digest_has_read_is_summarised_without_being_read_again(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(ana, "first", [said("We decided to rent the lighthouse from Anna Becker.")])
    await talk(ana, 70)
    turns = TurnStore(world.database, world.clock)
    assert await turns.digests.extend(place_of(ana)) == 71
    await keep(ana, "next", [said("We decided to paint the quay.")])
    await talk(ana, 60, 70)
    read: list[int] = []
    messages = SessionSummaries.read_messages

    async def see(self: SessionSummaries, place: SessionPlace, first: int, end: int) -> Any:
        read.append(first)
        return await messages(self, place, first, end)

    monkeypatch.setattr(SessionSummaries, "read_messages", see)
    summariser = replace(summariser_of(world), digester=RuleDigester(turns.digests))
    assert (await summariser.summarise(place_of(ana))).messages == 102
    assert read == [], "the digest was extended by what it had not read"
    summary = await turns.summaries.read(place_of(ana))
    told = str([one.text for one in summary.entries]) if summary else ""
    assert ("rent the lighthouse" in told, "paint the quay" in told) == (True, True)


async def test_maintenance_of_a_session_summarises_it_and_says_how_much(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk(ana, 70)
    done = "update afterturn.ledger_t set status = 'done' where host_id = :h"
    await world.sql(done, h=identity.host_id(ana.host))
    none = {"ended": 0, "summarised": 0, "digested": 0, "consolidated": 0}
    async with client_of(world, ana) as client:
        monkeypatch.setattr(session_calls, "SUMMARISE_S", 0.0)
        monkeypatch.setattr(RuleDigester, "find_digested", read_all)
        told = await call(client, "memory_run_maintenance", session_id="s")
        assert (told["done"], told["left"], told["counts"]) == (False, 1, none | {"digested": 70})
        monkeypatch.undo()
        for summarised in (40, 0):
            told = await call(client, "memory_run_maintenance", session_id="s")
            assert (told["done"], told["left"], told["counts"]) == (True, 0, none | {"summarised": summarised})
    assert await count_compacted(world, ana) == 1


async def test_the_sessions_own_read_shows_every_message_that_a_summary_tells_of(world: World, ana: Tenant) -> None:
    await talk(ana, 70)
    await summariser_of(world).summarise(place_of(ana))
    told = await ana.http.get("/api/v1/sessions/s", params={"messages": 100})
    assert told.status_code == 200, told.text
    assert len(told.json()["history"]) == told.json()["messages"] == 70


@pytest.mark.law("L11")
async def test_a_listing_tells_topics_people_decisions_and_open_ends_and_nothing_that_is_gone(
    world: World, ana: Tenant
) -> None:
    marks = ("We decided to rent the lighthouse from Anna Becker.", "It is still open who paints the lighthouse.")
    await keep(ana, "first", [said(one) for one in marks])
    await talk(ana, 70)
    await summariser_of(world).summarise(place_of(ana))
    reader = await world.tenant(ana.host, write=False)
    async with client_of(world, reader) as client:
        whole = (await call(client, "memory_list_dir_with_abstract", session_id="s"))["summaries"]
        told = {one["path"].removeprefix("/memory/s").removeprefix("/"): one["abstract"] for one in whole}
        assert "rent the lighthouse from Anna Becker. (turn first)" in told[""]
        assert "who paints the lighthouse. (turn first)" in told["runtime"]
        assert "People: Anna" in told["meta"]
        assert "lighthouse" in told["meta"] or "weighs" in told["meta"]
        assert "rent the lighthouse" in told["events/compact"]
        assert "Item 69" not in told["events/compact"], "it is shown, and not in the summary"
        assert all(100 <= len(one.split()) <= 200 for one in told.values())
        [events, *_] = (await call(client, "memory_list_dir_with_abstract", session_id="s", path="events"))["summaries"]
        assert "rent the lighthouse" in events["overview"]
        assert len(events["overview"].split()) <= 2_000
        units = (await ana.http.get("/api/v1/units?limit=100")).json()["units"]
        for unit in (one["unit_id"] for one in units if "lighthouse" in one["text"]):
            assert (await ana.http.delete(f"/api/v1/units/{unit}?erase=true")).status_code in (200, 404)
        assert "lighthouse" not in str(await call(client, "memory_list_dir_with_abstract", session_id="s"))
    foreign = await world.tenant()
    async with client_of(world, foreign) as client:
        assert (await call(client, "memory_list_dir_with_abstract", session_id="s"))["summaries"] == []


async def test_a_listing_tells_what_was_said_long_ago_from_the_digest_alone(
    world: World, ana: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(ana, "first", [said("We decided to rent the lighthouse from Anna Becker.")])
    await talk(ana, 300)
    turns = TurnStore(world.database, world.clock)
    read: list[tuple[int, int]] = []
    messages = SessionSummaries.read_messages

    async def see(self: SessionSummaries, place: SessionPlace, first: int, end: int) -> Any:
        found = await messages(self, place, first, end)
        read.append((first, len(found)))
        return found

    monkeypatch.setattr(SessionSummaries, "read_messages", see)
    async with client_of(world, ana) as client:
        told = await call(client, "memory_list_dir_with_abstract", session_id="s")
        assert "lighthouse" not in str(told), "no digest yet: the newest messages are told of"
        assert await turns.digests.extend(place_of(ana)) == 301
        told = await call(client, "memory_list_dir_with_abstract", session_id="s")
        assert "rent the lighthouse from Anna Becker. (turn first)" in str(told)
        await keep(ana, "last", [said("It is still open who paints the quay.")])
        told = await call(client, "memory_list_dir_with_abstract", session_id="s")
        assert "paints the quay. (turn last)" in str(told), "what no digest has read is told of at once"
    assert read == [(173, 128), (301, 0), (301, 1)]


async def test_who_keeps_the_history_itself_gets_no_summary(world: World, ana: Tenant) -> None:
    await talk(ana, 70)
    await summariser_of(world).summarise(place_of(ana))
    body = {
        "session_id": "s",
        "turn_id": "n",
        "conversation_items": [said("mine"), said("now")],
        "current_input_start": 1,
    }
    items = (await ana.http.post(BEFORE, json=body)).json()["input_items"]
    assert find_summary(items) == ""


async def test_a_platforms_own_compaction_is_the_history_before_what_follows(ana: Tenant, world: World) -> None:
    bank = identity.bank_id(identity.host_id(ana.host), "default")
    await talk(ana, 20)
    session = str(identity.session_id(bank, "s"))
    told = {
        "bankId": str(bank),
        "sessionId": session,
        "messages": [{"role": "system", "content": "Anna has 20 items."}],
    }
    for _ in range(2):
        reply = await ana.http.post(
            "/api/v1/commands",
            json={"action": "compactAgentSessionHistory", "data": told},
            headers={"Idempotency-Key": "once"},
        )
        assert reply.status_code == 200, reply.text
    assert await count_compacted(world, ana) == 1
    await keep(ana, "later", [said("Good.")])
    items = await prepare(ana)
    assert "Anna has 20 items." in find_summary(items)
    assert not any("Item 19 " in str(item) and "<memory_reference>" not in str(item) for item in items)
    assert items[-2:] == [said("Good."), said("and now?")]
    assert keep_paired(items, []) == items
    await talk(ana, 80, 20)
    assert await summariser_of(world).summarise(place_of(ana)) == Summarised(0, 0), "the platform compacts its own"


def test_no_summary_is_made_where_no_history_is_shown() -> None:
    assert BankMemory(TurnMemorySettings(recent_context_items=0)).limit_summaries(UUID(int=1), UUID(int=2)).items == 0
    assert SessionSummary(0, 1, made=False).entries == ()
