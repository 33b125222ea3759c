"""L11: erasing a user erases what that user began, of what others began that user's versions, and the user's names."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from store import identity
from store.derived import bank_state
from store.erasure import Erasures, ErasureTarget, Kind
from store.erasure.erasures import STALLED_AFTER
from store.erasure.versions import Version, strip_user
from store.errors import NotFound
from store.ledger.stages import Stage
from store.log.append import append_events
from store.log.catalog import EventType as E
from store.log.envelope import Origin, build_command
from store.memory.directives import Curation, NewDirective
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.turns import Appended, NewMessage, NewTurn
from store.memory.units import Units
from store.replay import verify_log
from store.tenancy.banks import Banks
from store.tenancy.keys import Keys
from store.tenancy.quotas import QuotaLimits, Quotas
from tests.store.derived_rows import read_contents
from tests.store.erasure.conftest import Scene
from tests.store.erasure.dump import dump, lines_with
from tests.store.log.samples import named, sample
from tests.workers.conftest import BANK, HOST, now
from workers.extraction import stage as extraction

pytestmark = pytest.mark.law("L11")

BOBS = "My name is Bob. I live in Kyoto. I met Karl Berger."
ANAS = "My name is Zanzibarquux. I live in Xanaduvia. I met Quetzal Moore."


async def say(scene: Scene, user: str, words: str, *, session: str = "s", bank: str = "default", **more: Any) -> UUID:
    """Say something and return the unit that keeps it."""
    turn = NewTurn(bank, session, f"of {user}: {words[:40]}", [NewMessage("user", words)], user_id=user, **more)
    [answer] = await scene.world.turns.append(HOST, [turn])
    assert isinstance(answer, Appended)
    bank_id = identity.bank_id(HOST, bank)
    return identity.unit_id(identity.turn_id(identity.session_id(bank_id, session), turn.turn_name), 0)


async def shown(scene: Scene, unit: UUID) -> tuple[str, dict[str, Any], bool]:
    """Return what a unit says, its metadata, and whether it is remembered."""
    query = "select content, metadata, active from afterturn.agent_memory_unit_t where unit_id = :unit"
    [row] = await scene.world.sql(query, unit=unit)
    return row.content, row.metadata, row.active


async def texts(scene: Scene, where: str = "origin = 'extraction'") -> list[str]:
    query = f"select content from afterturn.agent_memory_unit_t where active and {where} order by 1"
    return [row.content for row in await scene.world.sql(query)]


async def whole(scene: Scene) -> None:
    """Hold that a replay finds the same rows, and that what is derived is what a rebuild makes."""
    await scene.crew.drain()
    report = await verify_log(scene.world.postgres.owner_url)
    assert [table for table in report.tables if not table.equal] == []
    async with scene.world.database.tenant(HOST) as connection:
        kept = await read_contents(connection, HOST, BANK)
        await bank_state.rebuild_bank(connection, HOST, BANK)
        assert await read_contents(connection, HOST, BANK) == kept


@pytest.mark.law("L5")
@pytest.mark.parametrize("worked", [False, True])
async def test_of_anothers_unit_only_the_users_correction_goes(scene: Scene, *, worked: bool) -> None:
    units = Units(scene.world.database, now)
    unit = await say(scene, "bob", BOBS)
    await scene.crew.drain()
    before, facts = await shown(scene, unit), await texts(scene)
    await units.correct(HOST, "default", unit, ANAS, user="ana")
    if worked:
        await scene.crew.drain()
        assert any("Xanaduvia" in text for text in await texts(scene))
    receipt = await scene.erase(Kind.USER, "ana")
    assert (receipt.counts["versions"], "messages" in receipt.counts) == (1, False)
    assert lines_with(await dump(scene.world.postgres), "Zanzibarquux", "Xanaduvia", "Quetzal") == []
    assert await shown(scene, unit) == before
    await whole(scene)
    # What was drawn from bob's words is drawn from them again.
    assert await texts(scene) == facts
    vectors = "select unit_id from afterturn.unit_vector_t where unit_id = :unit"
    assert len(await scene.world.sql(vectors, unit=unit)) == 1


@pytest.mark.law("L5")
async def test_of_anothers_unit_only_the_users_pin_goes(scene: Scene) -> None:
    """As it was reported: pin another user's unit, erase yourself, and their unit was gone."""
    units = Units(scene.world.database, now)
    unit = await say(scene, "bob", BOBS)
    await scene.crew.drain()
    before, facts = await shown(scene, unit), await texts(scene)
    await units.pin(HOST, "default", unit, pinned=True, user="ana")
    assert (await shown(scene, unit))[1]["pinned"] == "true"
    receipt = await scene.erase(Kind.USER, "ana")
    assert {name: number for name, number in receipt.counts.items() if number} == {"versions": 1, "events": 1}
    assert await shown(scene, unit) == before
    await whole(scene)
    assert await texts(scene) == facts


