"""Memory Gateways as the processes use them: turns are delivered by workers, recalls are asked by both."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import structlog

from embeddings.retry import Retry, evenly
from producers.service.gateway_clients import Calling, GatewayClients, TargetCredentials, TargetUnusable, canonical_url
from producers.service.gateway_recall import GatewayRecall
from store.database import Database
from store.database_outage import is_outage
from store.errors import SealBroken, TargetTaken
from store.tenancy.gateway_targets import GatewayTarget, GatewayTargets, GatewayUser
from store.tenancy.sealing import Sealer
from workers.gateway import gate_policy
from workers.settings import DeliverySettings, GatewayMode, sealing_keys

log = structlog.get_logger(__name__)

#: How long a starting API waits for the settings' target to be laid down, and until it is tried again, in seconds.
AT_START_S = 2.0
TRY_AGAIN_S = 5.0
BY_SETTINGS = "settings"


class TargetAccess:
    """How this process reaches targets: it opens sealed keys; of the settings' own target it has the key itself."""

    def __init__(self, settings: DeliverySettings) -> None:
        self._settings = settings
        self._sealer = Sealer(sealing_keys(settings.sealing_keys))
        self._own = user_of(settings)

    def __call__(self, target: GatewayTarget) -> TargetCredentials:
        """Return where a target is and its key. Raises TargetUnusable."""
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
        """Say whether this process can call a target."""
        try:
            self(target)
        except TargetUnusable:
            return False
        return True


def user_of(settings: DeliverySettings) -> GatewayUser | None:
    """Return whose memory at which gateway the settings name; None where they name none."""
    if settings.mode is GatewayMode.OFF:
        return None
    base_url = None if settings.mode is GatewayMode.SELF else canonical_url(settings.base_url)
    return GatewayUser(base_url, settings.user_id, settings.app_id, settings.project_id)


def delivery_clients(settings: DeliverySettings, database: Database) -> GatewayClients:
    """Return the clients that hand turns over."""
    calling = Calling(settings.timeout_seconds, settings.keep_seconds, gate_policy(settings))
    return GatewayClients(database, TargetAccess(settings), calling)


def create_gateway_recall(settings: DeliverySettings, database: Database, timeout_s: float) -> GatewayRecall:
    """Return what recalls ask, waiting at most `timeout_s`."""
    calling = Calling(timeout_s, settings.keep_seconds, gate_policy(settings))
    # Gates of their own: a gateway that searches too slowly for those who wait can take turns all the same.
    clients = GatewayClients(database, TargetAccess(settings), calling, "search")
    return GatewayRecall(GatewayTargets(database), clients, database)


@asynccontextmanager
async def following_settings(database: Database, settings: DeliverySettings) -> AsyncGenerator[None]:
    """Make the settings' gateway the target of their host, before the block if the database answers soon.

    Where they name none, the target that earlier settings made ends.
    """
    task = asyncio.create_task(_follow_targets(GatewayTargets(database), settings), name="follow the gateway settings")
    await asyncio.wait({task}, timeout=AT_START_S)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _follow_targets(targets: GatewayTargets, settings: DeliverySettings) -> None:
    user = user_of(settings)

    def again(error: Exception) -> float | None:
        """Try again after any error of the driver; a target that is taken is final."""
        if isinstance(error, TargetTaken):
            return None
        if not is_outage(error):
            log.warning("gateway_settings_not_followed", error=type(error).__name__)
        return 0.0

    try:
        follow = partial(targets.follow_settings, settings.host, user, settings.scope, BY_SETTINGS)
        found = await Retry(evenly(TRY_AGAIN_S)).call(follow, again)
    except TargetTaken as error:
        log.error("gateway_target_refused", reason=str(error))  # noqa: TRY400 - no tracebacks
        return
    if user is not None and found is not None and not found.of_settings:
        log.warning("gateway_settings_ignored", reason="an operator set a gateway target for this host")
