"""Opens each page of the console in a browser, beside a large bank and a large ledger, and measures it."""

import hashlib
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy import text

from deploy.lab.bench.bench_database import BenchDatabase, open_bench_database
from deploy.lab.bench.measures import BenchOutcome, Machine, Measure, MeasureTarget
from deploy.lab.bench.recall.filling import BankFiller, Phrases
from deploy.lab.bench.servers import BenchStack, find_stack_servers, open_private_stack
from deploy.local.private_stack import PrivateStackError
from deploy.local.stack import Stack
from deploy.notices import Say
from embeddings.registry import create_embedder
from store import identity
from store.derived.vector_indexes import VectorIndexes

BANK, QUESTION = "console", "Who likes the garden?"
#: Targets: of the first paint and of all that a page shows, in ms, and of the largest answer to a page, in kB.
PAINT_MS, SHOWN_MS, ANSWER_KB = 1000.0, 1000.0, 200.0
#: How often each page is opened; the median counts.
ROUNDS = 3
#: The longest wait for a page, in ms.
PATIENCE_MS = 60_000.0
#: Entities of the bank, and with how many others each occurs.
ENTITIES, PAIRS = 5_000, 40
MIDDLE = UUID(hashlib.md5(b"7", usedforsecurity=False).hexdigest())
#: Rows of work beside each turn's own, and of a thousand how many are dead, and wait.
STAGES = ("gateway", "extraction", "embedding", "projection", "enrichment")
DEAD, WAITING = 5, 15

TURNS = text("""
    insert into afterturn.turn_t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
    select host_id, turn_id, bank_id, session_id, user_id, sha256(turn_id::text::bytea), position, event_date
      from afterturn.agent_memory_unit_t where host_id = :host and ordinal = 0""")
LEDGER = text("""
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, status,
                                    attempts, error_category, error_reason, next_attempt_at, accepted_at, updated_at)
    select t.host_id, s.stage, case when n = 0 then t.turn_id else md5(t.turn_id::text || n)::uuid end, t.session_id,
           t.bank_id, t.session_id, t.turn_id, t.position, w.status, 1,
           case when w.status = 'dead' then 'timeout' end, case when w.status = 'dead' then 'no answer came' end,
           now() + interval '1 day', now() - interval '1 minute', now() - interval '1 minute'
      from (select row_number() over (order by position) as nth, * from afterturn.turn_t where host_id = :host) t
     cross join generate_series(0, cast(:rows as int)) n
     cross join unnest(cast(:stages as text[])) with ordinality s(stage, place)
     cross join lateral (select case when (t.nth + 37 * n + 11 * s.place) % 1000 < :dead then 'dead'
                                     when (t.nth + 37 * n + 11 * s.place) % 1000 < :dead + :waiting then 'pending'
                                     else 'done' end) w(status)""")
ENTITY_ROWS = text("""
    insert into afterturn.agent_memory_entity_t (host_id, bank_id, entity_id, canonical_name, mention_count, update_ts,
                                                 update_user)
    select :host, :bank, md5(n::text)::uuid, 'Entity ' || n, 1 + n % 50, now(), 'bench'
      from generate_series(1, :entities) n""")
PAIR_ROWS = text("""
    insert into afterturn.agent_memory_entity_cooccur_t (host_id, bank_id, entity_id_1, entity_id_2, cooccur_count,
                                                         last_cooccurred)
    select distinct on (least(a, b), greatest(a, b)) :host, :bank, least(a, b), greatest(a, b), 1 + k, now()
      from generate_series(1, :entities) n
     cross join generate_series(1, :pairs) k
     cross join lateral (select md5(n::text)::uuid, md5((1 + (n * 7 + k * 13) % :entities)::text)::uuid) p(a, b)
     where a <> b""")
