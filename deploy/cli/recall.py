"""`afterturn recall`: search memory with a question."""

from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from textwrap import indent
from typing import Annotated, cast

import typer
from afterturn_client import RecallAnswer, Recalled
from afterturn_client.calls import RecallOptions
from afterturn_client.contract.knowledge import Directive
from afterturn_client.contract.recall import Evidence, Explanation
from rich.text import Text

from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack, open_client
from deploy.cli.times import parse_time
from deploy.cli.user_names import resolve_user
from deploy.notices import replace_unprintable
from deploy.tables import ResultTable

MARGIN = "    "
#: How long an answer is waited for, waiting for a position left out, in seconds.
PATIENCE_S = 10.0
#: Most banks that are searched for similar names.
MOST_BANKS = 100


BankOption = Annotated[str, typer.Option(help="The bank that is searched.")]
SessionOption = Annotated[str | None, typer.Option(help="Session in which the question is asked.")]
ExcludeOption = Annotated[bool, typer.Option("--exclude-session", help="Exclude turns of --session.")]
SkipOption = Annotated[int | None, typer.Option(min=0, max=64, help="Exclude the newest N messages of --session.")]
CountOption = Annotated[
    int | None,
    typer.Option("-k", min=1, max=100, help="Number of whole units; with --max-tokens, maximum number of passages."),
]
TokensOption = Annotated[
    int | None, typer.Option(min=1, help="Token budget of the answer (default: recall.answer_tokens).")
]
ScoreOption = Annotated[float | None, typer.Option(min=0, help="Exclude results with a lower score.")]
SessionsOption = Annotated[list[str] | None, typer.Option(help="Only units of this session (repeatable).")]
RoleOption = Annotated[list[str] | None, typer.Option(help="Only messages of this role (user, assistant, ...).")]
FromOption = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Only units from this time on.")]
ToOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only units before this time.")]
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="occurred|said",
        help="The time that --from and --to compare: when it happened, or when it was said.",
    ),
]
KindOption = Annotated[
    list[str] | None, typer.Option(help="Only units of this kind: experience, world, ... (repeatable).")
]
TagOption = Annotated[list[str] | None, typer.Option(help="Only turns with this tag (repeatable: any of them).")]
UserOption = Annotated[
    str | None, typer.Option(help="Only turns of this user: `user_id`, or the id that `users list` shows.")
]
AcrossOption = Annotated[
    bool, typer.Option("--across-banks", help="Search all banks this user wrote to; --bank is ignored.")
]
MetadataOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only turns with this metadata entry.")
]
AsOfOption = Annotated[str | None, typer.Option(metavar="TIME", help="Only what had happened by this time.")]
KnownAtOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only what was recorded by this time, in the version of that time.")
]
PositionOption = Annotated[
    int | None, typer.Option(min=0, help="Log position that the answer must include, from a write's receipt.")
]
WaitOption = Annotated[
    int | None, typer.Option(min=0, max=10_000, help="How long to wait for --min-position, in milliseconds.")
]
SourceOption = Annotated[
    list[str] | None, typer.Option("--source", "--sources", help="local, gateway, or both by repeating it.")
]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Show how each score was computed.")]
TraceOption = Annotated[bool, typer.Option("--trace", help="Show the duration of each step.")]


