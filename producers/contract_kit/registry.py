"""A case of the contract, and the decorator that makes one of a function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from producers.contract_kit.probe import Probe

Act = Callable[[Probe], Awaitable[None]]
#: What a case may need besides capabilities: the two commands that take the plugin's store away and bring it back.
STORE_COMMANDS = "store commands"


@dataclass(frozen=True, slots=True)
class Case:
    """One clause of the contract, held against a plugin.

    `id` is `<module>.<function>`, `clause` a section of the contract, `promise` what a conforming plugin does,
    `needs` the capabilities it must claim for the case to run, `mend` what to look at where the case fails.
    """

    id: str
    clause: str
    promise: str
    needs: tuple[str, ...]
    mend: str
    act: Act

    @property
    def group(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]


def case(clause: str, *needs: str, mend: str) -> Callable[[Act], Case]:
    """Make a case of a function; its docstring is the promise."""

    def make(act: Act) -> Case:
        name, module = getattr(act, "__name__", ""), act.__module__.rpartition(".")[2]
        promise = " ".join((act.__doc__ or "").split())
        return Case(f"{module}.{name}", clause, promise, needs, mend, act)

    return make
