"""The registry of stages: one entry for each kind of work, read by ledger, broker and reports.

SQL reads it as `afterturn.stages()`, which every upgrade generates from it (`describe_stages`): the ledger's check, the
rows that a new turn opens, freshness and pruning use that function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Queue(StrEnum):
    """The notification queues, one for each class of latency."""

    RECALL = "recall"
    GATEWAY = "gateway"
    EXTRACTION = "extraction"
    ENRICHMENT = "enrichment"
    EMBEDDING = "embedding"


class Stream(StrEnum):
    """The rows of a stage that one claim takes together: those of a session or a bank, or one row alone.

    `TURN` and `ITEM` are alike: the stream of such a row is its item. `TURN` says that the item is mostly a turn.
    """

    SESSION = "session"
    TURN = "turn"
    BANK = "bank"
    ITEM = "item"


class Stage(StrEnum):
    """The kinds of work on turns; `STAGES` says how each is run."""

    GATEWAY = "gateway"
    EXTRACTION = "extraction"
    #: A model reads beside the rules, where one is configured.
    ENRICHMENT = "enrichment"
    EMBEDDING = "embedding"
    PROJECTION = "projection"


@dataclass(frozen=True, slots=True)
class StageSpec:
    """The registry's entry of a stage: how it is run and counted.

    `queue` carries its notifications and has `threads` threads for it in each worker, added up where stages share it.
    `ordered`: it takes the turns of a session in the order they were accepted.
    `opened_by_turn`: every new turn opens a row of it (for the gateway's: a turn with a target); rows of the others
    are opened by a stage before them. `deferred` (`waits` in SQL): that row is ready only when another
    stage releases it: the end of the turn's extraction releases projection (`close_claims`, `claim_work`); no other
    stage uses this yet.
    `external`: the work is another service's: its backlog is counted neither in freshness nor for load shedding, and
    a row that was skipped is as good as done when the ledger is pruned.
    `counts_items`: each row counts as a turn in reports, not only the row of the turn itself.
    `newest_first`: it is claimed newest first, however short the wait.
    `pruned_alone`: it may get a row for a turn whose rows were pruned, which is then pruned by itself
    (`Pruning.late_rows`). The gateway's stage gets none; every turn has a row of projection, and `Pruning.ledger` walks
    those.
    """

    queue: Queue
    stream: Stream
    threads: int = 1
    ordered: bool = False
    opened_by_turn: bool = True
    deferred: bool = False
    external: bool = False
    counts_items: bool = False
    newest_first: bool = False
    pruned_alone: bool = True


STAGES: Mapping[Stage, StageSpec] = MappingProxyType(
    {
        Stage.GATEWAY: StageSpec(Queue.GATEWAY, Stream.SESSION, ordered=True, external=True, pruned_alone=False),
        Stage.EXTRACTION: StageSpec(Queue.EXTRACTION, Stream.SESSION, ordered=True),
        Stage.ENRICHMENT: StageSpec(
            Queue.ENRICHMENT, Stream.ITEM, opened_by_turn=False, external=True, counts_items=True
        ),
        Stage.EMBEDDING: StageSpec(Queue.EMBEDDING, Stream.TURN, newest_first=True),
        Stage.PROJECTION: StageSpec(Queue.EXTRACTION, Stream.BANK, deferred=True, pruned_alone=False),
    }
)

#: The stages every turn passes. The gateway's has rows only of turns that a gateway is to get.
TURN_STAGES = tuple(stage for stage, spec in STAGES.items() if spec.opened_by_turn)

#: The stages that have work as soon as a turn, a document or a memory is written. A deferred one has it later; the
#: gateway's has it for a turn with a target, which the writer is told.
READY_AT_ONCE = tuple(stage for stage in TURN_STAGES if not STAGES[stage].deferred and stage is not Stage.GATEWAY)

#: Stages that see the turns of a session in the order they were accepted.
ORDERED = frozenset(stage for stage, spec in STAGES.items() if spec.ordered)

#: Stages whose backlog is our own: counted in freshness and for load shedding.
OWN = tuple(stage for stage, spec in STAGES.items() if not spec.external)


def describe_stages() -> list[dict[str, object]]:
    """Return the stages in the form that SQL takes (`afterturn.set_stages`)."""
    return [
        {
            "stage": stage.value,
            "stream": spec.stream.value,
            "opened_by_turn": spec.opened_by_turn,
            "waits": spec.deferred,
            "external": spec.external,
            "counts_items": spec.counts_items,
        }
        for stage, spec in STAGES.items()
    ]


def count_threads(queue: Queue) -> int:
    """Return how many threads of a worker serve a queue: the sum over its stages."""
    return sum(spec.threads for spec in STAGES.values() if spec.queue is queue)
