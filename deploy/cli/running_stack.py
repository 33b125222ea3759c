"""From `--data` to the running stack, and from there to a client of its API."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from afterturn_client import (
    Afterturn,
    AfterturnError,
    ApiError,
    BadRequestError,
    InvalidArgumentError,
    InvalidRequestError,
    PermissionDeniedError,
    RetryPolicy,
    UnauthenticatedError,
)

from deploy.cli.output import exit_with
from deploy.local.stack import Stack, StackNotRunning, find_stack
from deploy.settings import load_settings
from deploy.settings_errors import SettingsError
from store.settings import DatabaseSettings

DataOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The running stack's data folder (default: AFTERTURN_DATA, else the usual one)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on one line.")]
BankOption = Annotated[str, typer.Option(help="The bank of memories; a line that names its own keeps it.")]

#: The stack is there, but what was asked is wrong or not allowed.
_USAGE_ERRORS = (BadRequestError, InvalidArgumentError, InvalidRequestError, PermissionDeniedError)


def find_running_stack(data: Path | None) -> Stack:
    """Return the stack of a data folder (None: that of the settings), or end with status 2."""
    try:
        return find_stack(data or load_settings().settings.data)
    except SettingsError as error:
        raise exit_with(f"these settings cannot be used:\n{error}", 2) from None
    except StackNotRunning as error:
        raise exit_with(str(error), 2) from None


def create_client(stack: Stack, bank: str, *, timeout_s: float = 10.0, retry: RetryPolicy | None = None) -> Afterturn:
    """Return a client with the stack's own key, or end with status 2."""
    try:
        return Afterturn(stack.api, stack.api_key(), bank=bank, timeout_s=timeout_s, retry=retry, allow_http=True)
    except (OSError, UnicodeDecodeError, InvalidRequestError):
        raise exit_with(f"no key can be read from {stack.api_key_file}", 2) from None


def build_database_settings(stack: Stack) -> DatabaseSettings:
    """Return how to reach the stack's database for one short look."""
    return DatabaseSettings(url=stack.database_url, operator_url=stack.operator_url, pool_size=1)


@contextmanager
def exit_on_api_error(stack: Stack) -> Iterator[None]:
    """Turn the client's errors into a line and a status: 2 for a wrong question or key, else 1."""
    try:
        yield
    except UnauthenticatedError:
        raise exit_with(f"the service does not know the key in {stack.api_key_file}", 2) from None
    except _USAGE_ERRORS as error:
        raise exit_with(f"the service refused: {error}", 2) from None
    except ApiError as error:
        raise exit_with(f"the service refused: {error}", 1) from None
    except AfterturnError as error:
        raise exit_with(f"{stack.api}: {error}", 1) from None
