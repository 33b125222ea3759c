"""What the facade stands on, handed to each of its rooms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from producers.authorisation import Authorisation
from producers.banks import reach
from producers.doorbell import Doorbell
from producers.pressure import Pressure, Shed
from producers.recalls import Recalls
from store.banks import Banks
from store.curation import Curation
from store.documents import Documents
from store.erasure import Erasures
from store.keys import Grant
from store.persons import Persons
from store.recall_jobs import RecallJobs
from store.turns import TurnStore
from store.units import Units
from store.words import KeptShort


@dataclass(frozen=True, slots=True)
class Parts:
    """What the facade stands on."""

    turns: TurnStore
    units: Units
    recalls: Recalls
    jobs: RecallJobs
    doorbell: Doorbell
    banks: Banks
    erasures: Erasures
    documents: Documents
    curation: Curation
    persons: Persons
    pressure: Pressure | None = None
    #: Takes new turns (host, ids, characters in all) to embed them at once, or leaves them to the workers (False).
    embed: Callable[[UUID, Sequence[UUID], int], bool] | None = None
    words: KeptShort | None = None

    @property
    def authorisation(self) -> Authorisation:
        """The rule that says who may change what."""
        return Authorisation(self.banks, self.units, self.documents)

    def admit(self, grant: Grant, what: Shed) -> None:
        """Return, or raise Overloaded where this is shed for the tenant."""
        if self.pressure is not None:
            self.pressure.admit(grant.host_id, what)

    async def reach(self, grant: Grant, bank: str) -> str:
        """Return the whole name of the bank that is meant. Raises PermissionDenied."""
        return await reach(self.banks, grant, bank)
