"""`afterturn erase`: erase a user, a bank, or something in a bank permanently, with a receipt."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text
from sqlalchemy import NullPool, text
from sqlalchemy.exc import SQLAlchemyError

from deploy.cli import name_arguments
from deploy.cli.existence import find_host_id, require_existing
from deploy.cli.operator_command import AuditedAct, run_audited, run_on_database
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import as_api_json, create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.cli.user_names import parse_user_id
from deploy.components.bootstrap import HOST
from deploy.local.stack import Stack
from deploy.notices import print_notice, replace_unprintable
from deploy.tables import ResultTable
from producers.service.erasures import describe_receipt
from store.clock import DatabaseClock
from store.connections import create_owner_engine
from store.database import Database
from store.erasure import Erasures, ErasureTarget, Kind, Receipt
from store.erasure.user_names import is_name
from store.errors import IsReflection, NotFound
from store.memory.listings import Listings

#: Tables whose dead rows hold what was erased until they are vacuumed.
VACUUMED = (
    "event_store_t",
    "agent_memory_unit_t",
    "agent_memory_doc_t",
    "agent_memory_directive_t",
    "agent_memory_entity_t",
    "agent_memory_unit_entity_t",
    "unit_word_t",
    "posting_t",
    "unit_vector_t",
    "term_t",
    "session_message_t",
    "recall_job_t",
    "open_turn_t",
)

HostOption = Annotated[str, typer.Option("--host", help="The tenant (host).")]
BankOption = Annotated[str, typer.Option("--bank", help="The bank.")]
NameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        help="Also erase what others said that contains this name, in the banks where the user spoke (repeatable).",
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count what would be erased; change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]

erase_app = create_group()


@dataclass(frozen=True, slots=True)
class BankedCommand:
    """A command that erases one thing of a bank: its kind, its argument and its help."""

    kind: Kind
    metavar: str
    argument: str
    help: str
    parser: Callable[[str], str] = str


#: Each is `afterturn erase KIND NAME --bank BANK`.
BANKED_COMMANDS = (
    BankedCommand(
        Kind.UNIT,
        "UNIT_ID",
        "The unit's id, from a recall with --json.",
        "Erase one unit and everything derived from it.\n\n**Example:** `afterturn erase unit 0b7c… --bank support`",
    ),
    BankedCommand(
        Kind.DOCUMENT,
        "DOC_ID",
        "The document's id.",
        "Erase a document: its text, its units and all drawn from them, also after it was forgotten.\n\n"
        "**Example:** `afterturn erase document 7d1e… --bank support`",
    ),
    BankedCommand(
        Kind.DIRECTIVE,
        "DIRECTIVE_ID",
        "The directive's id.",
        "Erase a directive with all its versions, also after it was deleted.\n\n"
        "**Example:** `afterturn erase directive 5c2a… --bank support`",
    ),
    BankedCommand(
        Kind.MEMORY,
        "MEMORY_ID",
        "The id of the single memory.",
        "Erase a single memory: all texts that had this id, also after it was deleted.\n\n"
        "**Example:** `afterturn erase memory seat`",
        name_arguments.parse_name,
    ),
    BankedCommand(
        Kind.SESSION,
        "SESSION",
        "The session id that the agent uses.",
        "Erase a session: all its turns and its history. A later turn under that name begins a new session.\n\n"
        "**Example:** `afterturn erase session monday --dry-run`",
        name_arguments.parse_session,
    ),
)


def _add_banked_command(made: BankedCommand) -> None:
    argument = typer.Argument(parser=made.parser, metavar=made.metavar, help=made.argument)

    def erase_of_bank(
        name: Annotated[str, argument],
        *,
        bank: BankOption = "default",
        host: HostOption = HOST,
        dry_run: DryRunOption = False,
        yes: YesOption = False,
        data: DataOption = None,
        json: JsonOption = False,
    ) -> None:
        target = ErasureTarget(made.kind, bank, name)
        _erase_target(
            EraseRequest(target, f"{made.kind} {name}", host, bank), data, dry_run=dry_run, yes=yes, json=json
        )

    erase_app.command(made.kind.value, help=made.help)(erase_of_bank)


for one in BANKED_COMMANDS:
    _add_banked_command(one)


@erase_app.command("user")
def user_command(
    user: Annotated[
        str,
        typer.Argument(
            parser=name_arguments.parse_name,
            metavar="USER",
            help="The `user_id` of the turns, or an id of `users list`.",
        ),
    ],
    *,
    name: NameOption = None,
    host: HostOption = HOST,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Erase a user's turns and sessions in all banks, and the user's own banks; revoke the user's keys.

    In sessions of others, the user's corrections and pins are erased too. The receipt says what stays. Erasure selects
    by user id; what others said about the user is erased only with `--name` (`--dry-run` proposes names).

    **Example:** `afterturn erase user ana --yes --json`
    """
    called = tuple(name or ())
    if not all(map(is_name, called)):
        raise exit_with("--name: give one word of letters that is no common word, such as Kate", 2)
    _erase_target(
        EraseRequest(ErasureTarget(Kind.USER, None, user, called), f"user {user}", host),
        data,
        dry_run=dry_run,
        yes=yes,
        json=json,
    )


