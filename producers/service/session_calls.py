"""Calls about a whole session: run its pending work, and list it as directories."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from afterturn_client.reference import KIND, NOTE

from producers import fair_queue, metrics
from producers.errors import FieldProblem, Invalid
from producers.mcp.bank_memory import BankMemory
from producers.service.authorisation import require_write
from producers.service.call_place import note_place
from producers.service.dependencies import ServiceDependencies
from producers.service.prepared_turns import READ_ITEMS
from producers.service.session_summaries import RuleDigester, Summariser
from producers.settings import ApiSettings
from producers.turns.directories import DirectoryQuery, SessionContent, list_directories, read_path
from producers.turns.recalled import fact_json
from producers.turns.requests import check_session
from store import identity
from store.ledger.freshness import compute_poll_delay
from store.ledger.stages import Stage
from store.maintenance.consolidation import FACTS as LINKED
from store.maintenance.ending import UNITS
from store.memory.session_digests import NO_END, SessionDigest
from store.memory.session_history import WantedFacts
from store.memory.session_summaries import SessionPlace, SessionSummary
from store.off_loop import run_off_loop
from store.tenancy.keys import Grant
from store.text.session_digest import DigestEntry, DigestKind, SaidMessage, digest_messages, merge_entries

#: The facts of a project that one page holds, and its last page.
FACTS, PAGES = 200, 100
DEFAULT_SESSION = "default"
#: How many seconds a call waits for maintenance: the contract requires an answer within ten.
WAIT_S = 8.0
#: After how many seconds of it the digest of a session is left, and a summary is given up: workers go on with both.
DIGEST_S, SUMMARISE_S = 5.0, 6.0


class SessionCalls:
    """Calls about whole sessions."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        self._dependencies = dependencies
        turns, limits = dependencies.turns, BankMemory(settings.mcp.memory).limit_summaries
        self._summariser = Summariser(turns.summaries, turns.sessions, limits, RuleDigester(turns.digests))

    async def run_maintenance(self, grant: Grant, project: str, session: str) -> dict[str, Any]:
        """End expired units, summarise a long session, have workers do its pending work, link equal facts.

        Waits for `WAIT_S` at most. Returns {ok, project, done, left, counts}: `left` steps go on in the background;
        `counts` are the steps done meanwhile, by stage, units `ended`, messages `summarised` and `digested` (read for
        abstracts), and facts `consolidated`.
        Raises Invalid, PermissionDenied, ResourceBusy.
        """
        try:
            answer = await self._run(grant, project, session)
        except Exception:
            metrics.MAINTENANCE.labels("error").inc()
            raise
        metrics.MAINTENANCE.labels("ok" if answer["done"] else "going_on").inc()
        return answer

    async def _run(self, grant: Grant, project: str, session: str) -> dict[str, Any]:
        require_write(grant)
        check_session(project, session)
        bank = await self._dependencies.reach(grant, project)
        note_place(grant.host_id, bank, session)
        begun = time.monotonic()
        found = await self._dependencies.turns.sessions.undone(grant.host_id, bank, session)
        self._dependencies.notifier.notify(*found)
        ended = await self._end_expired_units(grant, bank, begun)
        place = _place_of(grant, bank, session)
        digests = self._dependencies.turns.digests
        digested = await digests.extend(place, begun + DIGEST_S)
        told = await self._summariser.summarise(place, begun + SUMMARISE_S)
        behind = bool(await digests.find_behind(grant.host_id, [(place.bank, place.session)]))
        left = await self._wait_until_done(grant, bank, session, found, begun)
        consolidated, more = await self._consolidate_facts(grant, bank, begun)
        counts = {stage.value: number - left.get(stage, 0) for stage, number in found.items()}
        return {
            "ok": True,
            "project": project,
            "done": not (left or told.left or behind or more),
            "left": sum(left.values()) + (told.left > 0) + behind + more,
            "counts": {
                **{name: max(0, number) for name, number in counts.items()},
                "ended": ended,
                "summarised": told.messages,
                "digested": digested,
                "consolidated": consolidated,
            },
        }

    async def _end_expired_units(self, grant: Grant, bank: str, begun: float) -> int:
        """End the project's expired units, page by page while there is time; return how many were ended."""
        ended, bank_id = 0, identity.bank_id(grant.host_id, bank)
        while self._dependencies.ending is not None and time.monotonic() - begun < WAIT_S:
            page = await self._dependencies.ending.end_in_bank(grant.host_id, bank_id)
            ended += page
            if page < UNITS:
                break
        return ended

    async def _consolidate_facts(self, grant: Grant, bank: str, begun: float) -> tuple[int, bool]:
        """Link the project's equal facts, page by page while there is time; return how many, and whether more wait."""
        done, bank_id = 0, identity.bank_id(grant.host_id, bank)
        while self._dependencies.consolidation is not None:
            page = await self._dependencies.consolidation.consolidate(grant.host_id, bank_id)
            done += page
            if page < LINKED or time.monotonic() - begun >= WAIT_S:
                return done, page >= LINKED
        return done, False

    async def _wait_until_done(
        self, grant: Grant, bank: str, session: str, found: dict[Stage, int], begun: float
    ) -> dict[Stage, int]:
        left = found
        while left and (waited := time.monotonic() - begun) < WAIT_S:
            await fair_queue.sleep_without_slot(compute_poll_delay(waited))
            left = await self._dependencies.turns.sessions.undone(grant.host_id, bank, session)
        return left

    async def list_directories(
        self, grant: Grant, project: str, session: str, wanted: DirectoryQuery
    ) -> dict[str, Any]:
        """Return a session's directories with an abstract of each; creates nothing. An unknown session has none.

        Returns {project, summaries: [{path, abstract, updated_at, has_overview, overview}], has_more}. Raises Invalid.
        """
        check_session(project, session)
        below = read_path(wanted, session)
        bank = await self._dependencies.reach(grant, project)
        note_place(grant.host_id, bank, session)
        content = await self._read_content(grant, bank, session)
        listed, more = list_directories(content, session, below, wanted) if content else ((), False)
        return {"project": project, "summaries": [asdict(one) for one in listed], "has_more": more}

    async def _read_content(self, grant: Grant, bank: str, session: str) -> SessionContent | None:
        """Return what a session holds; None: there is no such session."""
        turns, place = self._dependencies.turns, _place_of(grant, bank, session)
        state = await turns.sessions.overview(grant.host_id, bank, session)
        if state is None:
            return None
        summary, digest = await turns.summaries.read(place), await turns.digests.read(place)
        # What no digest has read yet: few messages, and of a session that was brought over whole the newest.
        first = max(digest.next_seq, digest.messages - READ_ITEMS)
        newest = await turns.summaries.read_messages(place, first, NO_END)
        size = sum(len(one.content) for one in newest)
        fair_queue.charge_tenant(size)
        entries = await run_off_loop(size, _join_entries, summary, digest, newest)
        return SessionContent(state, state.facts, entries, summary.first_seq if summary else 0)

    async def tell_facts(self, grant: Grant, project: str, page: int = 1) -> tuple[dict[str, Any], bool]:
        """Return a page of a project's current facts by rank, as data to be framed, and whether there is a next one.

        Raises Invalid, PermissionDenied.
        """
        check_session(project, DEFAULT_SESSION)
        if not 1 <= page <= PAGES:
            raise Invalid(FieldProblem("page", f"must be from 1 to {PAGES}"))
        bank = await self._dependencies.reach(grant, project)
        most = page * FACTS + 1
        found = await self._dependencies.turns.sessions.holding(grant.host_id, bank, WantedFacts(most, grant.user))
        facts = [fact_json(one) for one in found[most - 1 - FACTS : most - 1]]
        told = {"kind": KIND, "untrusted": True, "note": NOTE, "project": project, "facts": facts}
        return told, len(found) == most and page < PAGES


def _join_entries(
    summary: SessionSummary | None, digest: SessionDigest, newest: Sequence[SaidMessage]
) -> list[DigestEntry]:
    """Return what a session's summary and digest tell, and its newest messages; of a history begun anew, its own."""
    first = 0 if summary is None or summary.made else summary.first_seq
    stored = () if summary is None else summary.entries
    told = [one for one in (*digest.entries, *digest_messages(newest)) if one.seq >= first]
    said = [one for one in stored if one.kind is DigestKind.SAID]
    return [*said, *merge_entries([*(one for one in stored if one.kind is not DigestKind.SAID), *told])]


def _place_of(grant: Grant, bank: str, session: str) -> SessionPlace:
    bank_id = identity.bank_id(grant.host_id, bank)
    return SessionPlace(grant.host_id, bank_id, identity.session_id(bank_id, session))