# Each pair is of a message that mentions both.
MENTION_ROWS = text("""
    insert into afterturn.agent_memory_unit_entity_t (host_id, bank_id, unit_id, entity_id)
    select :host, :bank, u.unit_id, md5(m::text)::uuid
      from generate_series(1, :entities) n
      join (select unit_id, row_number() over (order by position) as nth, count(*) over () as units
              from afterturn.agent_memory_unit_t where host_id = :host) u on u.nth = 1 + n % u.units
     cross join lateral (select n union select 1 + (n * 7 + k * 13) % :entities from generate_series(1, :pairs) k) p(m)
    on conflict do nothing""")
ANALYZE = (
    "vacuum (analyze) afterturn.ledger_t, afterturn.turn_t, afterturn.agent_memory_entity_cooccur_t, "
    "afterturn.agent_memory_unit_entity_t"
)
OF_THE_MIDDLE = text("""
    select unit_id, turn_id, session_name, turn_name from afterturn.agent_memory_unit_t
     where host_id = :host and origin = 'message' order by position limit 1 offset :skipped""")
#: What the browser measured since the navigation began, in ms.
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()"


@dataclass(frozen=True, slots=True)
class ConsoleSizes:
    """The size of a run: a bank of `units` messages, each a turn, and about `rows` rows of work."""

    units: int = 100_000
    rows: int = 1_000_000


FULL = ConsoleSizes()


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A page: its address behind the #, and what is there when it shows what it has to show."""

    name: str
    address: str
    shows: str
    #: What is done there before that: a button that is pressed, or a question that is asked.
    press: str = ""
    ask: str = ""


@dataclass(slots=True)
class Visit:
    """What a browser measured of one page: ms until the first paint and until all is there, and its answers' kB."""

    paint_ms: float = 0.0
    shown_ms: float = 0.0
    largest_kb: float = 0.0
    counted: list[str] = field(default_factory=list)


def servers(_data: Path | None = None) -> AbstractContextManager[BenchStack]:
    """Open a private stack with one worker. Raises PrivateStackError where no browser is installed."""
    _find_browser()
    return open_private_stack("console", 1)


def _find_browser() -> str:
    found = shutil.which("chromium")
    try:
        import playwright  # noqa: F401, PLC0415 - only this benchmark drives a browser
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise PrivateStackError("this needs Debian's chromium on the PATH and the package playwright")
    return found


async def run(on: BenchStack, say: Say, sizes: ConsoleSizes) -> BenchOutcome:
    """Fill a bank and the ledger, then open every page some times."""
    stack = on.stack
    async with open_bench_database(find_stack_servers(stack)) as here:
        database = here.database(2)
        try:
            key = await here.new_key(database)
            say(f"a bank of {sizes.units} units, a ledger of {sizes.rows} rows")
            await _fill(here, stack, sizes)
            pages = await _list_pages(here, sizes)
            visits = await _visit_all(stack, key, pages, say)
        finally:
            await database.close()
        async with here.owner.connect() as connection:
            machine = await Machine.read(connection)
    return BenchOutcome(machine, list(_describe(visits)), asdict(sizes), dict(_list_parts(visits)))


