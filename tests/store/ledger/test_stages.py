"""What SQL repeats of the registry of stages is what the registry says."""

import re

from store.database import Database
from store.ledger.freshness import FRESHNESS
from store.ledger.stages import OWN, STAGES, TURN_STAGES, Queue, Stage, Stream
from store.maintenance.pruning import COUNT_LEDGER
from tests.store.conftest import new_host, rows

BODY = "select prosrc from pg_proc where pronamespace = 'afterturn'::regnamespace and proname = :name"
CHECK = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'ledger_t_stage_check'"
#: The one function that opens the rows of new turns.
OPENING = "select prosrc from pg_proc where prosrc like '%as s(stage, stream, ready, target)%'"
#: The columns of a new turn that name a stream, as the function that appends turns calls them.
STREAMS = {"session": Stream.SESSION, "turn": Stream.TURN, "bank": Stream.BANK}


async def only(database: Database, query: str, **arguments: object) -> str:
    ((value,),) = await rows(database, await new_host(database), query, **arguments)
    return str(value)


def quoted(part: str) -> set[str]:
    return set(re.findall(r"'(\w+)'", part))


def found(pattern: str, body: str) -> str:
    match = re.search(pattern, body, re.DOTALL)
    assert match, pattern
    return match[1]


def test_every_stage_has_an_entry() -> None:
    assert list(STAGES) == list(Stage)


def test_every_queue_but_that_of_recall_jobs_has_a_stage() -> None:
    assert {spec.queue for spec in STAGES.values()} == set(Queue) - {Queue.RECALL}


async def test_the_ledger_takes_the_rows_of_every_stage_and_no_others(database: Database) -> None:
    assert quoted(await only(database, CHECK)) == set(Stage)


async def test_a_new_turn_opens_the_stages_that_say_so_in_their_streams(database: Database) -> None:
    body = await only(database, OPENING)
    opened = re.findall(r"\('(\w+)', t\.(\w+), (now\(\)|'infinity')", body)
    assert [stage for stage, _, _ in opened] == list(TURN_STAGES)
    for stage, stream, ready in opened:
        spec = STAGES[Stage(stage)]
        assert (STREAMS[stream], ready == "'infinity'") == (spec.stream, spec.waits)


async def test_pruned_rows_come_back_into_their_streams(database: Database) -> None:
    cases = found(r"case b\.stage (.*?) end", await only(database, BODY, name="unprune"))
    named = {stage: STREAMS[kind] for stage, kind in re.findall(r"when '(\w+)' then b\.(\w+)_id", cases)}
    other = STREAMS[found(r"else b\.(\w+)_id", cases)]
    assert {stage: named.get(stage, other) for stage in TURN_STAGES} == {
        stage: STAGES[stage].stream for stage in TURN_STAGES
    }


async def test_pruning_takes_what_an_external_service_skipped(database: Database) -> None:
    skipped = r"stage in \(([^)]*)\) and \w\.status = 'skipped'"
    external = {stage for stage, spec in STAGES.items() if spec.external}
    assert quoted(found(skipped, await only(database, BODY, name="prunable"))) == external
    assert quoted(found(skipped, COUNT_LEDGER.text)) == external


async def test_pruned_turns_are_counted_as_the_ledger_counts_them(database: Database) -> None:
    body = await only(database, BODY, name="prune_ledger")
    counted = {stage for stage, spec in STAGES.items() if spec.counts_items}
    assert set(re.findall(r"or l\.stage = '(\w+)' as counts", body)) == counted


def test_freshness_counts_our_own_stages() -> None:
    assert quoted(found(r"unnest\(array\[([^]]*)\]\)", FRESHNESS.text)) == set(OWN)
    assert set(re.findall(r"s\.stage = '(\w+)'", FRESHNESS.text)) == set(OWN)