async def test_what_others_said_after_the_user_stays_and_what_repeats_the_user_goes(scene: Scene) -> None:
    units = Units(scene.world.database, now)
    repeated, reworded = await say(scene, "bob", "One of bob."), await say(scene, "bob", "Two of bob.")
    for unit in (repeated, reworded):
        await units.correct(HOST, "default", unit, f"Zanzibarquux of {unit}", user="ana")
    await units.pin(HOST, "default", repeated, pinned=True, user="eva")
    await units.correct(HOST, "default", reworded, "Two, as eva knows.", user="eva")
    await units.pin(HOST, "default", reworded, pinned=True, user="ana")
    await scene.erase(Kind.USER, "ana")
    assert lines_with(await dump(scene.world.postgres), "Zanzibarquux") == []
    assert await shown(scene, repeated) == ("One of bob.", {"pinned": "true"}, True)
    assert await shown(scene, reworded) == ("Two, as eva knows.", {}, True)
    await whole(scene)


async def test_a_unit_is_its_beginners_whoever_corrected_it_and_a_forgotten_one_is_not_remembered(scene: Scene) -> None:
    units = Units(scene.world.database, now)
    hers, forgotten = await say(scene, "ana", ANAS), await say(scene, "bob", "Kept no longer.")
    await units.correct(HOST, "default", hers, "Zanzibarquux, as bob knows her.", user="bob")
    await units.correct(HOST, "default", forgotten, "Xanaduvia, kept no longer.", user="ana")
    await units.forget(HOST, "default", forgotten, "bob")
    await scene.erase(Kind.USER, "ana")
    assert lines_with(await dump(scene.world.postgres), "Zanzibarquux", "Xanaduvia") == []
    assert [await shown(scene, unit) for unit in (hers, forgotten)] == [
        ("", {}, False),
        ("Kept no longer.", {}, False),
    ]
    await whole(scene)


async def test_a_beginning_of_what_lives_already_makes_it_nobody_elses(scene: Scene) -> None:
    """Such events change nothing, come from where they may, and go with their user."""
    await say(scene, "eva", "The bank begins.")
    bank = identity.bank_id(HOST, "default")
    begun = (E.UNIT_RETAINED, E.DIRECTIVE_CREATED, E.DOC_CREATED)
    for version, (user, words) in enumerate((("bob", "Kept."), ("ana", "Zanzibarquux")), 1):
        origin = Origin(HOST, bank, identity.user_id(HOST, user), now())
        events = [
            build_command(origin, kind, sample(kind, text=words), version=version, identity=uuid4())
            for kind in sorted(begun, key=lambda kind: str(sample(kind)))
        ]
        async with scene.world.database.tenant(HOST) as connection:
            await append_events(connection, HOST, events)
            # What comes by bare events gets its words so.
            await bank_state.rebuild_bank(connection, HOST, BANK)
    receipt = await scene.erase(Kind.USER, "ana")
    assert receipt.counts["events"] == len(begun)
    assert lines_with(await dump(scene.world.postgres), "Zanzibarquux") == []
    assert await shown(scene, UUID(named("unit a"))) == ("Kept.", {"said": "Kept."}, True)
    for table, words in (("agent_memory_directive_t", "content"), ("agent_memory_doc_t", "original_text")):
        found = await scene.world.sql(f"select {words} as words from afterturn.{table} where active")
        assert [row.words for row in found] == ["Kept."]
    await whole(scene)


