"""Calls about a whole session: run its pending work, and list it as directories."""

import time
from dataclasses import asdict
from typing import Any

from afterturn_client.reference import KIND, NOTE

from producers import fair_queue, metrics
from producers.errors import FieldProblem, Invalid
from producers.mcp.bank_memory import BankMemory
from producers.service.authorisation import require_write
from producers.service.call_place import note_place
from producers.service.dependencies import ServiceDependencies
from producers.service.session_summaries import Summariser
from producers.service.turn_lifecycle import READ_ITEMS
from producers.settings import ApiSettings
from producers.turns.directories import DirectoryQuery, SessionContent, list_directories, read_path
from producers.turns.recalled import fact_json
from producers.turns.requests import check_session
from producers.turns.summaries import EarlierMessages
from store import identity
from store.ledger.freshness import compute_poll_delay
from store.ledger.stages import Stage
from store.maintenance.ending import UNITS
from store.memory.session_history import WantedFacts
from store.memory.session_summaries import SessionPlace
from store.off_loop import run_off_loop
from store.tenancy.keys import Grant

#: The facts of a project that one page holds, and its last page.
FACTS, PAGES = 200, 100
DEFAULT_SESSION = "default"
#: How many seconds a call waits for maintenance: the contract requires an answer within ten.
WAIT_S = 8.0
#: After how many seconds of it a summary is given up; workers make it in the background.
SUMMARISE_S = 6.0


class SessionCalls:
    """Calls about whole sessions."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        """Keep the dependencies."""
        self._dependencies = dependencies
        turns, limits = dependencies.turns, BankMemory(settings.mcp.memory).limit_summaries
        self._summariser = Summariser(turns.summaries, turns.sessions, limits)

    async def run_maintenance(self, grant: Grant, project: str, session: str) -> dict[str, Any]:
        """End expired units, summarise a long session, have workers do its pending work; return after `WAIT_S` at most.

        Returns {ok, project, done, left, counts}: `left` steps go on in the background; `counts` are the steps done
        meanwhile, by stage, units `ended`, and messages `summarised`. Raises Invalid, PermissionDenied, ResourceBusy.
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
        told = await self._summariser.summarise(_place_of(grant, bank, session), begun + SUMMARISE_S)
        left = await self._wait_until_done(grant, bank, session, found, begun)
        counts = {stage.value: number - left.get(stage, 0) for stage, number in found.items()}
        return {
            "ok": True,
            "project": project,
            "done": not left and not told.left,
            "left": sum(left.values()) + (told.left > 0),
            "counts": {
                **{name: max(0, number) for name, number in counts.items()},
                "ended": ended,
                "summarised": told.messages,
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
        summary, newest = await turns.summaries.read(place), await turns.sessions.newest(*place, READ_ITEMS)
        fair_queue.charge_tenant(sum(one.size for one in newest))
        earlier = EarlierMessages(summary, newest)
        entries = await run_off_loop(sum(len(one.content) for one in newest), earlier.digest)
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


def _place_of(grant: Grant, bank: str, session: str) -> SessionPlace:
    bank_id = identity.bank_id(grant.host_id, bank)
    return SessionPlace(grant.host_id, bank_id, identity.session_id(bank_id, session))
