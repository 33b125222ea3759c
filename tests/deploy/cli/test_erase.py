"""`afterturn erase` on a real database: what it asks, what it says, what is left."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from store import identity
from store.erasure import Erasures, ErasureTarget, Kind
from store.memory.turns import NewMessage, NewTurn, TurnStore
from tests.deploy.operated import HOST_ID, SECRET, Busy, Operated, turn_id
from tests.store.erasure.dump import dump, lines_with

pytestmark = pytest.mark.law("L11")

UNIT = identity.unit_id(turn_id("monday", "1"), 0)


@pytest.fixture
async def operated(busy: Busy) -> Busy:
    """A stack in which one user told a secret in one session."""
    told = [NewMessage("user", f"We met in {SECRET}"), NewMessage("assistant", "I see")]
    turns = [NewTurn("default", "monday", "1", told, user_id="ana"), NewTurn("default", "x", "2", [told[1]])]
    async with busy.opened() as database:
        await TurnStore(database, lambda: datetime.now(UTC)).append(HOST_ID, turns)
    return busy


COMMANDS = [("unit", str(UNIT)), ("session", "monday"), ("user", "ana"), ("bank", "default")]


@pytest.mark.parametrize("kind, name", COMMANDS)
async def test_what_is_erased_is_in_no_dump_and_in_no_receipt(operated: Operated, kind: str, name: str) -> None:
    tried = await operated.answer("erase", kind, name, "--dry-run")
    assert tried["dry_run"] is True
    assert lines_with(await dump(operated.postgres), SECRET)
    receipt = await operated.answer("erase", kind, name, "--yes")
    assert (receipt["status"], receipt["kind"]) == ("done", kind)
    assert receipt["counts"] == tried["counts"]
    assert receipt["counts"]["messages"] >= 1
    assert receipt["unreached"]["elsewhere"]
    assert SECRET not in repr(receipt)
    assert lines_with(await dump(operated.postgres), SECRET) == []


async def test_a_user_is_erased_by_the_id_that_users_list_shows(operated: Operated) -> None:
    by_id = str(identity.user_id(HOST_ID, "ana"))
    receipt = await operated.answer("erase", "user", by_id, "--yes")
    assert (receipt["status"], receipt["counts"]["messages"]) == ("done", 2)
    assert lines_with(await dump(operated.postgres), SECRET) == []
    assert lines_with(await dump(operated.postgres), '"userName"') == []


async def test_a_receipt_can_be_read(operated: Operated) -> None:
    shown = (await operated.run("erase", "session", "monday", "--yes")).stdout
    assert "messages" in shown
    assert "backups" in shown
    assert SECRET not in shown


async def test_the_receipt_of_a_user_says_what_stays(operated: Operated) -> None:
    shown = (await operated.run("erase", "user", "ana", "--yes")).stdout
    assert "stays here:" in shown
    assert "what others said of the user" in shown


@pytest.fixture
async def called(busy: Busy) -> Busy:
    """A stack in which one user calls another Kate, who calls herself Kitty."""

    def told(user: str, name: str, *texts: str) -> list[NewTurn]:
        return [
            NewTurn("default", "talk", f"{name} {n}", [NewMessage("user", text, name)], user_id=user)
            for n, text in enumerate(texts)
        ]

    robert = told("bob", "Robert", "Hey Kate!", "Thanks, Kate.", "Wow, Kate, great!", "We met on Monday.")
    async with busy.opened() as database:
        store = TurnStore(database, lambda: datetime.now(UTC))
        await store.append(HOST_ID, [*told("kat", "Katherine", "I like tulips.", "Call me Kitty!"), *robert])
    return busy


async def test_a_dry_run_names_what_others_call_the_user_and_an_erasure_takes_her_words_alone(called: Busy) -> None:
    tried = await called.answer("erase", "user", "kat", "--dry-run")
    assert tried["aliases"] == ["kate", "kitty"]
    assert "others also call the user kate, kitty" in (await called.run("erase", "user", "kat", "--dry-run")).stdout
    assert (await called.answer("erase", "user", "bob", "--dry-run"))["aliases"] == []
    assert (await called.answer("erase", "session", "talk", "--dry-run"))["aliases"] == []
    receipt = await called.answer("erase", "user", "kat", "--yes")
    assert "aliases" not in receipt
    assert receipt["counts"] == tried["counts"]
    left = await dump(called.postgres)
    assert lines_with(left, "Katherine") == lines_with(left, "kitty") == lines_with(left, "tulips") == []
    assert lines_with(left, "Hey Kate!")


async def test_an_erasure_takes_what_others_said_with_a_name_that_the_request_names(called: Busy) -> None:
    tried = await called.answer("erase", "user", "kat", "--name", "Kate", "--dry-run")
    assert lines_with(await dump(called.postgres), "Hey Kate!")
    receipt = await called.answer("erase", "user", "kat", "--name", "Kate", "--yes")
    assert receipt["counts"] == tried["counts"]
    assert receipt["counts"]["messages"] == 5
    left = await dump(called.postgres)
    assert lines_with(left, "tulips") == lines_with(left, "Kate") == lines_with(left, "to:kate") == []
    assert lines_with(left, "We met on Monday.")
    assert "kate" not in repr(receipt).lower()


async def test_a_name_can_be_taken_after_the_user_is_erased(called: Busy) -> None:
    await called.answer("erase", "user", "kat", "--yes")
    receipt = await called.answer("erase", "user", "kat", "--name", "kate", "--yes")
    assert receipt["counts"]["messages"] == 3
    assert lines_with(await dump(called.postgres), "kate") == []


async def test_a_name_is_taken_by_an_erasure_that_runs_already(called: Busy) -> None:
    async with called.opened() as database:
        erasures = Erasures(database, lambda: datetime.now(UTC))
        running = await erasures.request(HOST_ID, ErasureTarget(Kind.USER, None, "kat"))
        assert await erasures.request(HOST_ID, ErasureTarget(Kind.USER, None, "kat")) == running
        assert await erasures.request(HOST_ID, ErasureTarget(Kind.USER, None, "kat", ("Kate",))) == running
        receipt = await erasures.run(HOST_ID, running)
    assert (receipt.done, receipt.counts["messages"]) == (True, 5)
    assert lines_with(await dump(called.postgres), "kate") == []


async def test_a_name_is_taken_by_an_erasure_that_is_about_to_end(
    called: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with called.opened() as database:
        erasures = Erasures(database, lambda: datetime.now(UTC))
        running = await erasures.request(HOST_ID, ErasureTarget(Kind.USER, None, "kat"))
        samples = Erasures._erase_samples
        asked: list[UUID] = []

        async def name_meanwhile(self: Erasures, ended: Sequence[tuple[UUID, UUID]]) -> Sequence[None]:
            if not asked:
                asked.append(await erasures.request(HOST_ID, ErasureTarget(Kind.USER, None, "kat", ("Kate",))))
            return await samples(self, ended)

        monkeypatch.setattr(Erasures, "_erase_samples", name_meanwhile)
        receipt = await Erasures(database, lambda: datetime.now(UTC)).run(HOST_ID, running)
    assert asked == [running]
    assert (receipt.done, receipt.counts["messages"]) == (True, 5)
    assert lines_with(await dump(called.postgres), "kate") == []


@pytest.mark.parametrize("name", ["the", "Kate Miller", "", "k8"])
async def test_what_is_no_name_is_refused(called: Busy, name: str) -> None:
    refused = await called.run("erase", "user", "kat", "--name", name, "--yes")
    assert refused.exit_code == 2
    assert lines_with(await dump(called.postgres), "tulips")


async def test_nothing_is_erased_unasked(operated: Operated) -> None:
    refused = await operated.run("erase", "bank", "default")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert lines_with(await dump(operated.postgres), SECRET)


@pytest.mark.parametrize(
    "kind, name", [("unit", str(HOST_ID)), ("session", "sunday"), ("user", "carl"), ("bank", "no")]
)
async def test_what_is_not_there_ends_with_1(operated: Operated, kind: str, name: str) -> None:
    for how in ("--yes", "--dry-run"):
        result = await operated.run("erase", kind, name, how)
        assert result.exit_code == 1
        assert "there is no" in result.stderr


async def test_who_interrupts_an_erasure_is_told_that_it_goes_on(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Erasures, "run", interrupted)
    ended = await operated.run("erase", "session", "monday", "--yes")
    assert (ended.exit_code, "goes on by itself" in ended.stderr) == (130, True)
    async with operated.opened() as database:
        later = Erasures(database, lambda: datetime.now(UTC) + timedelta(minutes=1))
        assert len(await later.list_stalled()) == 1
