"""Finds the running stack or remote service of a command, and creates clients of its API."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afterturn_client import (
    Afterturn,
    AfterturnError,
    ApiError,
    BadRequestError,
    InvalidArgumentError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RetryPolicy,
    UnauthenticatedError,
)
from pydantic import SecretStr

from deploy.cli.contexts import find_context, read_contexts
from deploy.cli.output import exit_with
from deploy.cli.remote_options import NAMED, RemoteOptions
from deploy.local.ports import LOOPBACK
from deploy.local.stack import Stack, StackNotRunning, find_stack
from deploy.settings import LoadedSettings, Settings, find_missing_urls, load_settings
from deploy.settings_errors import SettingsError
from store.settings import DatabaseSettings

API_KEY_FILE = "api-key"
OWNER_VARIABLE = "AFTERTURN_DATABASE__OWNER_URL"
KEY_VARIABLE = "AFTERTURN_CLIENT__KEY"
KEY_SETTING = f"the setting client.key ({KEY_VARIABLE})"

#: Errors of a request that a running service refused as wrong or not allowed.
_USAGE_ERRORS = (BadRequestError, InvalidArgumentError, InvalidRequestError, PermissionDeniedError)
#: What is said of a unit or turn that is not found.
_WHERE_TO_LOOK = (
    "if it is in another bank, name it with --bank; `afterturn banks list` and `units list` show what there is"
)


def find_running_stack(data: Path | None, config: Path | None = None) -> Stack:
    """Return the running stack of a data folder (None: the configured one); exits 2 when none runs.

    When no folder is named and no stack runs in it, the service on the configured servers is returned. `config` is the
    settings file to read instead of the usual one.
    """
    settings = read_settings(config)
    if data is None and (service := find_service_elsewhere(settings)):
        return service
    try:
        return find_stack(data or settings.data)
    except StackNotRunning as error:
        missing = find_missing_urls(settings)
        if data is None and (not missing or settings.client.url):
            return describe_service(settings)
        elsewhere = f"\nfor a service elsewhere, set {', '.join(missing)}; see docs/operations.md" if missing else ""
        raise exit_with(f"{error}{elsewhere}", 2) from None


def find_service_elsewhere(settings: Settings) -> Stack | None:
    """Return the remote service that the command line names, else the current context; None: this machine."""
    named = NAMED.get() or RemoteOptions()
    if named.context is not None:
        return _describe_context(settings, named.context)
    if named.url is not None:
        key, source = (settings.client.key, KEY_SETTING) if named.key is None else (SecretStr(named.key), "--key")
        if named.key_file is not None:
            key, source = SecretStr(_read_key_file(named.key_file)), f"the file {named.key_file}"
        client = settings.client.model_copy(update={"url": named.url, "key": key})
        elsewhere = settings.model_copy(update={"client": client, "database": DatabaseSettings()})
        return describe_service(elsewhere, source)
    if "AFTERTURN_DATA" in os.environ or not find_missing_urls(settings):
        return None
    known = read_contexts()
    return _describe_context(settings, known.current) if known.current else None


def _describe_context(settings: Settings, name: str) -> Stack:
    context = find_context(name)
    client = settings.client.model_copy(
        update={"url": context.url, "key": context.key, "allow_http": context.allow_http}
    )
    elsewhere = settings.model_copy(update={"client": client, "database": DatabaseSettings()})
    return describe_service(elsewhere, f"the context {name}")


def _read_key_file(path: Path) -> str:
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise exit_with(f"{path} cannot be read ({type(error).__name__})", 2) from None
    if not key:
        raise exit_with(f"{path} is empty: it must hold the key for --url", 2)
    return key


def read_settings(config: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Return the effective settings; exits 2 when they are invalid."""
    return read_loaded_settings(config, overrides).settings


