"""`afterturn console`: a one-time link that signs a browser in to the console."""

import httpx
import typer
from afterturn_client.errors import InvalidRequestError
from afterturn_client.transport import check_base_url, check_way

from deploy.cli.operator_api import find_operator_key, read_refusal
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import exit_with, print_json
from deploy.cli.running_stack import find_running_stack, read_key
from deploy.local.stack import Stack

PAGE, LINKS = "/console", "/api/v1/console/links"
SECONDS = 10.0


class ConsoleUnavailable(Exception):
    """The service gives no link; the text says why."""


def create_link(stack: Stack) -> str:
    """Return the URL that signs a browser in once, within an hour, with the stack's keys, an operator's included.

    Raises ConsoleUnavailable.
    """
    keys = [key for key in dict.fromkeys((read_key(stack), find_operator_key(stack))) if key]
    try:
        check_way(check_base_url(stack.api), allow_http=stack.allow_http)
        # Nothing of the environment: a proxy would see the keys.
        reply = httpx.post(f"{stack.api}{LINKS}", json={"keys": keys}, timeout=SECONDS, trust_env=False)
    except InvalidRequestError as error:
        raise ConsoleUnavailable(f"{stack.api} cannot be called: {error}") from None
    except httpx.RequestError as error:
        raise ConsoleUnavailable(f"{stack.api} does not answer ({type(error).__name__})") from None
    if reply.status_code == httpx.codes.CREATED:
        return f"{stack.api}{PAGE}#link={reply.json()['link']}"
    if reply.status_code == httpx.codes.NOT_FOUND:
        raise ConsoleUnavailable("the console is not served there: set api.console.enabled")
    raise ConsoleUnavailable(f"the service refused: {read_refusal(reply)}")


def console_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Print a link that signs a browser in to the console: it works once, within an hour.

    The console shows what is remembered and why a recall answers as it does, and repairs it. The link signs in with the
    stack's own keys, or with the key of the service that `--url` or a context names.

    **Example:** `afterturn console`
    """
    stack = find_running_stack(data)
    try:
        url = create_link(stack)
    except ConsoleUnavailable as error:
        raise exit_with(str(error), 1) from None
    if as_json:
        print_json({"url": url})
    else:
        typer.echo(url)
