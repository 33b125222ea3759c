"""Gateway targets for tests: set with a known sealing key, called by clients of the agents' own kind."""

from dataclasses import dataclass, field, replace
from uuid import UUID

import httpx
from afterturn_client.gateway import GatewayClient
from cryptography.fernet import Fernet
from pydantic import SecretStr

from deploy.components.gateways import TargetAccess
from producers.service.gateway_clients import CallPolicy, GatewayClients, TargetCredentials, canonical_url
from store.database import Database
from store.ledger.circuit_breakers import GatePolicy
from store.tenancy.gateway_targets import GatewayTarget, GatewayTargets, GatewayUser, seal_place
from store.tenancy.sealing import Sealer
from tests.watched import Watched
from tests.workers.gateways import KEY, USER
from workers.settings import DeliverySettings

SEALING = Fernet.generate_key().decode()
SETTINGS = DeliverySettings(sealing_keys=SecretStr(SEALING))
#: As often as these tests have a gateway fail, a breaker of the default kind would shut.
NEVER_SHUT = GatePolicy(threshold=1000)


async def hand_to(
    database: Database,
    host: UUID,
    url: str,
    *,
    bank: UUID | None = None,
    user: str = USER,
    key: str = KEY,
    project: str = "default",
) -> GatewayTarget:
    """Set a target, as `afterturn gateway set` does."""
    whose = GatewayUser(canonical_url(url), user, "default", project)
    sealed = Sealer([SEALING]).seal(key, seal_place(host, bank, whose))
    return await GatewayTargets(database).set(host, bank, whose, ("current_chat", "resources"), sealed)


async def move_to(database: Watched, url: str) -> None:
    """Have every target's gateway be at another address, as if it had been there all the time."""
    for target in await GatewayTargets(database).sealed():
        key = Sealer([SEALING]).open(target.sealed_key or "", target.seal_place)
        whose = replace(target.user, base_url=canonical_url(url))
        await database.sql(
            "update afterturn.gateway_target_t set base_url = :url, sealed_key = :key where target_id = :target",
            url=whose.base_url,
            key=Sealer([SEALING]).seal(key, seal_place(target.host_id, target.bank_id, whose)),
            target=target.target_id,
        )


@dataclass
class Clients(GatewayClients):
    """Clients with a connection for each call, over `transport` where one is given."""

    database: Database
    timeout_s: float = 30.0
    policy: GatePolicy = NEVER_SHUT
    transport: httpx.AsyncBaseTransport | None = None
    made: dict[tuple[UUID, str], GatewayClient] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.database, TargetAccess(SETTINGS), CallPolicy(self.timeout_s, 0.0, self.policy))

    def client(self, target: GatewayTarget) -> GatewayClient:
        access: TargetCredentials = self._access(target)
        place = target.target_id, access.base_url
        if place not in self.made:
            user = target.user
            names = user.user_id, access.user_key, user.app_id, user.project_id
            self.made[place] = GatewayClient(access.base_url, *names, self.timeout_s, self.transport, allow_http=True)
        return self.made[place]

    async def aclose(self) -> None:
        for client in self.made.values():
            await client.aclose()