async def _fill(here: BenchDatabase, stack: Stack, sizes: ConsoleSizes) -> None:
    host, bank = here.newest_host, identity.bank_id(here.newest_host, BANK)
    embedder = create_embedder(stack.embedding, stack.api_key_file.parent)
    try:
        await embedder.load()
        filler = BankFiller(here.owner, host, await Phrases.read(embedder))
    finally:
        await embedder.close()
    await filler.fill(BANK, sizes.units)
    await filler.fill_sessions(BANK, sizes.units)
    async with here.owner.begin() as connection:
        place = {"host": host, "bank": bank, "entities": ENTITIES, "pairs": PAIRS}
        await connection.execute(TURNS, {"host": host})
        more = max(0, sizes.rows // (sizes.units * len(STAGES)) - 1)
        work = {"host": host, "rows": more, "stages": list(STAGES), "dead": DEAD, "waiting": WAITING}
        await connection.execute(LEDGER, work)
        await connection.execute(ENTITY_ROWS, place)
        await connection.execute(PAIR_ROWS, place)
        await connection.execute(MENTION_ROWS, place)
    await filler.settle()
    async with here.owner.connect() as connection:
        autocommit = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await autocommit.execute(text(ANALYZE))
    indexes = VectorIndexes(here.servers.owner_url.get_secret_value(), stack.recall.exact_units)
    while await indexes.build_some():
        pass


async def _list_pages(here: BenchDatabase, sizes: ConsoleSizes) -> list[ConsolePage]:
    """Return the pages to open, of things in the middle of the bank."""
    host = here.newest_host
    async with here.owner.connect() as connection:
        found = (await connection.execute(OF_THE_MIDDLE, {"host": host, "skipped": sizes.units // 2})).one()

    def at(page: str, **query: str | UUID) -> str:
        return f"{page}?{urlencode({'bank': BANK, **query})}"

    turn = {"session_id": found.session_name, "turn_id": found.turn_name}
    table, card = "main table tbody tr", "main .card.unit"
    return [
        ConsolePage("now", "now", "main .chart canvas"),
        ConsolePage("work", "work", table),
        ConsolePage("work: dead", "work?status=dead", table),
        ConsolePage("letters", "letters", "main .empty"),
        ConsolePage("job", f"job?{urlencode({'id': found.turn_id, 'tenant': await _name_of(here)})}", table),
        ConsolePage("banks", "memory", table),
        ConsolePage("sessions", at("bank"), table),
        ConsolePage("units", at("bank", view="units"), card),
        ConsolePage("facts", at("bank", view="facts"), ".empty, main .card.unit"),
        ConsolePage("single memories", at("bank", view="memories"), "main .empty"),
        ConsolePage("entities", at("bank", view="entities"), table),
        ConsolePage("documents", at("bank", view="documents"), "main .empty"),
        ConsolePage("reflections", at("bank", view="reflections"), "main .empty"),
        ConsolePage("session", at("session", session_id=found.session_name), table),
        ConsolePage("turn", at("turn", **turn), card),
        ConsolePage("unit", at("unit", unit_id=found.unit_id), "main .unit-whole"),
        ConsolePage("recall", at("recall"), ".result", ask=QUESTION),
        ConsolePage("people", "people", "main .empty, main table tbody tr"),
        ConsolePage("person", at("person", name="Rowan"), "main .empty, main .rows"),
        ConsolePage("around", at("around", entity_id=MIDDLE), "main .graph circle"),
        ConsolePage("around: 300", at("around", entity_id=MIDDLE, most="300"), "main .graph circle"),
        ConsolePage("operate", "operate", table),
        ConsolePage("tenant", f"tenant?id={host}", "main table[aria-label=Quotas]"),
        ConsolePage("targets", "targets", "main .empty"),
        ConsolePage("vectors", "vectors", table),
        ConsolePage("audit", "audit", table),
        ConsolePage("settings", "settings", table),
        ConsolePage("doctor", "doctor", ".findings li"),
        ConsolePage("erasure", "erasure", "main form"),
    ]


async def _name_of(here: BenchDatabase) -> str:
    async with here.owner.connect() as connection:
        found = await connection.execute(
            text("select name from afterturn.host_t where host_id = :host"), {"host": here.newest_host}
        )
        return str(found.scalar_one())


async def _visit_all(stack: Stack, key: str, pages: list[ConsolePage], say: Say) -> Mapping[str, Visit]:
    operator = stack.operator_key()
    found: dict[str, Visit] = {}
    async with _open_browser(stack.api) as browser:
        await browser.sign_in(key, operator)
        for page in pages:
            middle = _take_medians([await browser.visit(page) for _ in range(ROUNDS)])
            found[page.name] = middle
            say(
                f"{page.name}: painted after {middle.paint_ms:.0f} ms, all there after {middle.shown_ms:.0f} ms, "
                f"largest answer {middle.largest_kb:.0f} kB{', counted' if middle.counted else ''}"
            )
    return found


def _take_medians(visits: Sequence[Visit]) -> Visit:
    """Return the median of each duration, the largest answer, and what was counted in any of the visits."""
    return Visit(
        paint_ms=median(one.paint_ms for one in visits),
        shown_ms=median(one.shown_ms for one in visits),
        largest_kb=max(one.largest_kb for one in visits),
        counted=sorted({count for one in visits for count in one.counted}),
    )


@asynccontextmanager
async def _open_browser(api: str) -> AsyncGenerator["ConsoleBrowser"]:
    from playwright.async_api import async_playwright  # noqa: PLC0415 - only this benchmark drives a browser

    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=_find_browser(), args=["--no-sandbox"])
        context = await chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
        context.set_default_timeout(PATIENCE_MS)
        yield ConsoleBrowser(api, await context.new_page())
        await chromium.close()


class ConsoleBrowser:
    """A page of a browser that is signed in."""

    def __init__(self, api: str, page: Any) -> None:
        self._api = api
        self._page = page

    async def sign_in(self, key: str, operator: str) -> None:
        """Sign in with a tenant's key, and add an operator's."""
        await self._page.goto(f"{self._api}/console")
        await self._enter(key)
        await self._page.locator(".side").wait_for()
        await self._page.goto(f"{self._api}/console#/now")
        await self._enter(operator)
        await self._page.locator("main .figures").wait_for()

    async def _enter(self, key: str) -> None:
        await self._page.locator("input[type=password]").fill(key)
        await self._page.locator("form button[type=submit]").click()

    async def visit(self, page: ConsolePage) -> Visit:
        """Open a page anew, as from a bookmark, and measure until it shows what it has to show.

        Content that the console hides until it is asked for, and a question, are asked for as soon as the page is
        there; what is shown then counts from the beginning of the navigation, too.
        """
        told, answers = Visit(), list[Any]()

        def listen(answer: Any) -> None:
            answers.append(answer)

        self._page.on("response", listen)
        await self._page.goto("about:blank")
        await self._page.goto(f"{self._api}/console#/{page.address}", wait_until="commit")
        await self._page.locator(f"{page.shows}, .empty button.primary, form.ask").first.wait_for()
        told.paint_ms = float(await self._page.evaluate(PAINT))
        gate = self._page.locator(".empty button.primary")
        if await gate.count():
            await gate.first.click()
        if page.ask:
            await self._page.locator("#question").fill(page.ask)
            await self._page.locator("form.ask button[type=submit]").click()
        await self._page.locator(page.shows).first.wait_for()
        told.shown_ms = float(await self._page.evaluate("performance.now()"))
        self._page.remove_listener("response", listen)
        for one in answers:
            if "/api/" in one.url and not one.url.endswith("/stream"):
                told.largest_kb = max(told.largest_kb, len(await one.body()) / 1000)
                told.counted += [one.url] if "/count" in one.url else []
        return told


def _describe(visits: Mapping[str, Visit]) -> Iterator[Measure]:
    """Yield the figures of the slowest page, and of the largest answer; `parts` holds those of each page."""
    seen = visits.values()
    yield Measure("first_paint", "ms", max(one.paint_ms for one in seen), MeasureTarget("<=", PAINT_MS))
    yield Measure("all_there", "ms", max(one.shown_ms for one in seen), MeasureTarget("<=", SHOWN_MS))
    yield Measure("largest_answer", "kB", max(one.largest_kb for one in seen), MeasureTarget("<=", ANSWER_KB))
    yield Measure("unasked_counts", "counts", float(sum(len(one.counted) for one in seen)), MeasureTarget("<=", 0.0))


def _list_parts(visits: Mapping[str, Visit]) -> Iterator[tuple[str, float]]:
    for name, one in visits.items():
        yield f"{name}: painted ms", one.paint_ms
        yield f"{name}: all there ms", one.shown_ms
        yield f"{name}: largest answer kB", one.largest_kb
