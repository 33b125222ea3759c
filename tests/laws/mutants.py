"""Every fault that `make laws` plants: at least one of our own code for each law."""

from tests.laws import plugin_faults, producers_faults, store_faults, workers_faults
from tests.laws.mutant import Mutant

#: The laws that CONTRIBUTING.md lists.
LAWS = tuple(f"L{number}" for number in range(1, 12))

MUTANTS: tuple[Mutant, ...] = (
    *store_faults.FAULTS,
    *producers_faults.FAULTS,
    *workers_faults.FAULTS,
    *plugin_faults.FAULTS,
)
