"""`afterturn recall`: a question goes in, what is remembered comes out."""

import json
from textwrap import indent
from typing import Annotated

import typer
from afterturn_client import RecallAnswer, Recalled
from afterturn_client.calls import RecallOptions
from rich.table import Column, Table
from rich.text import Text

from deploy.cli.finding import BankOption, DataOption, JsonOption, client_of, ending_well, running_stack
from deploy.cli.printing import answer, console, ended, printable

MARGIN = "    "


def recall_command(
    question: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    *,
    bank: BankOption = "default",
    session: Annotated[str | None, typer.Option(help="The session the question comes from.")] = None,
    exclude_session: Annotated[
        bool, typer.Option("--exclude-session", help="Leave that session's own turns out.")
    ] = False,
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many results at most.")] = 10,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="How long the results may be together.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only units of this kind (experience, world, ...); may be repeated.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only turns with this tag, or another named.")] = None,
    user: Annotated[str | None, typer.Option(help="Only what comes from this user's turns (user_id).")] = None,
    across: Annotated[
        bool, typer.Option("--across-banks", help="In all banks this user wrote to, whatever --bank says.")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say how each result came to its place.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Say how long each step took.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the running stack what it remembers, best first.

    **Example:** `afterturn recall "where does Ana live?" -k 5`
    """
    if across and user is None:
        raise ended("--across-banks: say whose banks, by --user", 2)
    stack = running_stack(data)
    options: RecallOptions = {"k": k, "explain": explain or trace, "exclude_session": exclude_session}
    if session is not None:
        options["session_id"] = session
    if max_tokens is not None:
        options["max_tokens"] = max_tokens
    if kind:
        options["kinds"] = kind
    if tag:
        options["tags"] = tag
    if user is not None:
        options |= {"user_id": user, "across_banks": across}
    with client_of(stack, bank) as client, ending_well(stack):
        found = client.recall(question, **options)
    if as_json:
        answer(found.raw)
    else:
        console().print(_in_words(found, explain=explain), soft_wrap=True)
        if trace:
            console().print(_steps(found))


def _steps(found: RecallAnswer) -> Table:
    """Return what each step took, beside the whole."""
    table = Table("step", Column("ms", justify="right"), Column("share", justify="right"), box=None)
    for step, took in found.raw.get("trace", {}).items():
        table.add_row(printable(step), f"{took:.2f}", f"{took / max(found.took_ms, 0.001):.0%}")
    table.add_row("all", f"{found.took_ms:.2f}", "")
    return table


def _in_words(found: RecallAnswer, *, explain: bool) -> Text:
    behind = f", {found.freshness.pending} pieces of work pending" if found.freshness.pending else ""
    missing = f", not asked: {'; '.join(found.degraded)}" if found.degraded else ""
    closing = Text(f"{len(found.results)} recalled in {found.took_ms:.1f} ms{behind}{missing}", style="dim")
    return Text("\n").join(
        [*(_shown(rank, one, explain=explain) for rank, one in enumerate(found.results, 1)), closing]
    )


def _shown(rank: int, one: Recalled, *, explain: bool) -> Text:
    when = one.occurred_at.strftime("%Y-%m-%d %H:%M") if one.occurred_at else ""
    place = "/".join(part for part in (one.bank, one.session_id, one.turn_id) if part)
    who = one.name or one.role or one.kind
    facts = [f"{rank:>2}.", f"{one.score:.4f}", when, who, place, "+".join(one.arms)]
    shown = Text(printable("  ".join(fact for fact in facts if fact)), style="bold")
    shown.append(f"\n{indent(printable(one.text), MARGIN)}", style="not bold")
    if explain and one.explain is not None:
        why = json.dumps(one.explain, ensure_ascii=False)
        shown.append(f"\n{indent(printable(why), MARGIN)}", style="not bold dim")
    return shown
