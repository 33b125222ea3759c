"""Tries routes at random, and judges whether answers reveal foreign data."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

from deploy.lab.isolation.fixture import IsolationFixture, KeyHolder, SeededBank, is_readable
from deploy.lab.isolation.routes import OPERATOR, ROUTES, Trial, make_pair, make_pair_elsewhere
from deploy.lab.isolation.tables import hash_bank_logs
from deploy.lab.isolation.transport import Send, TrialReply, TrialRequest, send_until_answered

#: Parts of an answer that differ from one call to the next for every caller.
VOLATILE = frozenset(
    {"request_id", "took_ms", "waited_ms", "expires_at", "embedded", "extracted", "projected", "pending", "updated_at",
     "stages", "score", "counts", "unreached", "settled"}
)  # fmt: skip
#: Fields whose text is compared.
COMPARED_FIELDS = frozenset({"code", "message", "scope", "status"})
#: The field with the list of units in an answer.
LISTED_UNITS = "units"
EXAMPLES = 10
#: Routes whose answers follow work that the tries themselves began (what recalls find, whether a maintenance is done
#: yet): differing answers are compared again before they count.
SETTLING = re.compile("^POST /(api/v1/recall(?!/jobs)|mcp memory_(search|run_maintenance))")
SETTLING_LOOKS, SETTLING_S = 3, 0.2
#: Statuses of the operators' routes for a tenant's key.
NOT_ADMITTED = frozenset({401, 403})
#: Factor by which slow ways are tried less often.
SELDOM = 8
#: Share of the tries that target data of others within the same tenant.
SAME_TENANT_SHARE = 0.5


class TrialScope(Enum):
    """Where a thing is looked for; the value follows the route's name in the report."""

    FOREIGN = ""
    ELSEWHERE = " in a bank of one's own"
    SHARED = " of others in a shared bank"


@dataclass(frozen=True, slots=True)
class TrialCase:
    """A way to call a route, and where the target is looked for."""

    way: str
    where: TrialScope

    @property
    def name(self) -> str:
        """The name of the case in the report."""
        return self.way + self.where.value


CASES: Sequence[TrialCase] = (
    *(TrialCase(way, TrialScope.FOREIGN) for way in ROUTES),
    *(TrialCase(way, TrialScope.ELSEWHERE) for way, route in ROUTES.items() if route.by_id),
    *(TrialCase(way, TrialScope.SHARED) for way, route in ROUTES.items() if route.refused_to(KeyHolder(0, ""))),
)
#: The cases, repeated by how often they are tried.
WEIGHED: Sequence[TrialCase] = [case for case in CASES for _ in range(1 if ROUTES[case.way].seldom else SELDOM)]


@dataclass(slots=True)
class IsolationReport:
    """The result of an isolation check.

    `seen` counts answers with foreign data, and banks that were or could be changed; `told_apart` counts pairs of
    answers that differ between a foreign and an absent target; `found` counts both by case. `uncovered` names served
    routes that the check does not know, `unplanted` tables without test data.
    """

    tries: int = 0
    seen: int = 0
    told_apart: int = 0
    doors: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    uncovered: list[str] = field(default_factory=list)
    unplanted: list[str] = field(default_factory=list)
    #: Cases with the statuses of both answers, without content.
    examples: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether isolation holds: something was tried, nothing was found, and no route or table was left out."""
        return self.tries > 0 and not (self.seen or self.told_apart or self.uncovered or self.unplanted)

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command prints it."""
        return {
            "tries": self.tries,
            "seen": self.seen,
            "told_apart": self.told_apart,
            "doors": dict(sorted(self.doors.items())),
            "found": dict(sorted(self.found.items())),
            "seconds": self.seconds,
            "uncovered": self.uncovered,
            "unplanted": self.unplanted,
            "examples": self.examples,
        }


@dataclass(frozen=True, slots=True)
class TrialChannel:
    """A way to send requests, the number of tries by it, and the wait for a recall job in milliseconds."""

    send: Send
    tries: int
    wait_ms: int = 0


