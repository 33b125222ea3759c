"""Recall through a Memory Gateway, merged with local results.

It fails open: a failure of the gateway becomes an entry of `degraded`. A call has a deadline, is not made while the
gate is shut, and holds no database connection. Its outcome is audited: names and counts, no text.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from afterturn_client.errors import GatewayError, InvalidRequestError
from afterturn_client.gateway import GatewayHit
from afterturn_client.reference import SHORTEST_CUT, FrameForm, Printer, cut_text

from embeddings.protocol import TokenCounter
from producers.errors import FieldProblem, Invalid, PermissionDenied
from producers.service.gateway_clients import GatewayClients, TargetUnusable
from store import identity
from store.database import Database
from store.ledger.circuit_breakers import Gate
from store.ledger.deliveries import write_audit_row
from store.recall.budget import select_fitting
from store.recall.printing import AnswerPrinter
from store.recall.query import MOST_K
from store.tenancy.gateway_targets import CHAT, GatewayTargets
from store.tenancy.keys import Grant

SUCCEEDED, FAILED = "memory_gateway_recall_succeeded", "memory_gateway_recall_failed"
#: Most characters of all fields of a finding together, however much the gateway answers.
MOST_CHARACTERS = 65_536
SERVER_ERRORS, TOO_MANY_REQUESTS = 500, 429


@dataclass(frozen=True, slots=True)
class GatewayQuestion:
    """A query to a gateway: session, bank, and the target that the caller may use."""

    host: UUID
    bank: str
    session: str
    query: str = field(repr=False)
    k: int
    target: UUID | None


@dataclass(frozen=True, slots=True)
class GatewayFinding:
    """The results of a gateway in its order, or the reason why there are none."""

    hits: Sequence[GatewayHit]
    took_ms: float
    category: str | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class GatewayRecall:
    """Searches the gateway of a bank or tenant. `clients` keep the deadline."""

    targets: GatewayTargets
    clients: GatewayClients
    database: Database

    async def choose(self, grant: Grant, bank: str) -> UUID:
        """Return the target that a key may search for a bank it reaches.

        A gateway user's memory holds everything ever delivered to the target. So every key that reaches a bank may
        search the bank's own target, but only keys that reach all of the tenant may search the tenant's.

        Raises Invalid where there is none, PermissionDenied.
        """
        target = await self.targets.of_bank(grant.host_id, identity.bank_id(grant.host_id, bank))
        if target is None:
            raise Invalid(FieldProblem("sources", "this bank has no gateway to ask; use local"))
        restricted = grant.banks is not None or grant.user is not None or grant.agent is not None
        if target.bank_id is None and restricted:
            raise PermissionDenied(
                "the gateway holds the memory of all banks of this tenant, and this key does not reach them all"
            )
        return target.target_id

    async def find(self, question: GatewayQuestion) -> GatewayFinding:
        """Search once; failures of the gateway are in the result, and not raised."""
        start = time.perf_counter()
        finding, scopes = await self._ask(question)
        took = round((time.perf_counter() - start) * 1000, 2)
        finding = cut_finding(replace(finding, took_ms=took), MOST_CHARACTERS)
        await self._note(question, finding, scopes)
        return finding

    async def close(self) -> None:
        """Close the clients."""
        await self.clients.aclose()

    async def _ask(self, question: GatewayQuestion) -> tuple[GatewayFinding, Sequence[str]]:
        """Return the target's results, and the scopes that were searched."""
        bank = identity.bank_id(question.host, question.bank)
        target = await self.targets.of_bank(question.host, bank)
        if target is None or target.target_id != question.target:
            # The caller was authorised for another target.
            return GatewayFinding((), 0.0, "target_changed"), ()
        try:
            client = self.clients.client(target)
        except TargetUnusable:
            return GatewayFinding((), 0.0, "unusable_target"), target.scope
        gate = self.clients.gate(target)
        passage = await gate.enter()
        if not passage.granted:
            return GatewayFinding((), 0.0, "circuit_open" if gate.failing else "rate_limited"), target.scope
        # A search names the session without the prefix `chat:`, which the gateway adds.
        conversation = target.session(question.bank, question.session).removeprefix(CHAT)
        try:
            hits = await client.search(conversation, question.query, target.scope, question.k)
        except GatewayError as error:
            await record_outcome(gate, error)
            return GatewayFinding((), 0.0, error.category, error.status), target.scope
        except InvalidRequestError:
            return GatewayFinding((), 0.0, "invalid_request"), target.scope
        await record_outcome(gate, None)
        return GatewayFinding(hits[: question.k], 0.0), target.scope

    async def _note(self, question: GatewayQuestion, finding: GatewayFinding, scopes: Sequence[str]) -> None:
        payload: dict[str, Any] = {"scopes": list(scopes), "results": len(finding.hits)}
        if finding.category is not None:
            payload = {"operation": "search", "category": finding.category}
            if finding.status is not None:
                payload["http_status"] = finding.status
        bank = identity.bank_id(question.host, question.bank)
        async with self.database.tenant(question.host) as connection:
            await write_audit_row(
                connection,
                question.host,
                SUCCEEDED if finding.category is None else FAILED,
                bank=bank,
                session=identity.session_id(bank, question.session),
                payload=payload,
            )


