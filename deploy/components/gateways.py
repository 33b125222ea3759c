"""Builds clients of Memory Gateways: workers deliver turns, workers and the API search with recalls."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import structlog

from embeddings.retry import Retry, wait_evenly
from producers.service.gateway_clients import (
    CallPolicy,
    GatewayClients,
    TargetCredentials,
    TargetUnusable,
    canonical_url,
)
from producers.service.gateway_recall import GatewayRecall
from store.concurrent_calls import run_meanwhile
from store.database import Database
from store.database_outage import is_outage
from store.errors import SealBroken, TargetTaken
from store.tenancy.gateway_targets import GatewayTarget, GatewayTargets, GatewayUser
from store.tenancy.sealing import Sealer
from workers.gateway import gate_policy
from workers.settings import DeliverySettings, GatewayMode, sealing_keys

log = structlog.get_logger(__name__)

#: How long a starting API waits until the settings' target is stored, and the pause between two attempts, in seconds.
AT_START_S = 2.0
TRY_AGAIN_S = 5.0
BY_SETTINGS = "settings"


class TargetAccess:
    """This process's access to gateway targets: it opens sealed keys, and has the key of the settings' own target."""

    def __init__(self, settings: DeliverySettings) -> None:
        self._settings = settings
        self._sealer = Sealer(sealing_keys(settings.sealing_keys))
        self._own = read_gateway_user(settings)

    def __call__(self, target: GatewayTarget) -> TargetCredentials:
        """Return a target's URL and key. Raises TargetUnusable."""
        if target.sealed_key is not None:
            try:
                return TargetCredentials(
                    target.user.base_url or "", self._sealer.open(target.sealed_key, target.seal_place)
                )
            except SealBroken as error:
                raise TargetUnusable(f"the key of the gateway target cannot be opened: {error}") from None
        if not target.of_settings or target.user != self._own:
            raise TargetUnusable("the settings of this process (gateway.*) name another gateway, or none")
        base_url = target.user.base_url or self._settings.base_url
        return TargetCredentials(base_url, self._settings.user_key.get_secret_value())

    def opens(self, target: GatewayTarget) -> bool:
        """Return whether this process can call a target."""
        try:
            self(target)
        except TargetUnusable:
            return False
        return True


def read_gateway_user(settings: DeliverySettings) -> GatewayUser | None:
    """Return the gateway user that the settings name; None when `gateway.mode` is off."""
    if settings.mode is GatewayMode.OFF:
        return None
    base_url = None if settings.mode is GatewayMode.SELF else canonical_url(settings.base_url)
    return GatewayUser(base_url, settings.user_id, settings.app_id, settings.project_id)


def build_delivery_clients(settings: DeliverySettings, database: Database) -> GatewayClients:
    """Return the clients that deliver turns."""
    policy = CallPolicy(settings.timeout_seconds, settings.keep_seconds, gate_policy(settings))
    return GatewayClients(database, TargetAccess(settings), policy)


def create_gateway_recall(settings: DeliverySettings, database: Database, timeout_s: float) -> GatewayRecall:
    """Return the search in Memory Gateways that recalls use, with a time-out of `timeout_s` seconds."""
    policy = CallPolicy(timeout_s, settings.keep_seconds, gate_policy(settings))
    # Separate gates: a gateway that searches too slowly for recalls may still accept turns.
    clients = GatewayClients(database, TargetAccess(settings), policy, "search")
    return GatewayRecall(GatewayTargets(database), clients, database)


@asynccontextmanager
async def store_configured_target(database: Database, settings: DeliverySettings) -> AsyncGenerator[None]:
    """Make the settings' gateway the target of their tenant, before the block runs if the database answers soon.

    When they name none, end the target that earlier settings made.
    """
    async with run_meanwhile(
        _follow_targets(GatewayTargets(database), settings), "follow the gateway settings"
    ) as task:
        await asyncio.wait({task}, timeout=AT_START_S)
        yield


async def _follow_targets(targets: GatewayTargets, settings: DeliverySettings) -> None:
    user = read_gateway_user(settings)

    def again(error: Exception) -> float | None:
        """Return a minimal wait of 0 seconds after any error, or None to give up when the target is taken."""
        if isinstance(error, TargetTaken):
            return None
        if not is_outage(error):
            log.warning("gateway_settings_not_followed", error=type(error).__name__)
        return 0.0

    try:
        follow = partial(targets.follow_settings, settings.host, user, settings.scope, BY_SETTINGS)
        found = await Retry(wait_evenly(TRY_AGAIN_S)).call(follow, again)
    except TargetTaken as error:
        log.error("gateway_target_refused", reason=str(error))  # noqa: TRY400 - no tracebacks
        return
    if user is not None and found is not None and not found.of_settings:
        log.warning("gateway_settings_ignored", reason="an operator set a gateway target for this tenant")
