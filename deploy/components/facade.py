"""Builds the facade's dependencies, for the API and for workers that read turn queues."""

from producers.notifications import Notifier
from producers.service.dependencies import ServiceDependencies
from producers.service.recall_coordinator import RecallCoordinator
from store.clock import DatabaseClock
from store.database import Database
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


def build_dependencies(
    database: Database, clock: DatabaseClock, coordinator: RecallCoordinator, notifier: Notifier
) -> ServiceDependencies:
    """Return the facade's dependencies, without those that only an API process adds."""
    return ServiceDependencies(
        TurnStore(database, clock),
        Units(database, clock),
        coordinator,
        RecallJobs(database, clock),
        notifier,
        Banks(database, clock),
        Erasures(database, clock),
        Documents(database, clock),
        Curation(database, clock),
        Persons(database, clock),
        Memories(database, clock),
        ending=ExpiryTask(database, clock),
        consolidation=Consolidation(database, clock),
    )
