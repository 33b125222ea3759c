"""`afterturn unit`: show, correct, end, pin or forget one memory."""

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any

import typer
from afterturn_client import Unit
from rich.text import Text

from deploy.cli.operator_command import confirm_change
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import as_api_json, create_console, print_json
from deploy.cli.running_stack import find_running_stack, open_client
from deploy.notices import print_notice, replace_unprintable

MARGIN = "    "

UnitArgument = Annotated[str, typer.Argument(metavar="UNIT_ID", help="The unit's id, from a recall with --json.")]
VersionOption = Annotated[
    int | None, typer.Option(min=1, help="Only if the unit still has this version (from `unit show`).")
]
InBankOption = Annotated[str, typer.Option("--bank", help="The bank of the unit.")]

unit_app = create_group()


@unit_app.command("show")
def show_command(
    unit_id: UnitArgument, *, bank: InBankOption = "default", data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Show a unit: text, speaker, time, session, entities, former versions, and the facts derived from it.

    A reflection shows its source facts as `from`. Correct, pin or erase those facts; the reflection follows.

    `links` are the unit's twenty strongest: kind, strength from 0 to 1, and direction.

    **Example:** `afterturn unit show 0b7c… --bank support`
    """
    with open_client(find_running_stack(data), bank) as client:
        unit = client.get_unit(unit_id)
    if as_json:
        print_json(as_api_json(unit))
    else:
        create_console().print(_render_unit(unit), soft_wrap=True)


@unit_app.command("correct")
def correct_command(
    unit_id: UnitArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The new text; - reads standard input.")],
    *,
    bank: InBankOption = "default",
    version: VersionOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace a unit's text. The new text is searchable at once; facts derived from the old text end.

    The unit keeps its place in the conversation, and the log keeps the old text; to remove that permanently use
    `afterturn erase unit`.

    **Example:** `afterturn unit correct 0b7c… "We fly to Bergen on Friday"`
    """
    content = sys.stdin.read().rstrip("\n") if text == "-" else text
    with open_client(find_running_stack(data), bank) as client:
        done = client.correct_unit(unit_id, content, version=version)
    if as_json:
        print_json(as_api_json(done))
    elif done.changed:
        print(f"corrected at position {done.position}; {done.facts_ended} facts of the old text ended")
    else:
        print("the unit has this text already; nothing was changed")


@unit_app.command("end")
def end_command(
    unit_id: UnitArgument,
    ends: Annotated[
        str, typer.Argument(metavar="TIME", help="The time, as 2026-05-01T12:00:00Z, or `never`.", show_default=False)
    ],
    *,
    bank: InBankOption = "default",
    version: VersionOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set when a unit ends: from then on it is in no answer, with the facts derived from it.

    **Example:** `afterturn unit end 0b7c… 2026-12-31T23:00:00Z`
    """
    at = None if ends == "never" else _parse_end(ends)
    with open_client(find_running_stack(data), bank) as client:
        done = client.end_unit(unit_id, at, version=version)
    if as_json:
        print_json(as_api_json(done))
    else:
        state = "never ends" if at is None else f"ends at {at.isoformat()}"
        print(f"it {state}" if done.changed else f"it {state} already; nothing was changed")


def _parse_end(ends: str) -> datetime:
    try:
        at = datetime.fromisoformat(ends)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise typer.BadParameter("needs a time with its zone, as 2026-05-01T12:00:00Z, or `never`", param_hint="TIME")
    return at


@unit_app.command("pin")
def pin_command(
    unit_id: UnitArgument, *, bank: InBankOption = "default", data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Pin a unit: every answer of its bank contains it, within the question's filters. Idempotent.

    A corrected unit stays pinned; `afterturn unit unpin` ends it.

    **Example:** `afterturn unit pin 0b7c… --bank support`
    """
    _set_pinned(unit_id, bank, data, pinned=True, as_json=as_json)


@unit_app.command("unpin")
def unpin_command(
    unit_id: UnitArgument, *, bank: InBankOption = "default", data: DataOption = None, as_json: JsonOption = False
) -> None:
    """Unpin a unit, also one that was pinned by its turn: recall ranks it as any other.

    **Example:** `afterturn unit unpin 0b7c…`
    """
    _set_pinned(unit_id, bank, data, pinned=False, as_json=as_json)


def _set_pinned(unit_id: str, bank: str, data: Path | None, *, pinned: bool, as_json: bool) -> None:
    with open_client(find_running_stack(data), bank) as client:
        done = client.pin_unit(unit_id, pinned=pinned)
    if as_json:
        told = {"ok": True, "unit_id": done.unit_id, "position": done.position}
        print_json({**told, "pinned": pinned, "changed": done.changed})
        return
    state = "pinned" if pinned else "not pinned"
    print(f"{state} from position {done.position} on" if done.changed else f"it is {state} already")


@unit_app.command("forget")
def forget_command(
    unit_id: UnitArgument,
    *,
    bank: InBankOption = "default",
    with_facts: Annotated[
        bool,
        typer.Option("--with-facts/--keep-facts", help="Whether derived facts end that have no other source."),
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget a unit and the facts derived from it that nothing else says: they are in no answer any more.

    `--keep-facts` leaves the facts; the same command without it forgets them later.
    Reflections are rebuilt when their facts change. The log keeps forgotten text; `afterturn erase unit` removes it
    permanently.

    **Example:** `afterturn unit forget 0b7c… --yes`
    """
    stack = find_running_stack(data)
    if not yes:
        confirm_change(f"Unit {unit_id} would be forgotten.", "--yes, or look with `afterturn unit show` first.")
    with open_client(stack, bank) as client:
        left = 0 if with_facts else len(client.get_unit(unit_id).facts)
        facts = client.delete_unit(unit_id, with_facts=with_facts)
    if as_json:
        print_json(
            {"ok": True, "unit_id": unit_id, **({"facts_forgotten": facts} if with_facts else {"facts_left": left})}
        )
        return
    print(f"forgotten, and {facts} facts with it" if with_facts else "forgotten")
    if left:
        print_notice(f"{left} facts drawn from it stay: `afterturn unit forget {unit_id}` forgets them, too")


def _render_unit(unit: Unit) -> Text:
    raw = as_api_json(unit)
    shown = Text(
        replace_unprintable(f"{unit.unit_id}  {unit.kind}, {raw.get('origin')}, version {raw.get('version')}"), "bold"
    )
    shown.append(f"\n{indent(replace_unprintable(unit.text or ''), MARGIN)}", style="not bold")
    for name, value in _build_unit_rows(raw):
        if value:
            shown.append(f"\n{name:>8}  ", style="not bold dim").append(replace_unprintable(value), style="not bold")
    return shown


def _build_unit_rows(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    metadata = raw.get("metadata") or {}
    until = f" until {raw['valid_to']}" if raw.get("valid_to") else ""
    return [
        ("said by", " ".join(part for part in (raw.get("name"), _bracket_role(raw.get("role"))) if part)),
        ("when", str(raw.get("occurred_at") or "")),
        ("where", "/".join(part for part in (raw.get("session_id"), raw.get("turn_id")) if part)),
        ("holds", f"from {raw['valid_from']}{until}" if raw.get("valid_from") else ""),
        ("state", " by ".join(part for part in (raw.get("state"), raw.get("state_by")) if part)),
        ("deletion", ", ".join(f"proposed because of {one}" for one in raw.get("deletion_proposed_by") or ())),
        ("sure", str(metadata.get("confidence", ""))),
        ("names", ", ".join(raw.get("entities") or ())),
        ("from", ", ".join(raw.get("sources") or ())),
        ("facts", f"\n{' ' * 10}".join(f"{one['unit_id']}  {one['text']}" for one in raw.get("facts") or ())),
        ("links", f"\n{' ' * 10}".join(_format_link(one) for one in raw.get("links") or ())),
        ("metadata", ", ".join(f"{name}={value}" for name, value in sorted(metadata.items()))),
        ("pinned", "yes" if raw.get("pinned") else ""),
        ("ends", str(raw.get("expires_at") or "")),
        ("former", f"\n{' ' * 10}".join(map(_format_former, raw.get("former") or ()))),
        ("position", str(raw.get("position", ""))),
    ]


def _format_former(one: Mapping[str, Any]) -> str:
    """Return a version that was replaced, with the time since when it stood."""
    return f"{one['version']}{', pinned' if one['pinned'] else ''}, since {one['recorded_at']}  {one['text']}"


def _format_link(link: Mapping[str, Any]) -> str:
    excerpt = " ".join(str(link["excerpt"]).split())
    return f"{link['kind']} {link['weight']:.2f} {link['direction']} {link['unit_id']}  {excerpt}"


def _bracket_role(role: str | None) -> str:
    return f"({role})" if role else ""