async def test_a_late_extraction_of_the_users_words_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = await say(scene, "bob", BOBS)
    await scene.crew.drain()
    facts = await texts(scene)
    await Units(scene.world.database, now).correct(HOST, "default", unit, ANAS, user="ana")
    derive, loop, users = extraction._derive_all, asyncio.get_running_loop(), ["ana"]

    def erased_meanwhile(*arguments: object, **named: object) -> object:
        """Erase while her words are in hand, before anything drawn from them is written."""
        found = derive(*arguments, **named)  # type: ignore[arg-type]  # handed through
        if users:
            asyncio.run_coroutine_threadsafe(scene.erase(Kind.USER, users.pop()), loop).result(30)
        return found

    monkeypatch.setattr(extraction, "_derive_all", erased_meanwhile)
    await scene.crew.drain(Stage.EXTRACTION)
    assert users == []
    await whole(scene)
    assert lines_with(await dump(scene.world.postgres), "Zanzibarquux", "Xanaduvia") == []
    assert await texts(scene) == facts


async def test_directives_and_documents_of_others_keep_what_others_said(scene: Scene) -> None:
    curation, documents = Curation(scene.world.database, now), Documents(scene.world.database, now)
    await say(scene, "bob", "The bank begins.")
    for name, first, second in (("tone", None, "ana"), ("units", "ana", None), ("hours", None, None)):
        await curation.lay_down(HOST, "default", NewDirective(name, "Be brief.", 1, "operator"), first)
        words = "Zanzibarquux" if second else "Be kind."
        await curation.lay_down(HOST, "default", NewDirective(name, words, 9, f"user {second}"), second)
    again = next(one for one in (await curation.directives(HOST, "default", 9)).rows if one.name == "hours")
    await curation.withdraw(HOST, "default", again.directive_id)
    await curation.lay_down(HOST, "default", NewDirective(again.name, "Zanzibarquux again", 1, "user ana"), "ana")
    text = "Xanaduvia is where ana lives."
    added = await documents.add(HOST, NewDocument("default", content_hash(text.encode()), text, user_id="ana"))
    read = await say(scene, "bob", "I read of her.", doc_id=added.doc_id)
    receipt = await scene.erase(Kind.USER, "ana")
    assert lines_with(await dump(scene.world.postgres), "Zanzibarquux", "Xanaduvia", "user ana") == []
    left = {
        one.name: (one.content, one.priority, one.laid_down_by)
        for one in (await curation.directives(HOST, "default", 9)).rows
    }
    # What operator and ana called `hours` was withdrawn, and begun again by ana: that went with her.
    assert left == {"tone": ("Be brief.", 1, "operator")}
    assert (receipt.counts["directives"], receipt.counts["documents"]) == (2, 1)
    assert await shown(scene, read) == ("I read of her.", {}, True)
    assert (await documents.get(HOST, "default", added.doc_id)).units == 1
    await whole(scene)


async def test_the_users_own_banks_sessions_names_and_keys_go_and_the_receipt_says_what_stays(scene: Scene) -> None:
    keys = Keys(scene.world.database)
    user = "Zanzibarquux"
    for label, rights in (
        ("her laptop", {"user": user}),
        ("her gateway", {"gateway_user": user}),
        ("a reader of her notes", {"banks": [f"~{user}/notes", "default"]}),
        ("bob's", {"user": "bob"}),
    ):
        await keys.create(
            "default", f"{label} {user}" if "her " in label and "reader" not in label else label, **rights
        )
    await say(scene, user, "In a session of her own.", session=f"session of {user}")
    await say(scene, user, "Where bob speaks, too.", session="shared")
    await say(scene, "bob", "Bob speaks.", session="shared")
    for bank in (f"~{user}/notes", f"gateway:default:default:{user}"):
        await say(scene, user, f"A secret of {user}", bank=bank, private_to=user)
        await say(scene, "eva", f"What eva told {user}", bank=bank, session="e")
    await Banks(scene.world.database, now).create(HOST, user, f"~{user}/empty")
    await Quotas(scene.world.database, now).set("default", f"~{user}/notes", QuotaLimits(max_turns=9))
    await scene.crew.drain()
    receipt = await scene.erase(Kind.USER, user)
    assert receipt.done
    counted = {name: receipt.counts[name] for name in ("banks", "keys", "sessions")}
    assert counted == {"banks": 3, "keys": 2, "sessions": 5}
    assert "what others said of the user" in receipt.stays
    assert lines_with(await dump(scene.world.postgres), user) == []
    told = {one.label: (one.state, one.user, one.gateway_user, one.banks) for one in await keys.list("default")}
    assert told == {
        "": ("revoked", told[""][1], told[""][2], ()),
        "a reader of her notes": ("active", None, None, ("default",)),
        "bob's": ("active", "bob", None, None),
    }
    sessions = await scene.world.sql("select session_name from afterturn.agent_session_history_t where active")
    assert [row.session_name for row in sessions] == ["shared"]
    assert await texts(scene, "origin = 'message'") == ["Bob speaks."]
    await whole(scene)


