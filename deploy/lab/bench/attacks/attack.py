"""The description of an attack, and the answers that its calls may get."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType

from deploy.lab.bench.attacks.attacker import ABORTED, CLOSED, Attacker

Send = Callable[[Attacker], Awaitable[None]]

#: A refusal with the service's error body (MCP's has a number): 4xx, or 503 for a temporary refusal.
TYPED_REFUSAL = re.compile(r"4\d\d (?:[A-Z_]+|-\d+)|503 UNAVAILABLE")
TAKEN = re.compile(r"20[0124]")
#: Answers of the HTTP server itself, before the application sees the request; the error body is optional.
CUT_OFF = re.compile(r"(?:400|408|413|414|429|431|503)(?: [A-Z_]+)?")


class RequiredEnding(StrEnum):
    """The required ending of an attack's calls."""

    BE_ANSWERED = "taken, or refused with a typed error"
    BE_REFUSED = "refused with a typed error"
    BE_CUT_OFF = "refused by the server itself (400, 408, 413, 414, 429, 431), or closed"

    def allows(self, ending: str) -> bool:
        """Return whether a call may end with this ending, a key of `Attacker.endings`."""
        if self is RequiredEnding.BE_CUT_OFF:
            return ending in {CLOSED, ABORTED} or bool(CUT_OFF.fullmatch(ending))
        refused = bool(TYPED_REFUSAL.fullmatch(ending))
        return refused or (self is RequiredEnding.BE_ANSWERED and bool(TAKEN.fullmatch(ending)))


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack.

    `does` describes what is sent, `must` is the required ending of each call. `prepare` creates what the attack needs
    (a bank with content) and is not part of it. The victim is watched for at least `seconds`, and until the last call
    ended. `pauses_workers`: no turn gets through its stages meanwhile, so those of others are not measured.
    """

    name: str
    does: str
    must: RequiredEnding
    send: Send
    prepare: Send | None
    seconds: float
    pauses_workers: bool


def attack(
    name: str,
    does: str,
    must: RequiredEnding = RequiredEnding.BE_ANSWERED,
    *,
    prepare: Send | None = None,
    seconds: float = 5.0,
    pauses_workers: bool = False,
) -> Callable[[Send], Attack]:
    """Return what makes an Attack of the function that sends it."""
    return lambda send: Attack(name, does, must, send, prepare, seconds, pauses_workers)


def list_attacks(*modules: ModuleType) -> list[Attack]:
    """Return the attacks of these modules, in the order in which they are written."""
    return [one for module in modules for one in vars(module).values() if isinstance(one, Attack)]