def cut_finding(finding: GatewayFinding, room: int) -> GatewayFinding:
    """Return the finding with the hits, best first, that together have at most `room` characters, names included.

    The text of a hit that is longer than all of that is cut to the room there is.
    """
    most, kept = room, []
    for hit in finding.hits:
        names = sum(map(len, filter(None, (hit.id, hit.session_id, hit.source_scope, hit.resource_uri))))
        text = hit.text
        if names + len(text) > most and room - names >= SHORTEST_CUT:
            text = cut_text(text, room - names)
        if (size := names + len(text)) <= room:
            room -= size
            kept.append(replace(hit, text=text))
    return replace(finding, hits=kept)


def describe_hit(hit: GatewayHit) -> Mapping[str, Any]:
    """Return a hit as a frame's item."""
    return {
        "id": hit.id,
        "session": hit.session_id,
        "score": None if hit.score is None else f"{hit.score:.4f}",
        "source_scope": hit.source_scope,
        "resource_uri": hit.resource_uri,
        "text": hit.text,
    }


def fit_finding(
    finding: GatewayFinding, room: int | None, counter: TokenCounter, *, form: FrameForm, framed: bool
) -> tuple[GatewayFinding, int]:
    """Return the finding with the hits, best first, whose lines in a block fit into `room` tokens; and their tokens.

    `framed`: the block has results of ours before them; otherwise its frame is counted here. None: all hits.
    """
    if not finding.hits:
        return finding, 0
    printer = AnswerPrinter(form, Printer())
    [frame] = counter.count_tokens(["" if framed else printer.print_frame()])

    def measure(hits: Sequence[GatewayHit]) -> list[int]:
        lines = [printer.print_item(MOST_K + nth, describe_hit(hit)) for nth, hit in enumerate(hits)]
        return counter.count_tokens(lines)

    hits, sizes = list(finding.hits), measure(finding.hits)
    left = sum(sizes) if room is None else room - frame
    if sizes[0] > left > 0:
        hits[0] = replace(
            hits[0], text=cut_text(hits[0].text, max(SHORTEST_CUT, len(hits[0].text) * left // sizes[0] - 40))
        )
        sizes = measure(hits)
    kept = select_fitting(sizes, left)
    used = frame + sum(sizes[nth] for nth in kept) if kept else 0
    return replace(finding, hits=[hits[nth] for nth in kept]), used


async def record_outcome(gate: Gate, error: GatewayError | None) -> None:
    """Report a call's outcome to the gate. A gateway that answers is healthy, unless it answers with a failure."""
    failed = error is not None and (error.status is None or error.status >= SERVER_ERRORS)
    limited = error is not None and error.status == TOO_MANY_REQUESTS
    await gate.report(well=not failed, pause_s=error.retry_after if error is not None and limited else None)
