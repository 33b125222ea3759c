"""The protocol of an attack, and the expected answers."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from deploy.lab.bench.attacks.attacker import ABORTED, CLOSED, Attacker

Send = Callable[[Attacker], Awaitable[None]]

#: A refusal in our own error body: 4xx, or 503 for what cannot be taken at the moment.
TYPED_REFUSAL = re.compile(r"4\d\d [A-Z_]+|503 UNAVAILABLE")
TAKEN = re.compile(r"20[0124]")
#: What a server may answer before it knows the request: bare, since it is the server's own.
CUT_OFF = re.compile(r"(?:400|408|413|414|429|431|503)(?: [A-Z_]+)?")


class RequiredEnding(StrEnum):
    """How a call of an attack must end."""

    BE_ANSWERED = "taken, or refused with a typed error"
    BE_REFUSED = "refused with a typed error"
    BE_CUT_OFF = "refused by the server itself (400, 408, 413, 414, 429, 431), or closed"

    def allows(self, ending: str) -> bool:
        """Say whether a call may end so; `ending` is what `Attacker.endings` counts."""
        if self is RequiredEnding.BE_CUT_OFF:
            return ending in {CLOSED, ABORTED} or bool(CUT_OFF.fullmatch(ending))
        refused = bool(TYPED_REFUSAL.fullmatch(ending))
        return refused or (self is RequiredEnding.BE_ANSWERED and bool(TAKEN.fullmatch(ending)))


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack.

    `does` says what is sent, `must` how each of its calls must end. `prepare` makes what the attack needs (a bank with
    something in it) and is no part of it. The victim is watched for at least `seconds`, and until the last call ended.
    """

    name: str
    does: str
    must: RequiredEnding
    send: Send
    prepare: Send | None = None
    seconds: float = 5.0
