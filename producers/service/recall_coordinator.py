"""Requests and answers of recall, the same for every interface.

A recall waits for the position it shall show, then reads once; the answer says whether it shows it.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Self
from uuid import UUID

from afterturn_client.contract.freshness import UNWRITTEN, Freshness
from afterturn_client.contract.knowledge import Directive
from afterturn_client.contract.recall import NO_EVIDENCE, Evidence
from afterturn_client.reference import FrameForm
from pydantic import AfterValidator, Field, model_validator

from embeddings.prompt_tokens import ESTIMATE
from embeddings.protocol import TokenCounter
from producers import fair_queue, metrics
from producers.errors import FieldProblem, Invalid, Unavailable
from producers.service.fields import (
    NAME_BYTES,
    DefaultBank,
    MinPosition,
    Moment,
    Name,
    SessionName,
    WaitMs,
    field_error,
)
from producers.service.gateway_recall import GatewayFinding, GatewayQuestion, GatewayRecall, fit_finding
from producers.service.read_replica import ReadReplica, RecallReader, note_failure
from producers.service.wire import RequestModel
from store import identity
from store.concurrent_calls import gather_or_cancel
from store.database import Database
from store.gen_ai_spans import RECORDS, MemoryOperation, trace_memory
from store.ledger.freshness import Waiter, fetch_freshness, merge_freshness
from store.log.storable import check_text
from store.recall.budget import fit_with_pins
from store.recall.pinned_arm import limit_pinned
from store.recall.preparation import DIRECTIVES
from store.recall.printing import AnswerPrinter
from store.recall.query import MOST_K, RecallAnswer, Recalled, RecallQuery, TimeOf
from store.recall.recaller import OPTIONAL_PARTS
from store.tenancy.keys import Grant

MAX_QUERY_BYTES = 16_384
MAX_TTL_S = 86_400
MAX_METADATA, MAX_KINDS, MAX_SESSIONS = 16, 16, 64
#: The number of results requested from a gateway where a question names none.
GATEWAY_K = 8
#: Most recent messages of a session that are read: some more than a history shows.
MAX_RECENT = 64
#: Banks that are searched concurrently in a recall across banks.
BANKS_TOGETHER = 4

Source = Literal["local", "gateway"]

for _part in OPTIONAL_PARTS:  # not in metrics.py, which is imported where nothing recalls
    metrics.RECALL_DEGRADED.labels(_part)


def _check_question(text: str) -> str:
    if not check_text(text).strip() or len(text.encode()) > MAX_QUERY_BYTES:
        raise field_error(f"must not be blank, and have at most {MAX_QUERY_BYTES} bytes")
    return text


def _filter_value(text: str) -> str:
    if len(check_text(text).encode()) > NAME_BYTES:
        raise field_error(f"must have at most {NAME_BYTES} bytes")
    return text


FilterValue = Annotated[str, AfterValidator(_filter_value)]


def _local_sources() -> list[Source]:
    return ["local"]


class RecallBody(RequestModel):
    """A question to one bank."""

    bank: DefaultBank = "default"
    query: Annotated[str, AfterValidator(_check_question)] = Field(
        repr=False, description=f"the question, at most {MAX_QUERY_BYTES} bytes of UTF-8"
    )
    k: int | None = Field(
        None,
        ge=1,
        le=MOST_K,
        description="most units of the answer; alone, without `max_tokens`: this number of whole units",
    )
    session_id: SessionName | None = Field(
        None,
        description="the caller's own id of the session that asks: its newest messages are embedded first",
    )
    exclude_session: bool = Field(False, description="whether to leave out units of `session_id`, which it needs")
    skip_recent: int = Field(
        0,
        ge=0,
        le=MAX_RECENT,
        description="newest messages of `session_id` to leave out, since the agent has them in its context",
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="most tokens that a prompt pays for `reference`, with its frame, dates and directives; filled with "
        "passages; left out, without `k`: as the service is set (`recall.answer_tokens`)",
    )
    min_score: float | None = Field(
        None,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="least score of a unit; left out: none is left out for its score",
    )
    sessions: list[SessionName] = Field(
        default_factory=list,
        max_length=MAX_SESSIONS,
        description="sessions to search, by the caller's own ids; empty: all",
    )
    roles: list[Literal["user", "assistant", "tool", "system", "developer"]] = Field(
        default_factory=list, max_length=MAX_KINDS, description="roles of the speakers to search; empty: all"
    )
    begin: Moment | None = Field(None, alias="from", description="earliest time, included")
    end: Moment | None = Field(None, alias="to", description="latest time, not included")
    time: TimeOf = Field(
        "occurred", description="time that `from` and `to` compare: when it happened or when it was said"
    )
    kinds: list[Literal["world", "experience", "opinion", "observation", "mental_model"]] = Field(
        default_factory=list, max_length=MAX_KINDS, description="fact types to search; empty: all"
    )
    tags: list[Name] = Field(
        default_factory=list, max_length=64, description="tags of which a unit has at least one; empty: any or none"
    )
    metadata: dict[FilterValue, FilterValue] = Field(
        default_factory=dict,
        max_length=MAX_METADATA,
        repr=False,
        description="metadata that a unit has all of, by name",
    )
    user_id: Name | None = Field(None, description="the caller's own id of a user: only units of that user's turns")
    across_banks: bool = Field(
        False,
        description="whether to search the banks that one user wrote to last, among those the key reads, instead of "
        "`bank`; needs `user_id` or a key of a user",
    )
    as_of: Moment | None = Field(None, description="leave out what happened later")
    known_at: Moment | None = Field(
        None, description="leave out what was recorded later, and show corrected texts as they were then"
    )
    min_position: MinPosition = None
    wait_ms: WaitMs = 0
    sources: list[Source] = Field(
        default_factory=_local_sources,
        min_length=1,
        max_length=2,
        description="where to search: this service, the gateway target, or both; a gateway needs `session_id`",
    )
    reference: FrameForm = Field(
        "lines", description="form of `reference`: a line for each result, or JSON with every field, at more tokens"
    )
    explain: bool = Field(
        False, description="whether to answer how each score came about, and the milliseconds of each step"
    )
    without: list[Name] = Field(
        default_factory=list, max_length=16, description="arms and rules to leave out, to measure what each contributes"
    )

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.exclude_session and self.session_id is None:
            raise field_error("exclude_session needs a session_id")
        if self.skip_recent and self.session_id is None:
            raise field_error("skip_recent needs a session_id")
        if "gateway" in self.sources and self.session_id is None:
            raise field_error("sources: a gateway is asked about a session; give a session_id")
        if self.begin is not None and self.end is not None and self.begin >= self.end:
            raise field_error("to: must be later than from")
        if self.across_banks and (self.session_id is not None or self.sources != ["local"]):
            raise field_error("across_banks: neither a session nor a gateway is asked across banks")
        return self

    def query_of_store(self, host: UUID) -> RecallQuery:
        """Return the question as a query of the store."""
        return RecallQuery(
            text=self.query,
            user=None if self.user_id is None else identity.user_id(host, self.user_id),
            session_name=self.session_id,
            time_of=self.time,
            form=self.reference,
            tells_users=True,
            asker=self.user_id,
            **{name: getattr(self, name) for name in FIELDS_OF_QUERY},
        )


#: Fields that a question to the store takes from a body unchanged, under the same name.
FIELDS_OF_QUERY = sorted(RecallBody.model_fields.keys() & RecallQuery.__dataclass_fields__.keys())


class RecallJobBody(RecallBody):
    """A question for a worker."""

    ttl_s: int = Field(300, ge=1, le=MAX_TTL_S, description="seconds for which the answer is kept")


class RecallJobRequest(RecallBody):
    """A stored question of a recall job; `banks` are those the caller could read when it asked.

    `target` is the gateway target they could ask then.
    """

    banks: list[str] | None = None
    target: UUID | None = None


@dataclass(frozen=True, slots=True)
class RecallResult:
    """Recalled units, best first; `took_ms` excludes waiting; `trace`: its steps, shown with `explain`.

    `degraded` names the parts that did not answer; `directives` are the bank's, the most important first. `evidence`
    says whether the items are likely to answer at all, `bank_known` whether there is such a bank. `form` is that of the
    block for a prompt, `tokens` what the prompt pays for it, `unembedded` how
    many of the newest texts were searched by words alone.
    """

    items: Sequence[Recalled]
    freshly: Freshness
    took_ms: float
    explain: bool = False
    gateway: GatewayFinding | None = None
    trace: Mapping[str, float] = field(default_factory=dict)
    degraded: Sequence[str] = ()
    directives: Sequence[Directive] = ()
    evidence: Evidence = NO_EVIDENCE
    bank_known: bool = True
    form: FrameForm = "lines"
    tokens: int = 0
    unembedded: int = 0


class RecallCoordinator:
    """Answers recalls, in the API and in workers."""

    def __init__(
        self,
        database: Database,
        recaller: RecallReader,
        waiter: Waiter,
        gateway: GatewayRecall | None = None,
        replica: ReadReplica | None = None,
        *,
        counter: TokenCounter = ESTIMATE,
    ) -> None:
        self._database = database
        self.counter = counter
        self._recaller = recaller
        self._waiter = waiter
        self._gateway = gateway
        self._replica = replica

    async def choose_target(self, grant: Grant, body: RecallBody, bank: str) -> UUID | None:
        """Return the gateway target to search for a question to this bank; None where it searches no gateway.

        Raises Invalid, PermissionDenied.
        """
        if "gateway" not in body.sources:
            return None
        if self._gateway is None:
            raise Invalid(FieldProblem("sources", "this service asks no gateways; use local"))
        return await self._gateway.choose(grant, bank)

    async def answer(self, host: UUID, body: RecallBody, target: UUID | None = None) -> RecallResult:
        """Return the answer to a question from all its sources, searched in parallel; it names a gateway that failed.

        `target` is the gateway target that was chosen for the caller.

        Raises PositionBeyondLog for a position that was never issued, Unavailable when only the gateway was searched
        and did not answer.
        """
        if "gateway" not in body.sources or self._gateway is None:
            return await self._answer_locally(host, body)
        asked = GatewayQuestion(host, body.bank, body.session_id or "", body.query, body.k or GATEWAY_K, target)
        asking = asyncio.ensure_future(self._gateway.find(asked))
        try:
            answer = await (
                self._answer_locally(host, body) if "local" in body.sources else self._answer_nothing(host, body)
            )
            fair_queue.give_back()
            finding = await asking
        finally:
            asking.cancel()
        if finding.category is not None and "local" not in body.sources:
            raise Unavailable(f"the gateway did not answer: {finding.category}")
        room = None if body.max_tokens is None else body.max_tokens - answer.tokens
        finding, used = fit_finding(finding, room, self.counter, form=body.reference, framed=bool(answer.items))
        took = max(answer.took_ms, finding.took_ms)
        return replace(answer, gateway=finding, took_ms=took, tokens=answer.tokens + used)

    async def _answer_nothing(self, host: UUID, body: RecallBody) -> RecallResult:
        """Return the answer of a question without the source `local`: no results, only the freshness."""
        return RecallResult((), await self.freshness(host, body.bank, None, 0), 0.0, form=body.reference)

    async def answer_across_banks(self, host: UUID, body: RecallBody, banks: Sequence[str]) -> RecallResult:
        """Return one answer from several banks, each searched alike; every item names its bank.

        `freshness` is that of `merge_freshness`. It has no directives, which are for
        readers of a single bank. Without any bank, it says nothing of the named one, which may be another user's.
        Raises PositionBeyondLog.
        """
        if not banks:
            return RecallResult((), UNWRITTEN, 0.0)
        return await self._answer_locally(host, body, banks)

    async def _search_banks(
        self, host: UUID, query: RecallQuery, banks: Sequence[str], recaller: RecallReader
    ) -> RecallAnswer:
        asked = [replace(query, bank=bank, merged=True, without=(*query.without, DIRECTIVES)) for bank in banks]
        items, fresh, degraded = list[Recalled](), list[Freshness](), dict[str, None]()
        best, room, read, unembedded = NO_EVIDENCE, query.max_tokens, 0, 0
        for at in range(0, len(asked), BANKS_TOGETHER):
            some = asked[at : at + BANKS_TOGETHER]
            answers = await gather_or_cancel(*(self.search_bank(host, one, recaller) for one in some))
            found = [replace(item, bank=of.bank) for of, one in zip(some, answers, strict=True) for item in one.items]
            # WHY in each round: an item that is not among the best `k` of some banks is not among those of all.
            items = _merge_items([*items, *found], query.most)
            fresh += [one.freshness for one in answers]
            room = answers[0].room
            read += sum(one.characters for one in answers)
            unembedded += sum(one.unembedded for one in answers)
            best = max((best, *(one.evidence for one in answers)), key=lambda one: one.top or 0.0)
            degraded |= dict.fromkeys(part for one in answers for part in one.degraded)
        [frame] = self.counter.count_tokens([AnswerPrinter.of(query.form, items, merged=True).print_frame()])
        if room is not None:
            sizes, pinned = [item.tokens or 0 for item in items], [item.pinned for item in items]
            items = [items[n] for n in fit_with_pins(sizes, pinned, room - frame)]
        return RecallAnswer(
            tuple(items),
            merge_freshness(fresh),
            degraded=tuple(degraded),
            evidence=best,
            room=room,
            tokens=frame + sum(item.tokens or 0 for item in items) if items else 0,
            characters=read,
            unembedded=unembedded,
        )

    async def _answer_locally(self, host: UUID, body: RecallBody, banks: Sequence[str] = ()) -> RecallResult:
        recaller, waited, met = await self._choose_reader(host, body.min_position, body.wait_ms)
        begin = time.perf_counter()
        query = body.query_of_store(host)
        found = await (
            self._search_banks(host, query, banks, recaller) if banks else self.search_bank(host, query, recaller)
        )
        took = (time.perf_counter() - begin) * 1000
        freshly = replace(found.freshness, waited_ms=waited, met=met)
        return RecallResult(
            found.items,
            freshly,
            round(took, 2),
            body.explain,
            trace=found.took,
            degraded=found.degraded,
            directives=found.directives,
            evidence=found.evidence,
            bank_known=found.bank_known,
            form=body.reference,
            tokens=found.tokens,
            unembedded=found.unembedded,
        )

    async def ask(
        self, host: UUID, query: RecallQuery, min_position: int | None, wait_ms: int
    ) -> tuple[RecallAnswer, Freshness]:
        """Wait until a position is shown, then return the store's answer. Raises PositionBeyondLog."""
        recaller, waited, met = await self._choose_reader(host, min_position, wait_ms)
        found = await self.search_bank(host, query, recaller)
        return found, replace(found.freshness, waited_ms=waited, met=met)

    async def _choose_reader(
        self, host: UUID, min_position: int | None, wait_ms: int
    ) -> tuple[RecallReader, int, bool]:
        """Return the recaller to use, the milliseconds of waiting for the position, and whether it shows it.

        It is the replica where the call names a position and the replica shows it within `wait_ms`, else the primary.
        Raises PositionBeyondLog.
        """
        if min_position is None:
            return self._recaller, 0, True
        start, recaller = time.perf_counter(), self._recaller
        if self._replica is None:
            met = await self._waiter.shown(host, min_position, wait_ms)
        elif met := await self._replica.shows(host, min_position, wait_ms):
            recaller = self._replica.recaller
        else:
            met = await self._waiter.shown(host, min_position, 0)
        return recaller, round((time.perf_counter() - start) * 1000), met

    async def search_bank(self, host: UUID, query: RecallQuery, recaller: RecallReader | None = None) -> RecallAnswer:
        """Return the answer of a recaller (None: the primary), and measure its time; the primary replaces a replica."""
        place = (query.bank, query.session_name, None)
        with metrics.RECALL_SECONDS.time(), trace_memory(MemoryOperation.SEARCH, host, [place]) as span:
            if recaller is None or recaller is self._recaller:
                answer = await self._recaller.recall(host, query)
            else:
                answer = await self._search_replica(host, query, recaller)
            span.set_attribute(RECORDS, len(answer.items))
        fair_queue.charge_tenant(answer.characters)
        for part in answer.degraded:
            metrics.RECALL_DEGRADED.labels(part.partition(":")[0]).inc()
        return answer

    async def _search_replica(self, host: UUID, query: RecallQuery, recaller: RecallReader) -> RecallAnswer:
        try:
            answer = await recaller.recall(host, query)
        except Exception as error:  # noqa: BLE001 - what is no outage is raised again
            note_failure(error)
            return await self._recaller.recall(host, query)
        metrics.REPLICA_RECALLS.labels("answered").inc()
        return answer

    async def freshness(self, host: UUID, bank: str, position: int | None, wait_ms: int) -> Freshness:
        """Return a bank's freshness, once all stages passed `position` or the wait is over."""
        start = time.perf_counter()
        bank_id = identity.bank_id(host, bank)
        met = position is None or await self._waiter.passed(host, bank_id, position, wait_ms)
        waited = 0 if position is None else round((time.perf_counter() - start) * 1000)
        return replace(await fetch_freshness(self._database, host, bank_id), waited_ms=waited, met=met)


def _merge_items(items: Sequence[Recalled], k: int) -> list[Recalled]:
    """Return the best `k` items of several banks; their pinned units together get one answer's share of the places."""
    ranked = sorted(items, key=lambda item: (-item.score, item.unit_id))
    behind = [item for item in ranked if item.pinned][limit_pinned(k) :]
    left_behind = {(item.bank, item.unit_id) for item in behind}
    return [*(item for item in ranked if (item.bank, item.unit_id) not in left_behind), *behind][:k]
