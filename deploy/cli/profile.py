"""`afterturn profile`: facts about a person, with their sources."""

from collections.abc import Iterator
from typing import Annotated

import typer
from afterturn_client.calls import ProfileOptions
from afterturn_client.contract.facts import EndedFacts, Fact, Profile
from rich.text import Text

from deploy.cli.lists import require_bank
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import as_api_json, create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack, open_client
from deploy.cli.user_names import is_known_user, resolve_user
from deploy.notices import print_notice, replace_unprintable


def profile_command(
    *,
    user: Annotated[
        str | None, typer.Option("--user", help="User whose turns the facts come from: `user_id`, or id.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Person with this name in a bank.")] = None,
    bank: Annotated[
        str | None,
        typer.Option("--bank", help="Only this bank (default: with a user all banks, with --name the default bank)."),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Include superseded facts, and count deleted and expired ones.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of facts.")] = 200,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Cursor of the page before.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show facts about a user: current values, since when, how often stated, and their source turns.

    Facts come from the extraction stage; no model is called.

    **Example:** `afterturn profile --name Ana --history`
    """
    if user is None and name is None:
        raise exit_with("name a person: --user, --name, or both", 2)
    options: ProfileOptions = {"history": history, "limit": limit}
    with open_client(find_running_stack(data), bank or "default") as client:
        given = {"user_id": user and resolve_user(client, user), "name": name, "bank": bank, "cursor": cursor}
        options |= {key: value for key, value in given.items() if value is not None}  # type: ignore[typeddict-item] # its keys
        found = client.profile(**options)
        is_known = bool(found.facts or found.names or found.cursor)
        if bank is not None:
            require_bank(client, bank, found=is_known)
        if user is not None and not is_known and not is_known_user(client, options["user_id"]):
            print_notice(f"the key reaches no user {user!r}; `afterturn users list` lists those it reaches")
    if as_json:
        print_json(as_api_json(found))
    else:
        create_console().print(_render_profile(found), soft_wrap=True)


def _render_profile(found: Profile) -> Text:
    lines = [Text(replace_unprintable(", ".join(found.names) or "no name known"), style="bold")]
    lines += [line for fact in found.facts for line in _render_fact(fact)]
    beside = [f"{one.name} ({one.kind}, {one.units})" for one in found.beside]
    if beside:
        lines.append(Text(replace_unprintable(f"mentioned together with: {', '.join(beside)}"), style="dim"))
    lines += [Text(_tell_ended(one), style="dim") for one in found.ended]
    more = f"; more: --cursor {found.cursor}" if found.cursor else ""
    count = len(found.facts)
    lines.append(Text(f"{count} {'fact' if count == 1 else 'facts'}{more}", style="dim"))
    return Text("\n").join(lines)


def _tell_ended(one: EndedFacts) -> str:
    return f"{one.facts} {'fact' if one.facts == 1 else 'facts'} {one.state}: {one.why.replace('_', ' ')}"


def _render_fact(fact: Fact, label: str = "") -> Iterator[Text]:
    place = "/".join(part for part in (fact.bank, fact.session_id, fact.turn_id) if part)
    until = f" until {fact.until:%Y-%m-%d}, {fact.state}" if fact.until else ""
    times = f", stated in {fact.stated} turns" if fact.stated > 1 else ""
    margin = " " * len(label)
    yield Text(replace_unprintable(f"{label}{fact.text}"))
    yield Text(
        replace_unprintable(f"{margin}    since {fact.since:%Y-%m-%d}{until}{times}  {place}  {fact.unit_id}"),
        style="dim",
    )
    for message in fact.deletion_proposed_by:
        yield Text(f"{margin}    a model proposes to delete it, because of message {message}", style="yellow")
    for before in fact.history:
        yield from _render_fact(before, f"{margin}    before: ")