async def test_a_user_who_has_a_key_and_said_nothing_is_known_and_one_without_is_not(scene: Scene) -> None:
    token = await Keys(scene.world.database).create("default", "label", user="eva")
    assert (await scene.erase(Kind.USER, "eva")).counts["keys"] == 1
    assert await Keys(scene.world.database).authenticate(token) is None
    for name in ("eva", "stranger", ""):
        with pytest.raises(NotFound):
            await scene.erase(Kind.USER, name)


async def test_the_erasure_of_a_user_that_was_cut_off_goes_on_where_it_was(scene: Scene) -> None:
    for n in range(3):
        await say(scene, "ana", f"Zanzibarquux number {n}", bank=f"~ana/{n}")
        await say(scene, "ana", f"Zanzibarquux number {n}", session=f"s{n}")
    erasure = await scene.erasures.request(HOST, ErasureTarget(Kind.USER, None, "ana"))
    parts = set()
    for _ in range(4):
        async with scene.world.database.tenant(HOST) as connection:
            await scene.erasures._erase_page(connection, HOST, erasure)
        running = await scene.world.sql("select erasure_id from afterturn.erasure_t where status = 'running'")
        parts |= {row.erasure_id for row in running} - {erasure}
    assert len(parts) > 1
    later = Erasures(scene.world.database, lambda: now() + STALLED_AFTER * 2)
    # Its parts are not left alone by themselves: they go on with it.
    assert await later.list_stalled() == [(HOST, erasure)]
    receipt = await later.run(HOST, erasure)
    assert (receipt.done, receipt.counts["banks"], receipt.counts["messages"]) == (True, 3, 6)
    assert lines_with(await dump(scene.world.postgres), "Zanzibarquux") == []


async def test_trying_to_erase_a_user_counts_what_doing_does_and_writes_nothing(scene: Scene) -> None:
    await say(scene, "ana", "Zanzibarquux", bank="~ana/notes")
    unit = await say(scene, "bob", "One of bob.")
    await Units(scene.world.database, now).correct(HOST, "default", unit, "Zanzibarquux", user="ana")
    target = ErasureTarget(Kind.USER, None, "ana")
    tried = await scene.erasures.estimate(HOST, target)
    assert (await shown(scene, unit))[0] == "Zanzibarquux"
    assert await scene.world.sql("select from afterturn.erasure_t") == []
    done = await scene.erase(Kind.USER, "ana")
    assert {**tried.counts} == {**done.counts}
    assert tried.counts["banks"] == 1


def state(content: str, **metadata: str) -> dict[str, Any]:
    return {"content": content, "metadata": metadata}


def test_a_thing_says_what_it_would_say_without_the_user() -> None:
    """Fields of versions are told apart: a correction keeps a pin, and a pin keeps a correction."""
    others, users = Version(1, True, False, state("a")), Version(2, False, True, state("b"))
    assert strip_user([others]).positions == []
    assert strip_user([others, users]).state == {"content": "a"}
    pinned = Version(3, False, False, state("b", pinned="true"))
    left = strip_user([others, users, pinned])
    assert (left.positions, left.state, left.spans) == ([2, 3], state("a", pinned="true"), [(2, None)])
    corrected = Version(4, False, False, state("c", pinned="true"))
    left = strip_user([others, users, pinned, corrected])
    assert (left.positions, left.state, left.spans) == ([2, 3], None, [(2, 4)])
    again = Version(5, True, True, state("d"))
    left = strip_user([others, users, pinned, corrected, again])
    assert (left.theirs, left.positions) == (True, [2, 3, 5])
    erased = Version(2, False, True, None)
    assert strip_user([others, erased, Version(6, False, False, state("a"))]).state is None