def recall_command(
    question: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    *,
    bank: BankOption = "default",
    session: SessionOption = None,
    exclude_session: ExcludeOption = False,
    k: CountOption = None,
    max_tokens: TokensOption = None,
    min_score: ScoreOption = None,
    in_session: SessionsOption = None,
    role: RoleOption = None,
    begin: FromOption = None,
    end: ToOption = None,
    time: TimeOption = None,
    kind: KindOption = None,
    tag: TagOption = None,
    user: UserOption = None,
    across: AcrossOption = False,
    metadata: MetadataOption = None,
    skip_recent: SkipOption = None,
    as_of: AsOfOption = None,
    known_at: KnownAtOption = None,
    min_position: PositionOption = None,
    wait_ms: WaitOption = None,
    source: SourceOption = None,
    explain: ExplainOption = False,
    trace: TraceOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search a bank's memory, best results first.

    A TIME is a date, or a date and time, in UTC unless it has an offset. `--as-of` compares when things happened,
    `--known-at` when they were stored: a diary of 2019 that was stored today is found as of 2019 and was not known
    yesterday.

    **Example:** `afterturn recall "where does Ana live?" -k 5 --as-of 2026-05-01`
    """
    if across and user is None:
        raise exit_with("--across-banks needs a user: --user NAME", 2)
    whose = {"session_id": session, "exclude_session": exclude_session, "skip_recent": skip_recent, "user_id": user}
    only = {"sessions": in_session, "roles": role, "time": time, "min_score": min_score}
    which = {"kinds": kind, "tags": tag, "metadata": _parse_metadata(metadata), "across_banks": across or None}
    when = {"as_of": _parse_optional_time(as_of, "--as-of"), "known_at": _parse_optional_time(known_at, "--known-at")}
    when |= {"begin": _parse_optional_time(begin, "--from"), "end": _parse_optional_time(end, "--to")}
    how = {"k": k, "max_tokens": max_tokens, "sources": source, "explain": explain or trace}
    fresh = {"min_position": min_position, "wait_ms": wait_ms}
    found, near = _ask_stack(data, bank, question, _collect_options(**whose, **only, **which, **when, **how, **fresh))
    if as_json:
        print_json(found.raw)
    else:
        create_console().print(_render_answer(found, explain=explain), soft_wrap=True)
        if not found.bank_known:
            create_console().print(_describe_unknown_bank(bank, near))
        if trace:
            create_console().print(_build_trace_table(found))


def _ask_stack(
    data: Path | None, bank: str, question: str, options: RecallOptions
) -> tuple[RecallAnswer, Sequence[str]]:
    """Return the answer and, for an unknown bank, the names most similar to it."""
    patience = PATIENCE_S + options.get("wait_ms", 0) / 1000
    with open_client(find_running_stack(data), bank, timeout_s=patience) as client:
        if user := options.get("user_id"):
            options = {**options, "user_id": resolve_user(client, user)}
        found = client.recall(question, **options)
        known = [] if found.bank_known else [one.bank for one in client.list_banks(limit=MOST_BANKS).rows]
    return found, get_close_matches(bank, known, n=3, cutoff=0.5)


def _describe_unknown_bank(bank: str, near: Sequence[str]) -> Text:
    hint = f"; there is {', '.join(near)}" if near else ""
    return Text(replace_unprintable(f"there is no bank {bank}{hint}"), style="yellow")


def _collect_options(**asked: object) -> RecallOptions:
    """Return the options that were given; the service's defaults apply to the others."""
    return cast("RecallOptions", {name: value for name, value in asked.items() if value not in (None, [], {})})


def _parse_metadata(texts: Sequence[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts or ()]
    if not all(equals for _, equals, _ in pairs):
        raise exit_with("--metadata: write NAME=VALUE", 2)
    return {name: value for name, _, value in pairs}


def _parse_optional_time(text: str | None, option: str) -> datetime | None:
    return None if text is None else parse_time(text, option)


def _build_trace_table(found: RecallAnswer) -> ResultTable:
    """Return a table of the duration of each step and the total."""
    table = ResultTable("step", "ms", "share", numbers=["ms", "share"])
    for step, took in (found.trace or {}).items():
        table.add_values(step, f"{took:.2f}", f"{took / max(found.took_ms, 0.001):.0%}")
    table.add_values("all", f"{found.took_ms:.2f}", "")
    return table


def _render_answer(found: RecallAnswer, *, explain: bool) -> Text:
    behind = f", {found.freshness.pending} pieces of work pending" if found.freshness.pending else ""
    missing = f", failed or late: {'; '.join(found.degraded)}" if found.degraded else ""
    doubt = _describe_doubt(found.evidence) if found.results else ""
    closing = Text(f"{len(found.results)} recalled in {found.took_ms:.1f} ms{behind}{missing}{doubt}", style="dim")
    return Text("\n").join(
        [
            *map(_render_directive, found.directives),
            *(_render_result(rank, one, explain=explain) for rank, one in enumerate(found.results, 1)),
            closing,
        ]
    )


def _describe_doubt(evidence: Evidence) -> str:
    off = "" if evidence.on_topic else ", likely off topic"
    return off + (", likely said by another speaker" if evidence.about == "other_speaker" else "")


def _render_directive(one: Directive) -> Text:
    by = f" ({one.laid_down_by})" if one.laid_down_by else ""
    return Text(replace_unprintable(f"{one.name}: {one.content}{by}"), style="italic")


def _render_result(rank: int, one: Recalled, *, explain: bool) -> Text:
    when = f"{one.occurred_at:%Y-%m-%d %H:%M}"
    place = "/".join(part for part in (one.bank, one.session_id, one.turn_id) if part)
    who = one.name or one.role or one.kind
    sure = "" if one.confidence is None else f"{one.confidence:.0%} sure"
    again = f"also in {', '.join(one.turn_ids[1:])}" if len(one.turn_ids) > 1 else ""
    former = "former" if one.former else ""
    facts = [f"{rank:>2}.", f"{one.score:.4f}", when, former, who, place, "+".join(one.arms), sure, again]
    shown = Text(replace_unprintable("  ".join(fact for fact in facts if fact)), style="bold")
    shown.append(f"\n{indent(replace_unprintable(one.text), MARGIN)}", style="not bold")
    if explain and one.explain is not None:
        shown.append(f"\n{indent(replace_unprintable(_describe_score(one.explain)), MARGIN)}", style="not bold dim")
    return shown


def _describe_score(explain: Explanation) -> str:
    """Return the summands of a score as text: each arm's part with its rank, and each rule's change."""
    gave = {name: (one.score * one.weight, one.rank) for name, one in explain.arms.items()}
    arms = [f"{name} {by:.3f} (no. {rank})" for name, (by, rank) in gave.items() if by]
    return ", ".join([*arms, *(f"{name} {by:+.3f}" for name, by in explain.moved.items())])
