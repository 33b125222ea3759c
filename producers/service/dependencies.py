"""The dependencies of the facade: stores, clocks and notifiers that each of its modules gets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from producers.notifications import Notifier
from producers.service.authorisation import Authorisation
from producers.service.banks import resolve_bank
from producers.service.load_shedding import LoadShedder, Shed
from producers.service.recall_coordinator import RecallCoordinator
from store.derived.pending_words import PendingWordsLimit
from store.derived.persons import Persons
from store.erasure import Erasures
from store.maintenance import Consolidation, ExpiryTask
from store.memory.directives import Curation
from store.memory.documents import Documents
from store.memory.memories import Memories
from store.memory.turns import TurnStore
from store.memory.units import Units
from store.recall.jobs import RecallJobs
from store.tenancy.banks import Banks
from store.tenancy.keys import Grant


@dataclass(frozen=True, slots=True)
class ServiceDependencies:
    """The dependencies of the facade's modules."""

    turns: TurnStore
    units: Units
    recall_coordinator: RecallCoordinator
    jobs: RecallJobs
    notifier: Notifier
    banks: Banks
    erasures: Erasures
    documents: Documents
    curation: Curation
    persons: Persons
    memories: Memories
    load_shedder: LoadShedder | None = None
    #: Starts to embed new turns (host, ids, characters in all) at once; False: they are left to the workers.
    offer_to_micro_batch: Callable[[UUID, Sequence[UUID], int], bool] | None = None
    #: Has a caller wait whose bank has too many pending words.
    pending_words_limit: PendingWordsLimit | None = None
    #: Ends expired units and banks on request; workers do so by schedule.
    ending: ExpiryTask | None = None
    #: Links equal facts on request; workers do so by schedule.
    consolidation: Consolidation | None = None

    @property
    def authorisation(self) -> Authorisation:
        """The checks of rights to change stored memories."""
        return Authorisation(self.banks, self.units, self.documents)

    def admit(self, grant: Grant, what: Shed) -> None:
        """Return unless load shedding refuses this work for the tenant. Raises Overloaded."""
        if self.load_shedder is not None:
            self.load_shedder.admit(grant.host_id, what)

    async def reach(self, grant: Grant, bank: str) -> str:
        """Return the whole name of the bank that the grant means by this name. Raises PermissionDenied."""
        return await resolve_bank(self.banks, grant, bank)
