"""Trying doors at random, and judging what came back: nothing foreign may be seen, nor be told from what is absent."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from deploy.walls.doors import DOORS, Try, pair
from deploy.walls.transport import Ask, Reply, Send
from deploy.walls.world import Caller, World, damage

#: What differs from one answer to the next, whoever asks for what.
VOLATILE = frozenset(
    {"request_id", "took_ms", "waited_ms", "expires_at", "embedded", "extracted", "projected", "pending", "updated_at",
     "stages", "score", "counts", "unreached"}
)  # fmt: skip
#: Words whose choice says something.
TELLING = frozenset({"code", "message", "scope", "status"})
EXAMPLES = 10
#: What the tries themselves wrote is found sooner or later, as workers and the time allowed for a recall have it: such
#: answers are compared again before they count. What is foreign stays so.
SETTLING, SETTLING_LOOKS, SETTLING_S = re.compile("^POST /api/v1/recall(?!/jobs)"), 3, 0.2
#: Erasing takes long, and so is tried seldom: so many times less than anything else.
ERASES, SELDOM = re.compile(r"^POST /api/v1/erasures|for good$"), 8


@dataclass(slots=True)
class Report:
    """What came of it.

    `seen` counts answers that hold something foreign, and places that were changed; `told_apart` counts pairs of
    answers, for what is foreign and for what is not there, that differ.
    """

    tries: int = 0
    seen: int = 0
    told_apart: int = 0
    doors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    #: Doors and the two answers' statuses: never content.
    examples: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether the walls stand."""
        return self.tries > 0 and not self.seen and not self.told_apart

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command prints it."""
        counts = {"tries": self.tries, "seen": self.seen, "told_apart": self.told_apart}
        return {**counts, "doors": dict(sorted(self.doors.items())), "seconds": self.seconds, "examples": self.examples}


@dataclass(frozen=True, slots=True)
class Way:
    """How requests are sent, how many of them, and how long a recall job's answer is waited for."""

    send: Send
    tries: int
    wait_ms: int = 0


async def besiege(world: World, ways: Sequence[Way], seed: int) -> Report:
    """Try doors in pairs, by each way; one task a host, since a host's own writes change what it sees."""
    report, start = Report(), time.perf_counter()
    for n, way in enumerate(ways):
        randoms = [Random(f"{seed}:{n}:{host}") for host in range(len(world.names))]  # noqa: S311 - repeatable
        hosts = [_Host(world, host, way, report, random) for host, random in enumerate(randoms)]
        until = report.tries + way.tries
        await asyncio.gather(*(host.run(until) for host in hosts))
    if changed := await damage(world, ways[-1].send):
        report.seen += changed
        report.examples.append(f"changed: {changed} of {len(world.places)} places")
    report.seconds = round(time.perf_counter() - start, 1)
    return report


class _Host:
    """Everybody of one host, one after the other."""

    def __init__(self, world: World, number: int, way: Way, report: Report, random: Random) -> None:
        self._world = world
        self._callers = [caller for caller in world.callers if caller.host == number]
        self._way = way
        self._report = report
        self._random = random
        self._first = random.sample(sorted(DOORS), len(DOORS))
        self._doors = [door for door in DOORS for _ in range(SELDOM if ERASES.search(door) is None else 1)]

    async def run(self, until: int) -> None:
        """Try every door once, then whichever chance brings."""
        while self._report.tries < until:
            self._report.tries += 2
            caller = self._random.choice(self._callers)
            place = self._random.choice(self._world.foreign_to(caller))
            door = self._first.pop() if self._first else self._random.choice(self._doors)
            await self._try(door, *pair(self._random, caller, place))

    async def _try(self, door: str, foreign: Try, absent: Try) -> None:
        asks = [DOORS[door](one) for one in (foreign, absent)]
        token = foreign.caller.token
        replies = [await self._way.send(ask, token) for ask in asks]
        for _ in range(SETTLING_LOOKS if SETTLING.match(door) else 0):
            if not _difference(*map(_shown, replies)):
                break
            await asyncio.sleep(SETTLING_S)
            replies = [await self._way.send(ask, token) for ask in asks]
        self._report.doors[door] += 2
        if self._sees(foreign.caller, await self._answers(door, replies, token), door) or self._sees(
            foreign.caller, replies, door
        ):
            self._report.seen += 1
            self._note(f"seen: {door}: {replies[0].status}")
        if where := _difference(*map(_shown, replies)):
            self._report.told_apart += 1
            self._note(f"told apart: {door}: {replies[0].status} and {replies[1].status}, by {where}")

    async def _answers(self, door: str, replies: Sequence[Reply], token: str) -> list[Reply]:
        """Return what recall jobs answer that were just opened."""
        if not door.startswith("POST /api/v1/recall/jobs"):
            return []
        jobs = [reply.json()["job_id"] for reply in replies if reply.status == 202]  # noqa: PLR2004 - accepted
        paths = [f"/api/v1/recall/jobs/{job}?wait_ms={self._way.wait_ms}" for job in jobs]
        return [await self._way.send(Ask("GET", path), token) for path in paths]

    def _sees(self, caller: Caller, replies: Sequence[Reply], door: str) -> bool:
        """Say whether an answer holds a foreign mark, or a foreign bank where banks are listed."""
        bodies = b"".join(reply.body for reply in replies)
        foreign = self._world.foreign_to(caller)
        if b"zq" in bodies and any(place.mark.encode() in bodies for place in foreign):
            return True
        if door != "GET /api/v1/banks" or not replies or replies[0].status != 200:  # noqa: PLR2004 - OK
            return False
        listed = {bank["bank"] for bank in replies[0].json()["banks"]}
        return any(place.host == caller.host and place.bank in listed for place in foreign)

    def _note(self, line: str) -> None:
        if len(self._report.examples) < EXAMPLES and line not in self._report.examples:
            self._report.examples.append(line)


def _shown(reply: Reply) -> dict[str, Any]:
    return {"status": reply.status, "body": _shape(reply.json())}


def _difference(one: Any, other: Any) -> str:
    """Return the dotted path of a field in which two answers differ; empty when they are alike."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            if name not in one or name not in other:
                return str(name)
            if inner := _difference(one[name], other[name]):
                return f"{name}.{inner}".rstrip(".")
        return ""
    if isinstance(one, list) and isinstance(other, list) and one and other:
        return _difference(one[0], other[0])
    return "" if one == other else "."


def _shape(value: Any, name: str = "") -> Any:
    """Return what an answer tells by its form: fields, words of meaning, what is empty or zero."""
    if name in VOLATILE:
        return "*"
    if isinstance(value, Mapping):
        # A recalled unit is one's own, or its mark gives it away; which of them comes first is up to chance.
        return "unit" if "arms" in value else {key: _shape(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    if isinstance(value, str):
        return value if name in TELLING else "text"
    if isinstance(value, bool) or value is None:
        return value
    return "zero" if value == 0 else "number"
