"""The facade: every operation of the memory, the same for every interface.

Every call takes the grant of a key, which alone determines the tenant. Calls take JSON values and validate them, so
that no interface has rules of its own.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from afterturn_client.contract.banks import BankDetails, BankPage, ChangedBank, MadeBank
from afterturn_client.contract.facts import Profile

from producers.errors import FieldProblem, Invalid, PermissionDenied
from producers.service.authorisation import Action, require_write
from producers.service.banks import BANKS, BankBody, BankChange, BanksParameters, choose_space, fit_name, listable_names
from producers.service.bodies import parse_body
from producers.service.commands import Commands
from producers.service.dependencies import ServiceDependencies
from producers.service.graph import GraphLists
from producers.service.intake import Intake
from producers.service.knowledge import Knowledge
from producers.service.listings import Lists
from producers.service.open_turns import OpenTurnCalls
from producers.service.profiles import ProfileParameters, read_profile
from producers.service.recall_service import RecallService
from producers.service.session_calls import SessionCalls
from producers.service.single_memories import SingleMemories
from producers.service.turn_lifecycle import TurnLifecycle
from producers.service.units import UnitCalls
from producers.settings import ApiSettings
from store.authority import begin_call
from store.tenancy.keys import Grant


class MemoryFacade:
    """The facade: every operation of an agent, for all interfaces."""

    def __init__(self, dependencies: ServiceDependencies, settings: ApiSettings) -> None:
        self._dependencies = dependencies
        #: The database's clock.
        self.clock = dependencies.turns.clock
        self.intake = Intake(dependencies, settings)
        self.lifecycle = TurnLifecycle(dependencies, settings, self.intake)
        self.open_turns = OpenTurnCalls(dependencies, settings, self.lifecycle)
        self.sessions = SessionCalls(dependencies, settings)
        self.recalls = RecallService(dependencies, settings)
        self.units = UnitCalls(dependencies, settings)
        self.knowledge = Knowledge(dependencies, settings)
        self.memories = SingleMemories(dependencies, settings)
        self.lists = Lists(dependencies, settings)
        self.graph = GraphLists(dependencies)
        self.commands = Commands(dependencies, settings, self.knowledge, self.units)

    def begin_call(self, grant: Grant, began: datetime | None = None) -> None:
        """Note on whose authority this task's call writes: that is read again where it writes.

        `began`: when the caller sent it, where that was before now.
        """
        now = self.clock()
        begin_call(grant.since(min(began or now, now)))

    async def create_bank(self, grant: Grant, asked: Any) -> MadeBank:
        """Create a bank before its first turn.

        Raises Invalid, PermissionDenied, QuotaExceeded.
        """
        require_write(grant)
        body = parse_body(BankBody, asked)
        if body.expires_at is not None and body.expires_at <= self.clock():
            raise Invalid(FieldProblem("expires_at", "must be in the future"))
        space = choose_space(grant, body)
        if not grant.allows(body.bank.removeprefix(space.prefix)) and not grant.allows(body.bank):
            raise PermissionDenied("this key does not reach this bank")
        name = fit_name(space.name(body.bank))
        bank, new = await self._dependencies.banks.create(grant.host_id, space.user, name, body.expires_at)
        return MadeBank(**asdict(bank), created=new)

    async def change_bank(self, grant: Grant, bank: str, asked: Any) -> ChangedBank:
        """Change a bank's language, which its words then follow, or its expiry; return the bank.

        Raises Invalid, NotFound, PermissionDenied, TurnBusy.
        """
        require_write(grant)
        body = parse_body(BankChange, asked)
        bank = await self._dependencies.reach(grant, bank)
        await self._dependencies.authorisation.require(grant, Action.CHANGE_BANK, bank)
        if body.language is not None:
            changed = await self._dependencies.banks.set_language(grant.host_id, bank, body.language, grant.user)
        if "expires_at" in body.model_fields_set:
            changed = await self._dependencies.banks.set_end(grant.host_id, bank, body.expires_at, grant.user)
        return ChangedBank(**asdict(changed))

    async def list_banks(self, grant: Grant, asked: BanksParameters) -> BankPage:
        """Return a page of the banks that a key reaches, by name. Raises Invalid."""
        place = BANKS.open(grant.host_id, "", asked.cursor)
        after = place[0] if place else asked.after
        found = await self._dependencies.banks.list(
            grant.host_id,
            grant.space,
            names=listable_names(grant),
            after=after,
            limit=asked.limit + 1,
            runtime=asked.runtime,
        )
        page = BANKS.close(grant.host_id, "", found, asked.limit)
        return BankPage(banks=tuple(page.rows), **page.describe_end())

    async def bank(self, grant: Grant, bank: str) -> BankDetails:
        """Return a bank with its settings. Raises NotFound, PermissionDenied."""
        return await self._dependencies.banks.details(grant.host_id, await self._dependencies.reach(grant, bank))

    async def profile(self, grant: Grant, asked: ProfileParameters) -> Profile:
        """Return a page of a person's profile with its sources. Raises Invalid, PermissionDenied."""
        return await read_profile(self._dependencies.persons, self._dependencies.banks, grant, asked)
