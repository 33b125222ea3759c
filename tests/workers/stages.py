"""Stages and runners as the worker process builds them, with a small embedder of known vectors."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

import numpy as np
from numpy.typing import NDArray

from embeddings.errors import EmbeddingError
from embeddings.retry import Backoff
from producers.service.gateway_clients import GatewayClients
from producers.service.session_summaries import Summariser
from store.ledger.circuit_breakers import Gate
from store.ledger.deliveries import DeliveryWriter
from store.ledger.ledger import Ledger
from store.ledger.stages import Stage
from store.memory.session_digests import SessionDigests
from tests.patience import PATIENCE_S
from tests.workers.conftest import World, now
from tests.workers.targets import SETTINGS, Clients
from workers.embedding import EmbeddingStage
from workers.enrichment import EnrichmentStage, model_gate
from workers.extraction.llm.reader import LlmReader
from workers.extraction.llm.rights import ModelRights
from workers.extraction.stage import ExtractionStage
from workers.gateway import GatewayStage
from workers.projection import ProjectionStage
from workers.retry import RetryPolicy
from workers.runner import Clock, Runner
from workers.settings import DeliverySettings, EnrichmentSettings
from workers.stage_work import StageWork

LEASE = timedelta(seconds=30)
#: What the projection stage sees in a bank is embedded, too.
EACH = (*Stage, Stage.EMBEDDING)


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def held() -> "KnownEmbedder":
    """Return one that answers nobody until its `may_end` is set."""
    return KnownEmbedder(may_end=asyncio.Event())


@dataclass
class KnownEmbedder:
    """A vector for every text, made from its digest; `poison` is a text it fails on.

    With `may_end` cleared it has `begun` and answers nobody until that is set.
    """

    name: str = "known"
    dimensions: int = 384
    generation: int = 1
    poison: str | None = None
    batches: list[list[str]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=_set)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        self.begun.set()
        await self.may_end.wait()
        if self.poison is not None and any(self.poison in text for text in texts):
            raise EmbeddingError
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> NDArray[np.float32]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        drawn = np.random.default_rng(seed).standard_normal(self.dimensions).astype(np.float32)
        return np.asarray(drawn / np.linalg.norm(drawn), dtype=np.float32)

    def estimate_ms(self, texts: Sequence[str]) -> float:
        return float(len(texts))


def retry_policy(max_attempts: int = 5) -> RetryPolicy:
    return RetryPolicy(Backoff(base_s=60.0, chance=lambda: 0.5), max_attempts)


@dataclass
class Crew:
    """One worker process's runners; `rung` lists the stages it rang for."""

    world: World
    embedder: KnownEmbedder = field(default_factory=KnownEmbedder)
    gateways: GatewayClients | None = None
    settings: DeliverySettings = SETTINGS
    reader: LlmReader | None = None
    model_gate: Gate | None = None
    max_attempts: int = 5
    clock: Clock = now
    lease: timedelta = LEASE
    #: Summarises long sessions; None: none is.
    summariser: Summariser | None = None
    rights: ModelRights = field(default_factory=ModelRights)
    #: Extends the digests of sessions; None: nobody does.
    digests: SessionDigests | None = None
    notified: list[Stage] = field(default_factory=list)

    def work(self, stage: Stage) -> StageWork:
        database = self.world.database
        match stage:
            case Stage.GATEWAY:
                self.gateways = self.gateways or Clients(database)
                rules = retry_policy(self.max_attempts)
                return GatewayStage(
                    database, DeliveryWriter(database), self.gateways, self.settings, rules, lambda: 0.0
                )
            case Stage.EXTRACTION:
                limits = None if self.summariser is None else self.summariser.limits
                return ExtractionStage(
                    database, self.reader.version if self.reader else None, limits, self.rights, self.digests
                )
            case Stage.ENRICHMENT:
                gate = self.model_gate or model_gate(database, EnrichmentSettings())
                return EnrichmentStage(database, self.reader, gate, self.summariser, self.rights)
            case Stage.EMBEDDING:
                return EmbeddingStage(database, self.embedder)
            case Stage.PROJECTION:
                return ProjectionStage(database)

    def runner(self, stage: Stage, work: StageWork | None = None, ledger: Ledger | None = None) -> Runner:
        return Runner(
            ledger=ledger or self.world.ledger,
            work=work or self.work(stage),
            notify=self.notified.append,
            retry_policy=retry_policy(self.max_attempts),
            clock=self.clock,
            lease=self.lease,
            worker="crew",
            pause_s=0.01,
            notification_wait_s=PATIENCE_S,
        )

    async def drain(self, *stages: Stage) -> None:
        """Work through these stages (all of them, in their order) until nothing is ready."""
        for stage in stages or EACH:
            await self.runner(stage).drain()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.gateways is not None:
            await self.gateways.aclose()
