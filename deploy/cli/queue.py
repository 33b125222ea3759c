"""`afterturn queue`: turn queues of publishing agents: access rules, lengths, dead letters."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import redis
import typer

from deploy.cli.operator_command import AuditedAct, confirm_change, run_audited
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack, read_settings
from deploy.components.turn_queues import build_operated_queues, queue_url
from deploy.notices import print_notice
from deploy.settings import Settings
from deploy.tables import ResultTable
from producers.jobs import PUBLISHED, published_prefix
from producers.queue.dead_letters import DeadLetter, DeadLetters
from producers.queue.operated import OperatedQueue
from store import identity
from store.database import Database

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue, from `queue.tenants`.")]
LettersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="LETTER", help="Ids of dead letters, from `queue dead`.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every dead letter of the queue.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
#: The only commands that a publisher sends.
COMMANDS = ("hset", "rpush", "hlen", "multi", "exec", "waitaof", "ping")

queue_app = create_group()


@queue_app.command("acl")
def acl_command(
    queue: QueueArgument,
    *,
    user: Annotated[str, typer.Option(help="Redis user of the publisher.")],
) -> None:
    """Print the ACL command for a publisher that may only push to this queue; replace PASSWORD.

    **Example:** `afterturn queue acl acme --user acme-agent`
    """
    settings = read_settings()
    _require_queue(settings, queue)
    print(describe_access(settings, queue, user))


def describe_access(settings: Settings, queue: str, user: str) -> str:
    """Return the ACL command for a publisher: write-only on two lists and two hashes, by the commands it sends."""
    prefix = published_prefix(settings.broker.namespace, queue)
    keys = [f"%W~{prefix}:{name}{part}" for name in PUBLISHED for part in ("", ".msgs")]
    select = ["+select"] if urlsplit(queue_url(settings)).path.strip("/") not in ("", "0") else []
    commands = [*(f"+{name}" for name in COMMANDS), *select]
    return " ".join(
        ["ACL SETUSER", shlex.quote(user), "reset on '>PASSWORD'", *(f"'{key}'" for key in keys), *commands]
    )


@queue_app.command("list")
def list_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List turn queues: tenant, length, number of dead letters."""
    settings = read_settings()
    found = [_read_queue(settings, queue, data) for queue in settings.queue.tenants]
    if as_json:
        print_json({"queues": found})
        return
    counts = ("turns", "recalls", "dead")
    table = ResultTable("queue", "tenant", *counts, numbers=counts)
    for one in found:
        table.add_values(
            one["queue"], one["tenant"], *("?" if one[name] is None else str(one[name]) for name in counts)
        )
    if any(one[name] is None for one in found for name in counts):
        print_notice("? is a key of another type, which a publisher made: a worker that reads the queue deletes it")
    create_console().print(table)


@queue_app.command("dead")
def dead_command(queue: QueueArgument, *, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List dead letters, the oldest first, with their reason and without content.

    **Example:** `afterturn queue dead acme`
    """
    with _open_queue(read_settings(), queue, data) as opened:
        letters = opened.letters.list()
    if as_json:
        print_json({"letters": [asdict(letter) for letter in letters]})
        return
    table = ResultTable("letter", "died", "queue", "attempts", "code", "reason", "content", numbers=["attempts"])
    for letter in letters:
        died = datetime.fromtimestamp(letter.died_ms / 1000, UTC).isoformat(timespec="seconds")
        kept = "kept" if letter.content_kept else "not kept"
        table.add_values(letter.message_id, died, letter.queue, str(letter.attempts), letter.code, letter.message, kept)
    create_console().print(table)


@queue_app.command("replay")
def replay_command(
    queue: QueueArgument,
    letters: LettersArgument = None,
    *,
    everything: AllOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move dead letters back to their queue. Exits 1 when the content of one was not kept.

    Content is kept only with `queue.keep_dead_content`.

    **Example:** `afterturn queue replay acme --all`
    """
    _change_letters(queue, letters, data, "queue.replay", everything=everything, as_json=as_json)


@queue_app.command("drop")
def drop_command(
    queue: QueueArgument,
    letters: LettersArgument = None,
    *,
    everything: AllOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete dead letters permanently.

    **Example:** `afterturn queue drop acme 1f0c --yes`
    """
    if not yes:
        confirm_change("Remove these letters for good?", "--yes")
    _change_letters(queue, letters, data, "queue.drop", everything=everything, as_json=as_json)


def _require_queue(settings: Settings, queue: str) -> None:
    if queue not in settings.queue.tenants:
        raise exit_with(f"queue.tenants names no queue {queue!r}", 2)


@contextmanager
def _open_queue(settings: Settings, queue: str, data: Path | None) -> Iterator[OperatedQueue]:
    """Yield a turn queue; exits 1 when its server does not answer."""
    _require_queue(settings, queue)
    if not queue_url(settings):
        there = settings.broker.model_copy(update={"url": find_running_stack(data).redis_url})
        settings = settings.model_copy(update={"broker": there})
    [opened] = (one for one in build_operated_queues(settings) if one.name == queue)
    try:
        yield opened
    except redis.RedisError as error:
        raise exit_with(f"the server of the turn queues does not answer ({type(error).__name__})", 1) from None
    finally:
        opened.letters.client.close()


def _read_queue(settings: Settings, queue: str, data: Path | None) -> dict[str, Any]:
    with _open_queue(settings, queue, data) as opened:
        lengths = {name: opened.count_waiting(name) for name in PUBLISHED}
        return {"queue": queue, "tenant": opened.tenant, **lengths, "dead": opened.letters.count()}


def _change_letters(
    queue: str, named: Sequence[str] | None, data: Path | None, operation: str, *, everything: bool, as_json: bool
) -> None:
    if bool(named) is everything:
        raise exit_with("name dead letters, or give --all", 2)
    settings = read_settings()
    with _open_queue(settings, queue, data) as opened:
        found = [one for one in opened.letters.list() if everything or one.message_id in (named or ())]
        if missing := set(named or ()) - {one.message_id for one in found}:
            raise exit_with(f"no such dead letters: {', '.join(sorted(missing))}", 1)

        async def work(database: Database, act: AuditedAct) -> int:
            del database
            act.rows = _apply_change(opened.letters, found, operation)
            return act.rows

        changed = run_audited(find_running_stack(data), operation, identity.host_id(opened.tenant), work)
    if as_json:
        print_json({"changed": changed, "left": len(found) - changed})
    else:
        print_notice(f"{changed} letters {'replayed' if operation == 'queue.replay' else 'dropped'}")
    if changed < len(found):
        print_notice(f"{len(found) - changed} were left: their content was not kept (queue.keep_dead_content)")
    raise typer.Exit(0 if changed == len(found) else 1)


def _apply_change(letters: DeadLetters, found: Sequence[DeadLetter], operation: str) -> int:
    if operation == "queue.replay":
        return sum(letters.replay(one) for one in found)
    return letters.drop([one.message_id for one in found])