async def check_isolation(
    fixture: IsolationFixture, ways: Sequence[TrialChannel], seed: int, owner_url: str
) -> IsolationReport:
    """Make the tries by each channel, and return the report.

    Each tenant has one task, because a tenant's own writes change its answers.
    """
    report, start = IsolationReport(), time.perf_counter()
    before = await hash_bank_logs(owner_url, fixture)
    for n, way in enumerate(ways):
        randoms = [Random(f"{seed}:{n}:{tenant}") for tenant in range(len(fixture.names))]  # noqa: S311 - repeatable
        tenants = [_TenantTrials(fixture, number, way, report, random) for number, random in enumerate(randoms)]
        until = report.tries + way.tries
        await asyncio.gather(*(tenant.run(until) for tenant in tenants))
    after = await hash_bank_logs(owner_url, fixture)
    lost = [not await is_readable(place, fixture.owner_of(place).token, ways[-1].send) for place in fixture.places]
    changed = [any(before.get(bank) != after.get(bank) for bank in fixture.bank_ids_of(one)) for one in fixture.places]
    if found := sum(one or other for one, other in zip(lost, changed, strict=True)):
        report.seen += found
        report.examples.append(f"changed: {found} of {len(fixture.places)} places")
    report.seconds = round(time.perf_counter() - start, 1)
    return report


class _TenantTrials:
    """The trials of one tenant's callers, in sequence."""

    def __init__(
        self, fixture: IsolationFixture, number: int, way: TrialChannel, report: IsolationReport, random: Random
    ) -> None:
        self._fixture = fixture
        self._callers = [caller for caller in fixture.callers if caller.tenant == number]
        self._way = way
        self._report = report
        self._random = random
        self._first = random.sample(CASES, len(CASES))

    async def run(self, until: int) -> None:
        """Try every case once, then random ones, until the report counts `until` tries."""
        while self._report.tries < until:
            self._report.tries += 2
            case = self._first.pop() if self._first else self._random.choice(WEIGHED)
            self._report.doors[case.name] += 2
            if case.where is TrialScope.SHARED:
                await self._try_to_change(case)
            else:
                await self._try_to_see(case)

    async def _try_to_see(self, case: TrialCase) -> None:
        """Ask for a foreign and for an absent target; the answers must be alike and must not hold foreign data."""
        here = case.where is TrialScope.ELSEWHERE
        caller = self._random.choice([one for one in self._callers if one.reach or not here])
        place = self._random.choice(self._foreign_to(caller))
        tries = (make_pair_elsewhere if here else make_pair)(self._random, caller, place)
        replies = await self._send_trials(case, tries)
        for _ in range(SETTLING_LOOKS if SETTLING.match(case.way) else 0):
            if not compare_replies(*replies):
                break
            await asyncio.sleep(SETTLING_S)
            replies = await self._send_trials(case, tries)
        self._judge(case, caller, [*replies, *await self._fetch_answers(case, replies, caller.token)])
        if f" {OPERATOR}/" in case.way and any(reply.status not in NOT_ADMITTED for reply in replies):
            self._report.seen += 1
            self._note(case, f"admitted: {case.name}: {replies[0].status}")
        if where := compare_replies(*replies):
            self._report.told_apart += 1
            self._note(case, f"told apart: {case.name}: {replies[0].status} and {replies[1].status}, by {where}")

    def _foreign_to(self, caller: KeyHolder) -> Sequence[SeededBank]:
        """Return banks that the caller must not see: for a share of the tries only those of its own tenant."""
        foreign = self._fixture.foreign_to(caller)
        near = [place for place in foreign if place.tenant == caller.tenant]
        return near if near and self._random.random() < SAME_TENANT_SHARE else foreign

    async def _try_to_change(self, case: TrialCase) -> None:
        """Try as two users or agents to change what others wrote in a shared bank, which must be refused."""
        route = ROUTES[case.way]
        targets = [
            (caller, place)
            for caller in self._callers
            if route.refused_to(caller)
            for place in self._fixture.shared_with(caller)
        ]
        for _ in range(2):
            caller, place = self._random.choice(targets)
            replies = await self._send_trials(case, make_pair(self._random, caller, place, whole=True)[:1])
            self._judge(case, caller, replies)
            if not replies[0].refused:
                self._report.seen += 1
                self._note(case, f"allowed: {case.name}: {replies[0].status}")

    async def _send_trials(self, case: TrialCase, tries: Sequence[Trial]) -> list[TrialReply]:
        ask: Callable[[Trial], TrialRequest] = ROUTES[case.way].ask
        return [await send_until_answered(self._way.send, ask(one), one.caller.token) for one in tries]

    def _judge(self, case: TrialCase, caller: KeyHolder, replies: Sequence[TrialReply]) -> None:
        if self._sees_foreign(caller, replies, case.way):
            self._report.seen += 1
            self._note(case, f"seen: {case.name}: {replies[0].status}")

    async def _fetch_answers(self, case: TrialCase, replies: Sequence[TrialReply], token: str) -> list[TrialReply]:
        """Return the answers of recall jobs that were just created."""
        if not case.way.startswith("POST /api/v1/recall/jobs"):
            return []
        jobs = [reply.json()["job_id"] for reply in replies if reply.status == 202]  # noqa: PLR2004 - accepted
        paths = [f"/api/v1/recall/jobs/{job}?wait_ms={self._way.wait_ms}" for job in jobs]
        return [await self._way.send(TrialRequest("GET", path), token) for path in paths]

    def _sees_foreign(self, caller: KeyHolder, replies: Sequence[TrialReply], way: str) -> bool:
        """Return whether an answer contains a foreign mark, or a list of banks a foreign bank."""
        # Names of entities are shown with a capital letter.
        bodies = b"".join(reply.body for reply in replies).lower()
        foreign = self._fixture.foreign_to(caller)
        if b"zq" in bodies and any(place.mark.encode() in bodies for place in foreign):
            return True
        if way != "GET /api/v1/banks" or not replies or replies[0].status != 200:  # noqa: PLR2004 - OK
            return False
        listed = {bank["bank"] for bank in replies[0].json()["banks"]}
        return any(place.tenant == caller.tenant and place.bank in listed for place in foreign)

    def _note(self, case: TrialCase, line: str) -> None:
        self._report.found[case.name] += 1
        if len(self._report.examples) < EXAMPLES and line not in self._report.examples:
            self._report.examples.append(line)