@erase_app.command("bank")
def bank_command(
    bank: Annotated[str, typer.Argument(parser=name_arguments.parse_bank, metavar="BANK", help="Name of the bank.")],
    *,
    host: HostOption = HOST,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Erase a bank and everything in it. A later turn under that name begins a new bank.

    **Example:** `afterturn erase bank support`
    """
    _erase_target(
        EraseRequest(ErasureTarget(Kind.BANK, bank), f"bank {bank}", host), data, dry_run=dry_run, yes=yes, json=json
    )


@dataclass(frozen=True, slots=True)
class EraseRequest:
    """The target of an erasure: its kind, name and bank."""

    target: ErasureTarget
    named: str
    host: str
    bank: str | None = None


def _erase_target(asked: EraseRequest, data: Path | None, *, dry_run: bool, yes: bool, json: bool) -> None:
    stack = find_running_stack(data)
    require_existing(stack, asked.host, asked.bank)
    if not dry_run and not yes:
        _confirm_erasure(asked.named)
    host = find_host_id(asked.host)
    target = _resolve_target(stack, host, asked.target)

    async def estimate(database: Database) -> tuple[Receipt, Sequence[str]]:
        erasures = Erasures(database, await DatabaseClock.asked(database))
        aliases = await erasures.propose_aliases(host, target.name) if target.kind is Kind.USER else ()
        return await erasures.estimate(host, target), aliases

    async def erase(database: Database, act: AuditedAct) -> Receipt:
        erasures = Erasures(database, act.clock)
        receipt = await erasures.run(host, await erasures.request(host, target))
        act.rows = sum(receipt.counts.values())
        return receipt

    try:
        receipt, aliases = (
            run_on_database(stack, estimate)
            if dry_run
            else (run_audited(stack, f"erase {target.kind}", host, erase), ())
        )
    except NotFound:
        raise exit_with(f"there is no {asked.named}", 1) from None
    except IsReflection as error:
        raise exit_with(str(error), 1) from None
    except KeyboardInterrupt:
        if not dry_run:
            print_notice("interrupted: an erasure that has begun goes on by itself within a minute")
        raise
    if not dry_run and not _try_vacuum(stack):
        print_notice("old row versions stay on disk until the next VACUUM: it could not be run now")
    if json:
        print_json(
            {
                "dry_run": dry_run,
                **({"aliases": list(aliases)} if dry_run else {}),
                **as_api_json(describe_receipt(receipt)),
            }
        )
    else:
        create_console().print(_render_receipt(receipt, aliases, dry_run=dry_run))


def _resolve_target(stack: Stack, host: UUID, target: ErasureTarget) -> ErasureTarget:
    """Return the target; of a user who is given by id, with the name that belongs to it."""
    user = parse_user_id(target.name) if target.kind is Kind.USER else None
    if user is None:
        return target

    async def read_name(database: Database) -> str | None:
        return await Listings(database, await DatabaseClock.asked(database)).user_name(host, user)

    return replace(target, name=run_on_database(stack, read_name) or target.name)


def _confirm_erasure(named: str) -> None:
    """Ask for confirmation; without a terminal --yes is required."""
    if not sys.stdin.isatty():
        raise exit_with("erasing cannot be undone: give --yes, or look with --dry-run first", 2)
    if not typer.confirm(f"Erase {replace_unprintable(named)} for good? This cannot be undone.", err=True):
        raise exit_with("nothing was erased", 1)


def _try_vacuum(stack: Stack) -> bool:
    """Vacuum the erased tables; False when the database could not do it now."""
    url = stack.owner_url.get_secret_value()
    if not url:
        return False
    try:
        asyncio.run(vacuum_tables(url))
    except (SQLAlchemyError, OSError):
        return False
    return True


async def vacuum_tables(owner_url: str) -> None:
    """Vacuum the tables whose dead rows hold what was erased, as far as no running transaction still reads them."""
    async with create_owner_engine(owner_url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect() as connection:
        await connection.execute(text(f"vacuum {', '.join(f'afterturn.{name}' for name in VACUUMED)}"))


def _render_receipt(receipt: Receipt, aliases: Sequence[str], *, dry_run: bool) -> Group:
    head = "would be erased" if dry_run else "erased" if receipt.done else "erased so far"
    table = ResultTable("what", head, numbers=[head])
    for name, number in sorted(receipt.counts.items()):
        if number:
            table.add_values(name.replace("_", " "), str(number))
    lines: list[Text | Table] = [table, Text("not reached:")]
    for session, turns in sorted(receipt.delivered.items()):
        lines.append(Text(replace_unprintable(f"  {turns} turns delivered to a gateway, in its session {session!r}")))
    lines += [
        Text(replace_unprintable(f"  {one.texts} texts sent to {one.endpoint}, for {one.purpose}"))
        for one in receipt.models
    ]
    lines += [Text(f"  {place}") for place in receipt.unreached]
    if receipt.stays:
        lines += [Text("stays here:"), *(Text(f"  {one}") for one in receipt.stays)]
    if aliases:
        named = ", ".join(aliases)
        lines.append(Text(replace_unprintable(f"others also call the user {named}: what they said under it stays")))
    return Group(*lines, Text("" if dry_run else f"receipt {receipt.erasure_id}"))
