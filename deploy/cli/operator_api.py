"""The operator's interface over HTTP, for commands whose context has an operator's key: no database is needed."""

from typing import Any

import httpx
from afterturn_client.errors import InvalidRequestError
from afterturn_client.lost_answers import find_cause
from afterturn_client.transport import check_base_url, check_way, key_options, open_client

from deploy.cli.output import exit_with
from deploy.local.stack import Stack
from deploy.notices import replace_unprintable
from store.tenancy.tokens import OPERATOR_PREFIX

#: Time-out of a call, in seconds.
TIMEOUT_S = 30.0


class ServiceAwayError(OSError):
    """No answer came from the service; the text is the kind of failure."""


class OperatorApi:
    """A client of one service's operator API; every failure ends the command with one line."""

    def __init__(self, stack: Stack, key: str) -> None:
        """Use the stack's API with this key. Exits 2 when the key must not be sent to that URL."""
        try:
            self._base = check_base_url(stack.api)
            check_way(self._base, allow_http=stack.allow_http)
        except InvalidRequestError as error:
            raise exit_with(f"{stack.api} cannot be called: {error}", 2) from None
        self._key = key

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the service's answer; exits 1 when it fails or refuses, 2 for a wrong key."""
        try:
            return self.ask(method, path, body, **query)
        except ServiceAwayError as error:
            raise exit_with(f"{self._base} does not answer ({error})", 1) from None

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the service's answer as `call` does. Raises ServiceAwayError where none comes."""
        asked = {name: value for name, value in query.items() if value is not None}
        try:
            with open_client(httpx.Client, timeout=TIMEOUT_S, **key_options(self._base, self._key)) as client:
                reply = client.request(method, f"/api/v1/operator{path}", json=body, params=asked)
        except httpx.RequestError as error:
            raise ServiceAwayError(find_cause(error) or type(error).__name__) from None
        except InvalidRequestError as error:
            raise exit_with(str(error), 2) from None
        if reply.is_success:
            return reply.json() if reply.content else {}
        raise exit_with(f"the service refused: {read_refusal(reply)}", 2 if reply.status_code in {401, 403} else 1)


def find_operator_api(stack: Stack) -> OperatorApi | None:
    """Return the operator API when the context has an operator's key; None: use the database."""
    key = stack.key.get_secret_value() if stack.key else ""
    return OperatorApi(stack, key) if key.startswith(OPERATOR_PREFIX) else None


def read_refusal(reply: httpx.Response) -> str:
    """Return what a refusal says, fit for a terminal."""
    try:
        return replace_unprintable(str(reply.json()["error"]["message"]))
    except (ValueError, KeyError, TypeError):
        return f"status {reply.status_code}"