def compare_replies(one: TrialReply, other: TrialReply) -> str:
    """Return the dotted path of a field in which two replies differ in form; '' when they are alike."""
    return _find_difference(
        *({"status": reply.status, "body": _reduce_to_shape(reply.json())} for reply in (one, other))
    )


def _find_difference(one: Any, other: Any) -> str:
    """Return the dotted path of a field in which two values differ; '' when they are alike."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            if name not in one or name not in other:
                return str(name)
            if inner := _find_difference(one[name], other[name]):
                return f"{name}.{inner}".rstrip(".")
        return ""
    if isinstance(one, list) and isinstance(other, list) and one and other:
        return _find_difference(one[0], other[0])
    return "" if one == other else "."


def _reduce_to_shape(value: Any, name: str = "") -> Any:
    """Return the form of an answer: its fields, compared texts, and which values are empty or zero."""
    if name in VOLATILE:
        return "*"
    if isinstance(value, Mapping):
        # A recalled unit is the caller's own, or detected by its mark; their order is random.
        return "unit" if "arms" in value else {key: _reduce_to_shape(one, key) for key, one in value.items()}
    if isinstance(value, list):
        # The same holds for a list of units: a single memory, which has no session, may come before a message.
        return ["unit" if name == LISTED_UNITS else _reduce_to_shape(value[0])] if value else []
    if isinstance(value, str):
        return value if name in COMPARED_FIELDS else "text"
    if isinstance(value, bool) or value is None:
        return value
    return "zero" if value == 0 else "number"
