"""Quotas of bytes: whatever callers write is charged, and a recount of what is there finds what was charged."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from store import identity
from store.database import Database
from store.erasure import Erasures, ErasureTarget, Kind
from store.errors import QuotaExceeded
from store.memory.directives import LINK_BYTES, Curation, NewDirective, NewLink
from store.memory.documents import Documents, NewDocument, content_hash
from store.memory.turns import Appended, NewMessage, NewTurn, TurnStore
from store.memory.units import Units
from store.plugin.memories import PluginMemories, PluginMemory
from store.plugin.namespaces import NamespaceChange, Namespaces
from store.plugin.vectors import normalise_vector
from store.recall.jobs import RecallJobs
from store.replay import verify_log
from store.tenancy.keys import Keys
from store.tenancy.quotas import QuotaLimits, Quotas
from tests.servers import TestPostgres
from tests.store.conftest import rows, settings_of

PLENTY = 1_000_000
LEASE = timedelta(seconds=30)


@dataclass
class Writer:
    """Everything that writes for a host with a quota, on a clock of its own: a recount is never too soon."""

    database: Database
    name: str
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    units: list[UUID] = field(default_factory=list)

    @property
    def host(self) -> UUID:
        return identity.host_id(self.name)

    def clock(self) -> datetime:
        self.now += timedelta(minutes=2)
        return self.now

    @property
    def curation(self) -> Curation:
        return Curation(self.database, self.clock)

    @property
    def documents(self) -> Documents:
        return Documents(self.database, self.clock)

    @property
    def jobs(self) -> RecallJobs:
        return RecallJobs(self.database, self.clock)

    async def limit(self, most: int) -> None:
        for bank in (None, "home"):
            await Quotas(self.database, self.clock).set(self.name, bank, QuotaLimits(max_bytes=most))

    async def used(self) -> list[int]:
        """The bytes of the host and of its bank, as charged."""
        return [quota.bytes for quota in await Quotas(self.database, self.clock).show(self.name)]

    async def turn(self, name: str = "t") -> None:
        parts = [{"type": "image", "data": "x" * 40}]
        messages = [NewMessage("user", "grüße"), NewMessage("assistant", "[image]", parts=parts)]
        new = NewTurn("home", "s", name, messages, metadata={"place": "Łódź", "tags": ["a", "b"]})
        [answer] = await TurnStore(self.database, self.clock).append(self.host, [new])
        if not isinstance(answer, Appended):
            raise answer
        found = await rows(self.database, self.host, "select unit_id from agent_memory_unit_t order by position")
        self.units = [unit for (unit,) in found]

    async def document(self, text: str = "one\n\n" + "word " * 400) -> None:
        new = NewDocument("home", content_hash(text.encode()), text, title="tïtle", metadata={"k": "v" * 30})
        await self.documents.add(self.host, new)

    async def register(self) -> None:
        await self.documents.register(
            self.host, NewDocument("home", content_hash(b"f"), title="file", metadata={"a": "b"})
        )

    async def directive(self, content: str = "be brief") -> None:
        await self.curation.lay_down(self.host, "home", NewDirective("tone", content))

    async def link(self, weight: float = 0.5) -> None:
        await self.curation.link(self.host, "home", NewLink(self.units[0], self.units[1], "causes", weight))

    async def correct(self, content: str = "grüße an alle") -> None:
        await Units(self.database, self.clock).correct(self.host, "home", self.units[0], content)

    async def pin(self, *, pinned: bool = True) -> None:
        await Units(self.database, self.clock).pin(self.host, "home", self.units[1], pinned=pinned)

    async def namespace(self, metadata: str = '{"of": "the plugin"}') -> None:
        change = NamespaceChange(frozenset({"metadata"}), metadata=metadata)
        await Namespaces(self.database, self.clock).upsert(self.host, "home", "team", change)

    async def memory(self, numbers: Sequence[float] = (3.0, 4.0), name: UUID | None = None) -> None:
        await self.namespace()
        vector = normalise_vector(list(numbers))
        memory = PluginMemory(name or uuid4(), "", "fact", "agent", vector=vector)
        await PluginMemories(self.database, self.clock).write(self.host, "home", memory)

    async def job(self) -> None:
        await self.jobs.open(self.host, {"bank": "home", "query": "who?"}, timedelta(days=30))


COMMANDS: Mapping[str, Callable[[Writer], Awaitable[None]]] = {
    "a turn": lambda writer: writer.turn("another"),
    "a document": Writer.document,
    "a file": Writer.register,
    "a directive": Writer.directive,
    "a link": Writer.link,
    "a correction": Writer.correct,
    "a pin": Writer.pin,
    "a recall job": Writer.job,
    "a namespace": Writer.namespace,
    "a vector": Writer.memory,
}


@pytest_asyncio.fixture(loop_scope="session")
async def writer(database: Database) -> Writer:
    made = Writer(database, f"host-{uuid4().hex}")
    await Keys(database).create(made.name, "test")
    await made.limit(PLENTY)
    await made.turn()
    return made


async def everything(writer: Writer) -> None:
    """Write by every command, some of them twice."""
    for write in COMMANDS.values():
        await write(writer)
    await writer.directive("be very brief")
    await writer.link(1.0)
    await writer.correct("grüße an niemanden")
    await writer.pin(pinned=False)
    (job, _), lease = await writer.jobs.open(writer.host, {"bank": "home", "query": "what?"}, LEASE * 1000), LEASE
    taken = await writer.jobs.take(writer.host, job, lease)
    assert taken is not None
    await writer.jobs.finish(taken, b'{"results": ["much"]}')
    name = uuid4()
    for numbers in ((1.0, 2.0), (1.0,) * 30, (2.0,) * 3):
        await writer.memory(numbers, name)
    await writer.namespace('{"of": "the plugin, but longer"}')
    cancelled, _ = await writer.jobs.open(writer.host, {"bank": "home", "query": "never mind"}, LEASE * 1000)
    await writer.jobs.cancel(writer.host, cancelled)


async def test_a_recount_after_any_commands_finds_what_they_were_charged(writer: Writer) -> None:
    await everything(writer)
    charged = await writer.used()
    await writer.limit(PLENTY)
    assert await writer.used() == charged
    assert charged[0] == charged[1] > 0


@pytest.mark.parametrize("command", COMMANDS)
async def test_each_command_is_charged(writer: Writer, command: str) -> None:
    before = await writer.used()
    await COMMANDS[command](writer)
    assert all(now > then for now, then in zip(await writer.used(), before, strict=True))


@pytest.mark.parametrize("command", COMMANDS)
async def test_each_command_is_refused_when_the_quota_is_full_and_writes_nothing(writer: Writer, command: str) -> None:
    tables = ("event_store_t", "recall_job_t", "turn_t")
    await writer.limit((await writer.used())[0])
    before = [await rows(writer.database, writer.host, f"select count(*) from {table}") for table in tables]
    with pytest.raises(QuotaExceeded) as refused:
        await COMMANDS[command](writer)
    assert refused.value.details["limit"] == "max_bytes"
    assert before == [await rows(writer.database, writer.host, f"select count(*) from {table}") for table in tables]


async def test_what_was_withdrawn_makes_room_for_what_comes(writer: Writer) -> None:
    await writer.directive("x" * 500)
    await writer.limit((await writer.used())[0])
    [one] = (await writer.curation.directives(writer.host, "home", 10)).rows
    await writer.curation.withdraw(writer.host, "home", one.directive_id)
    await writer.document("x" * 300)


async def test_each_text_of_a_unit_is_charged_and_its_erasure_gives_all_back(writer: Writer) -> None:
    [before, _] = await writer.used()
    for n in range(5):
        await writer.correct("x" * (1000 + n))
    [after, _] = await writer.used()
    assert after - before > 5 * 1000
    erasures = Erasures(writer.database, writer.clock)
    await erasures.run(writer.host, await erasures.request(writer.host, ErasureTarget(Kind.SESSION, "home", "s")))
    assert await writer.used() == [0, 0]


async def test_vectors_and_metadata_cost_what_they_take_and_go_with_their_namespace(writer: Writer) -> None:
    await writer.namespace("")
    [before, _] = await writer.used()
    await writer.namespace("x" * 1000)
    assert (await writer.used())[0] - before == 1000
    await writer.limit((await writer.used())[0] + 4000)
    for _ in range(2):
        with pytest.raises(QuotaExceeded):
            await writer.memory((1.0,) * 1400)
    await writer.memory((1.0,) * 500)
    namespaces, memories = Namespaces(writer.database, writer.clock), PluginMemories(writer.database, writer.clock)
    await namespaces.begin_end(writer.host, "home")
    await memories.forget_all(writer.host, "home")
    await namespaces.remove(writer.host, "home")
    assert (await writer.used())[0] < before + 500


async def test_a_link_costs_as_much_as_is_said(writer: Writer) -> None:
    [before, _] = await writer.used()
    await writer.link()
    assert (await writer.used())[0] - before == LINK_BYTES


async def test_a_replay_counts_the_same_bytes(fresh_database: TestPostgres) -> None:
    own = Database(settings_of(fresh_database))
    try:
        await Keys(own).create("default", "test")
        writer = Writer(own, "default")
        await writer.turn()
        await everything(writer)
        report = await verify_log(fresh_database.owner_url)
        assert [table.first_differences for table in report.tables if not table.equal] == []
        await writer.limit(PLENTY)
        assert (await writer.used())[0] > 0
    finally:
        await own.close()


async def test_a_documents_metadata_are_kept_once_and_not_with_each_unit(writer: Writer) -> None:
    await writer.document()
    count: list[tuple[Any, ...]] = await rows(
        writer.database,
        writer.host,
        """select count(*), count(*) filter (where u.metadata = '{}'),
                  (select count(*) from event_store_t e where e.data ? 'metadata'
                      and e.data->>'docId' is not null)
             from agent_memory_unit_t u where u.origin = 'document'""",
    )
    [(units, bare, events)] = count
    assert units == bare > 1
    assert events == 1