def read_loaded_settings(config: Path | None = None, overrides: Mapping[str, Any] | None = None) -> LoadedSettings:
    """Return the effective settings with their origins; exits 2 when they are invalid."""
    try:
        return load_settings(config=config, overrides=overrides)
    except SettingsError as error:
        raise exit_with(f"these settings cannot be used:\n{error}", 2) from None


def describe_service(settings: Settings, key_source: str = KEY_SETTING) -> Stack:
    """Return the service on the configured servers in the form of a running stack; errors name the key's source."""
    api = settings.client.url.rstrip("/") or f"http://{LOOPBACK}:{settings.api.port}"
    return Stack(
        pid=os.getpid(),
        api=api,
        metrics=f"{api}/metrics",
        docs=f"{api}/docs",
        api_key_file=settings.data / API_KEY_FILE,
        database_url=settings.database.url,
        operator_url=settings.database.operator_url,
        owner_url=settings.database.owner_url,
        redis_url=settings.broker.url,
        postgres_dir=settings.data,
        recall=settings.recall,
        embedding=settings.embedding,
        enrichment=settings.enrichment,
        gateway_sealing_keys=settings.gateway.sealing_keys,
        key=settings.client.key if settings.client.key.get_secret_value() else None,
        key_source=key_source,
        allow_http=settings.client.allow_http,
        transaction_pooling=settings.database.transaction_pooling,
    )


def find_owner_url(stack: Stack) -> str:
    """Return the URL of the database's owner; exits 2 when it is unknown."""
    url = stack.owner_url.get_secret_value()
    if not url:
        raise exit_with(f"this works as the owner of the tables: set database.owner_url ({OWNER_VARIABLE})", 2)
    return url


def read_key(stack: Stack) -> str:
    """Return the key that commands send; exits 2 when there is none."""
    try:
        return stack.api_key()
    except (OSError, UnicodeDecodeError):
        raise exit_with(
            f"no key can be read from {stack.api_key_file}; for a service elsewhere, set client.key ({KEY_VARIABLE})", 2
        ) from None


@contextmanager
def open_client(
    stack: Stack, bank: str, *, timeout_s: float = 10.0, retry: RetryPolicy | None = None
) -> Iterator[Afterturn]:
    """Yield a client with the stack's own key; exits 2 when there is none.

    An error of the client in the block is a message and an exit status: 2 for a bad request or key, else 1.
    """
    key = read_key(stack)
    try:
        client = Afterturn(stack.api, key, bank=bank, timeout_s=timeout_s, retry=retry, allow_http=stack.allow_http)
    except InvalidRequestError as error:
        raise exit_with(f"{stack.api} cannot be called: {error}", 2) from None
    with client, _exit_on_api_error(stack):
        yield client


def build_database_settings(stack: Stack) -> DatabaseSettings:
    """Return settings of a short-lived connection to the stack's database; exits 2 when its URL is unknown."""
    if not stack.database_url.get_secret_value():
        raise exit_with(
            f"{stack.api}: this command reads the database: set database.url and database.operator_url; "
            "an operator's key serves status, tenants, jobs, workers, keys, quota, embeddings, snapshot, audit list "
            "and gateway list",
            2,
        )
    return DatabaseSettings(
        url=stack.database_url,
        operator_url=stack.operator_url,
        pool_size=1,
        transaction_pooling=stack.transaction_pooling,
    )


@contextmanager
def _exit_on_api_error(stack: Stack) -> Iterator[None]:
    try:
        yield
    except UnauthenticatedError:
        where = stack.key_source if stack.key else f"the file {stack.api_key_file}"
        raise exit_with(f"{stack.api} does not know the key that {where} holds; ask its operator for one", 2) from None
    except _USAGE_ERRORS as error:
        raise exit_with(f"the service refused: {error}", 2) from None
    except NotFoundError as error:
        raise exit_with(f"the service refused: {error}; {_WHERE_TO_LOOK}", 1) from None
    except ApiError as error:
        raise exit_with(f"the service refused: {error}", 1) from None
    except AfterturnError as error:
        raise exit_with(f"{stack.api}: {error}", 1) from None
