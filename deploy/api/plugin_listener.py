"""Routes plugin requests to a tenant's store: on a listener of its own, or by key on the API's port."""

import hmac
from collections.abc import Awaitable, Callable
from datetime import datetime

from starlette.requests import Request

from deploy.api.plugin_address import ListenAddress
from embeddings.loopback import is_loopback
from producers.bearer import read_bearer
from producers.errors import Unauthenticated
from producers.fair_queue import FairQueue
from producers.http.middleware import GRANT
from producers.plugin.app import PluginApp, StoreOf
from producers.plugin.bank_store import BankPluginStore, PluginParts
from producers.settings import ApiSettings, PluginSettings
from store.clock import read_machine_time
from store.identity import host_id
from store.tenancy.keys import Grant


def create_listener_app(
    parts: PluginParts,
    settings: PluginSettings,
    limits: ApiSettings,
    address: ListenAddress,
    fair: FairQueue,
    *,
    clock: Callable[[], datetime] = read_machine_time,
) -> PluginApp:
    """Return the application of the plugin's own listener: keyless unless a token is set, for one tenant.

    `clock`: the database's.
    """
    store, token = BankPluginStore(host_id(settings.tenant), parts), settings.token.get_secret_value()

    async def store_of(request: Request) -> BankPluginStore:
        shown = request.headers.get("authorization", "").encode()
        if token and not hmac.compare_digest(shown, f"Bearer {token}".encode()):
            raise Unauthenticated("the plugin's token is needed: Authorization: Bearer <token>")
        return store

    own = is_loopback if address.is_local and address.path is None and not token else None
    return PluginApp(store_of, limits, fair, alone=True, is_own_name=own, clock=clock)


def make_store_finder(parts: PluginParts, authenticate: Callable[[str], Awaitable[Grant | None]]) -> StoreOf:
    """Return a function that finds the store of a request on the API's own port, by the key in its header."""

    async def store_of(request: Request) -> BankPluginStore:
        token = read_bearer(request.headers)
        grant = await authenticate(token) if token else None
        if grant is None:
            raise Unauthenticated("a valid key is needed: Authorization: Bearer <key>")
        request.scope[GRANT] = grant
        return BankPluginStore(grant.host_id, parts, grant)

    return store_of
