"""The Memory Gateway as the processes use it: turns are delivered by workers, recalls are asked by both."""

from afterturn_client.gateway import GatewayClient
from afterturn_client.transport import check_base_url

from producers.gateway_recall import GatewayRecall
from producers.kept_posts import KeptPosts
from store import identity
from store.database import Database
from workers.gateway import gate_of
from workers.settings import GatewayMode, GatewaySettings


def gateway_client(settings: GatewaySettings, timeout_s: float | None = None) -> GatewayClient | None:
    """Return a client, or None where no gateway is configured."""
    if settings.mode is GatewayMode.OFF:
        return None
    patience_s = timeout_s or settings.timeout_seconds
    return GatewayClient(
        settings.base_url,
        settings.user_id,
        settings.user_key.get_secret_value(),
        settings.app_id,
        settings.project_id,
        patience_s,
        posts=KeptPosts(check_base_url(settings.base_url), patience_s, settings.keep_seconds),
    )


def gateway_recall(settings: GatewaySettings, database: Database, timeout_s: float) -> GatewayRecall | None:
    """Return what recalls ask, waiting at most `timeout_s`, or None where no gateway is configured."""
    client = gateway_client(settings, timeout_s)
    if client is None:
        return None
    host = identity.host_id(settings.recall_host)
    # A gate of its own: one that searches too slowly for those who wait can take turns all the same.
    return GatewayRecall(client, gate_of(database, settings, "search"), database, settings.scope, host)
