"""`afterturn banks|sessions|turns|users list|show`: what a key can read, page by page, over HTTP."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer
from afterturn_client import Afterturn, Page

from deploy.cli import name_arguments
from deploy.cli.existence import BANKS_SEARCHED, describe_missing
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import as_api_json, exit_with, print_fields, print_rows
from deploy.cli.running_stack import find_running_stack, open_client
from deploy.cli.user_names import parse_user_id, resolve_user
from deploy.notices import print_notice

#: Rows per request, and the default length of a list.
PAGE = 200

BankOption = Annotated[str, typer.Option(parser=name_arguments.parse_bank, metavar="NAME", help="The bank.")]
SessionArgument = Annotated[
    str,
    typer.Argument(parser=name_arguments.parse_session, metavar="SESSION", help="The session id that the agent uses."),
]
LimitOption = Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rows.")]
CursorOption = Annotated[
    str | None, typer.Option(metavar="CURSOR", help="Continue after the page with this `cursor` (see --json).")
]


class Origin(StrEnum):
    """Where a unit is from."""

    MESSAGE = "message"
    EXTRACTION = "extraction"
    DOCUMENT = "document"
    MEMORY = "memory"


banks_app = create_group()
sessions_app = create_group()
turns_app = create_group()
users_app = create_group()
units_app = create_group()


@banks_app.command("list")
def list_banks(
    *, limit: LimitOption = PAGE, cursor: CursorOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the banks that the key can read, by name.

    **Example:** `afterturn banks list --limit 20`
    """
    with open_client(find_running_stack(data), "default") as client:
        _print_page("banks", client.list_banks(cursor=cursor, limit=limit), as_json=as_json)


@banks_app.command("show")
def show_bank(
    bank: Annotated[
        str, typer.Argument(parser=name_arguments.parse_bank, metavar="BANK", help="Full name of the bank.")
    ],
    *,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a bank: owner, language and the progress of each stage.

    **Example:** `afterturn banks show support`
    """
    with open_client(find_running_stack(data), bank) as client:
        found = _find_row(client.list_banks, bank, "bank")
        print_fields({**as_api_json(found), "freshness": as_api_json(client.freshness())}, as_json=as_json)


@sessions_app.command("list")
def list_sessions(
    *,
    bank: BankOption = "default",
    limit: LimitOption = PAGE,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the sessions of a bank, most recent turn first.

    **Example:** `afterturn sessions list --bank support`
    """
    with open_client(find_running_stack(data), bank) as client:
        page = client.list_sessions(cursor=cursor, limit=limit)
        require_bank(client, bank, found=bool(page.rows or page.cursor))
        _print_page("sessions", page, as_json=as_json)


@sessions_app.command("show")
def show_session(
    session: SessionArgument, *, bank: BankOption = "default", data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Show a session: number of turns and time of the last one.

    **Example:** `afterturn sessions show monday --bank support`
    """
    with open_client(find_running_stack(data), bank) as client:
        found = _find_row(client.list_sessions, session, "session_id")
        print_fields(as_api_json(found), as_json=as_json)


@turns_app.command("list")
def list_turns(
    session: SessionArgument,
    *,
    bank: BankOption = "default",
    limit: LimitOption = PAGE,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the turns of a session in their order.

    **Example:** `afterturn turns list monday --bank support`
    """
    with open_client(find_running_stack(data), bank) as client:
        page = client.list_turns(session, cursor=cursor, limit=limit)
        require_bank(client, bank, found=bool(page.rows or page.cursor))
        if not page.rows and cursor is None:
            raise exit_with(
                f"bank {bank!r} has no session {session!r}; `afterturn sessions list` shows those it has", 1
            )
        _print_page("turns", page, as_json=as_json)


@turns_app.command("show")
def show_turn(
    session: SessionArgument,
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn id that the agent uses.")],
    *,
    bank: BankOption = "default",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a turn: the status of each stage and the messages.

    **Example:** `afterturn turns show monday 1 --bank support`
    """
    with open_client(find_running_stack(data), bank) as client:
        print_fields(as_api_json(client.turn_status(session, turn)), as_json=as_json)


@units_app.command("list")
def list_units(
    *,
    bank: BankOption = "default",
    origin: Annotated[
        Origin | None, typer.Option(help="Only messages, facts (`extraction`), chunks of documents or single memories.")
    ] = None,
    doc: Annotated[str | None, typer.Option(metavar="ID", help="Only the chunks of this document.")] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="USER", help="Only those of this user: by `user_id`, or by id of `users list`."),
    ] = None,
    limit: LimitOption = PAGE,
    cursor: CursorOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what a bank holds: messages, facts and pieces of documents, by id. `afterturn unit` shows and changes one.

    **Example:** `afterturn units list --bank support --origin extraction`
    """
    with open_client(find_running_stack(data), bank) as client:
        chosen = {"doc_id": doc, "user_id": user and resolve_user(client, user)}
        page = client.list_units(cursor=cursor, limit=limit, origin=origin and origin.value, **chosen)
        require_bank(client, bank, found=bool(page.rows or page.cursor))
        _print_page("units", page, as_json=as_json)


@users_app.command("list")
def list_users(
    *, limit: LimitOption = PAGE, cursor: CursorOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List users with stored memories, with their names where known.

    **Example:** `afterturn users list`
    """
    with open_client(find_running_stack(data), "default") as client:
        _print_page("users", client.list_users(cursor=cursor, limit=limit), as_json=as_json)


@users_app.command("show")
def show_user(
    user: Annotated[
        str, typer.Argument(metavar="USER", help="The user's `user_id`, or the id that `users list` shows.")
    ],
    *,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a user. For facts about the person see `afterturn profile`.

    **Example:** `afterturn users show ana`
    """
    with open_client(find_running_stack(data), "default") as client:
        print_fields(as_api_json(_find_row(client.list_users, user, "name", "user")), as_json=as_json)


def _find_row(read: Callable[..., Page[Any]], value: str, *fields: str) -> Any:
    """Return the first row of a list that has this value in one of these fields; exits 1 when there is none."""
    wanted: set[str | UUID | None] = {value, parse_user_id(value)} - {None}
    cursor = None
    while True:
        page = read(cursor=cursor)
        for row in page.rows:
            if not wanted.isdisjoint(getattr(row, name) for name in fields):
                return row
        if (cursor := page.cursor) is None:
            raise exit_with(f"the key reaches nothing that is called {value!r}", 1)


def require_bank(client: Afterturn, bank: str, *, found: bool) -> None:
    """Exit 1 where nothing was found because there is no such bank that the key reaches."""
    if found:
        return
    names: list[str] = []
    cursor = None
    while True:
        banks = client.list_banks(cursor=cursor)
        names += [one.bank for one in banks.rows]
        # A key of a user or an agent names its own banks without their owner: `notes` for `~ana/notes`.
        if any(name == bank or name.endswith(f"/{bank}") for name in names):
            return
        if (cursor := banks.cursor) is None or len(names) >= BANKS_SEARCHED:
            break
    raise exit_with(describe_missing(f"the key reaches no bank {bank!r}", "it reaches", bank, names), 1)


def _print_page(name: str, page: Page[Any], *, as_json: bool) -> None:
    rows = [as_api_json(row) for row in page.rows]
    if not rows and not as_json:
        print_notice(f"there are no {name}")
    print_rows({name: rows, "cursor": page.cursor, "has_more": page.cursor is not None}, name, as_json=as_json)
    if page.cursor and not as_json:
        print_notice(f"there are more: go on with --cursor {page.cursor}")
