"""Clients of Memory Gateways, one for each target, with its URL, its key, and a gate (circuit breaker and rate limit).

Deliveries and recalls use them. A failing gateway of one tenant affects no other tenant.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import httpx
from afterturn_client.errors import InvalidRequestError
from afterturn_client.gateway import GatewayClient
from afterturn_client.posts import Posts
from afterturn_client.transport import check_base_url

from store.database import Database
from store.ledger.circuit_breakers import Gate, GatePolicy, gate_name
from store.tenancy.gateway_targets import GatewayTarget
from store.tracing import current_traceparent


class TargetUnusable(Exception):
    """This process cannot call a target; the text says why, free of secrets. Nothing was sent."""


@dataclass(frozen=True, slots=True)
class TargetCredentials:
    """URL and user key of a target."""

    base_url: str
    user_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """Time-outs of calls and idle connections in seconds, and the thresholds of circuit breaker and rate limit."""

    timeout_s: float
    keep_s: float
    policy: GatePolicy = field(default_factory=GatePolicy)


def canonical_url(base_url: str) -> str:
    """Return the canonical form of a gateway's URL. Raises InvalidRequestError, which does not show it."""
    return str(httpx.URL(check_base_url(base_url))).rstrip("/")


class GatewayClients:
    """Clients and gates of one use (deliveries or searches), which share connections by address.

    `access` says how this process reaches a target; it raises TargetUnusable. Belongs to one event loop.
    """

    def __init__(
        self,
        database: Database,
        access: Callable[[GatewayTarget], TargetCredentials],
        call_policy: CallPolicy,
        *use: str,
    ) -> None:
        self._database = database
        self._access = access
        self._call_policy = call_policy
        self._use = use
        self._posts: dict[str, Posts] = {}
        self._gates: dict[UUID, Gate] = {}

    def client(self, target: GatewayTarget) -> GatewayClient:
        """Return the client of a target; `aclose` closes its connections. Raises TargetUnusable."""
        access, user = self._access(target), target.user
        try:
            posts = self._posts.get(access.base_url) or self._open(access.base_url)
        except (OSError, InvalidRequestError) as error:
            # Certificates or a proxy that the environment of this process names.
            raise TargetUnusable(f"no connection can be prepared ({type(error).__name__})") from None
        patience_s = self._call_policy.timeout_s
        key = access.user_key
        names = access.base_url, user.user_id, key, user.app_id, user.project_id
        # Whether plain http may be used was asked when the target was set.
        return GatewayClient(*names, patience_s, posts=posts, allow_http=True)

    def gate(self, target: GatewayTarget) -> Gate:
        """Return the gate of a target, whose state all processes share."""
        if (found := self._gates.get(target.target_id)) is None:
            name = gate_name("gateway", str(target.target_id), *self._use)
            found = self._gates[target.target_id] = Gate(self._database, name, self._call_policy.policy)
        return found

    async def aclose(self) -> None:
        """Close all connections."""
        for posts in self._posts.values():
            await posts.aclose()

    def _open(self, base_url: str) -> Posts:
        calls = self._call_policy
        posts = Posts(check_base_url(base_url), calls.timeout_s, keep_s=calls.keep_s, traceparent=current_traceparent)
        return self._posts.setdefault(base_url, posts)
