"""Writes documents and directives beside the turns of a chaos run, each repeatedly until it is answered."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx

from deploy.components.bootstrap import HOST
from deploy.lab.chaos.feeder import PAUSE_S, TrafficSender
from deploy.lab.chaos.talk import BANKS, FIRST, PEOPLE, PLACES, THINGS
from deploy.local.stack import Stack
from store import identity
from store.memory import documents

#: Turns between two documents and between two changes of directives, and the number of directive names per bank.
TURNS_PER_DOCUMENT, DIRECTIVE_NAMES = 20, 4
#: Paragraphs of a document, which make a few pieces.
PARAGRAPHS = 3
TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A document that is sent after `number` turns."""

    number: int
    bank: str
    content: str = field(repr=False)
    at: datetime

    @property
    def digest(self) -> str:
        """The document's content hash."""
        return documents.content_hash(self.content.encode())

    @property
    def id(self) -> UUID:
        """The id of the document in the service."""
        return documents.doc_id(identity.bank_id(identity.host_id(HOST), self.bank), self.digest)


@dataclass(frozen=True, slots=True)
class PlannedDirective:
    """A change of a directive after `number` turns: it is created, changed, or ended (`content` None)."""

    number: int
    bank: str
    name: str
    content: str | None = field(repr=False)
    priority: int

    @property
    def id(self) -> UUID:
        """The id of the directive in the service."""
        return identity.directive_id(identity.bank_id(identity.host_id(HOST), self.bank), self.name)


Lane = Sequence[PlannedDocument | PlannedDirective]


def plan_knowledge(turns: int, seed: int) -> list[Lane]:
    """Return the documents and directives to write beside `turns` turns, in ordered lanes: two for each bank."""
    chance = random.Random(f"knowledge/{seed}")  # noqa: S311 - a seed, not a secret
    numbers = range(0, turns, TURNS_PER_DOCUMENT)
    papers = [_make_document(number, BANKS[n % len(BANKS)], chance) for n, number in enumerate(numbers)]
    rules = [_make_directive(n, number, BANKS[n % len(BANKS)], chance) for n, number in enumerate(numbers)]
    lanes: list[Lane] = [[one for one in made if one.bank == bank] for made in (papers, rules) for bank in BANKS]
    return [lane for lane in lanes if lane]


def _make_document(number: int, bank: str, chance: random.Random) -> PlannedDocument:
    paragraphs = (f"Chapter {n} of paper {number}. {' '.join(_make_sentences(chance))}" for n in range(PARAGRAPHS))
    return PlannedDocument(number, bank, "\n\n".join(paragraphs), FIRST + timedelta(minutes=number))


def _make_sentences(chance: random.Random) -> Iterator[str]:
    for _ in range(8):
        yield f"{chance.choice(PEOPLE)} spoke of {chance.choice(THINGS)} in {chance.choice(PLACES)}, and wrote it down."


def _make_directive(n: int, number: int, bank: str, chance: random.Random) -> PlannedDirective:
    ends = n % 7 == 6  # noqa: PLR2004 - one in seven
    content = None if ends else f"Note {number}: name {chance.choice(PLACES)} first."
    return PlannedDirective(number, bank, f"rule {n // len(BANKS) % DIRECTIVE_NAMES}", content, chance.randrange(10))


class KnowledgeWriter:
    """Writes documents and directives in step with the turns, and records the answers.

    A change with no answer or a retryable error is sent again, because it may be stored already.
    """

    def __init__(self, lanes: Sequence[Lane], feeder: TrafficSender) -> None:
        self._lanes = lanes
        self._feeder = feeder
        self.changes = sum(map(len, lanes))
        #: Log position and number of pieces by accepted document.
        self.papers: dict[PlannedDocument, tuple[int, int]] = {}
        #: The accepted changes of directives, in order within each lane.
        self.rules: list[PlannedDirective] = []

    @property
    def unanswered(self) -> int:
        """The number of changes that were not accepted."""
        return self.changes - len(self.papers) - len(self.rules)

    def directives(self) -> dict[UUID, PlannedDirective]:
        """Return the last accepted change of each directive."""
        return {rule.id: rule for rule in self.rules}

    async def run(self, stack: Stack) -> None:
        """Write all changes; return when the last one has a final answer."""
        headers = {"authorization": f"Bearer {stack.api_key()}"}
        async with (
            httpx.AsyncClient(base_url=stack.api, headers=headers, timeout=TIMEOUT_S, trust_env=False) as client,
            asyncio.TaskGroup() as tasks,
        ):
            for lane in self._lanes:
                tasks.create_task(self._write(client, lane))

    async def _write(self, client: httpx.AsyncClient, lane: Lane) -> None:
        for change in lane:
            await self._feeder.begun(change.number)
            answer = await _send_until_answered(client, change)
            if isinstance(change, PlannedDocument):
                if answer.is_success:
                    told = answer.json()
                    self.papers[change] = told["position"], told["units"]
            elif answer.is_success or _has_ended(change, answer):
                self.rules.append(change)


async def _send_until_answered(client: httpx.AsyncClient, change: PlannedDocument | PlannedDirective) -> httpx.Response:
    """Send a change until it is accepted or finally refused; return that answer."""
    while True:
        try:
            answer = await client.request(*_choose_request_line(change), **_build_request_body(change))
        except httpx.HTTPError:
            await asyncio.sleep(PAUSE_S)
            continue
        if answer.is_success or not answer.json().get("error", {}).get("retryable"):
            return answer
        await asyncio.sleep(max(PAUSE_S, float(answer.headers.get("retry-after", 0))))


def _choose_request_line(change: PlannedDocument | PlannedDirective) -> tuple[str, str]:
    if isinstance(change, PlannedDocument):
        return "POST", "/api/v1/docs"
    if change.content is None:
        return "DELETE", f"/api/v1/directives/{change.id}"
    return "POST", "/api/v1/directives"


def _build_request_body(change: PlannedDocument | PlannedDirective) -> dict[str, Any]:
    bank = {"bank": change.bank}
    if isinstance(change, PlannedDocument):
        return {"json": {**bank, "content": change.content, "occurred_at": change.at.isoformat()}}
    if change.content is None:
        return {"params": bank}
    return {"json": {**bank, "name": change.name, "content": change.content, "priority": change.priority}}


def _has_ended(rule: PlannedDirective, answer: httpx.Response) -> bool:
    """Return whether a directive to be ended does not exist: a call without answer ended it, or it never existed."""
    return rule.content is None and answer.status_code == httpx.codes.NOT_FOUND
