"""`afterturn bench recall --quality`: measures recall quality on a stack and prints the figures."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import typer
from afterturn_client import AfterturnError

from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import read_settings
from deploy.lab.bench.quality.changes import ChangeShares
from deploy.lab.bench.quality.figures import NAMES, CategoryMeans
from deploy.lab.bench.quality.flags import FlagShares
from deploy.lab.bench.quality.formats import FORMATS, read_dialogues
from deploy.lab.bench.quality.material import Dialogue, UnreadableData, join_messages
from deploy.lab.bench.quality.run import QualityReport, measure_quality
from deploy.lab.bench.quality.settling import StageNotSettled
from deploy.local.private_stack import PrivateStackError, run_private_stack
from deploy.local.stack import Stack, StackNotRunning, find_stack
from deploy.notices import print_notice
from deploy.tables import ResultTable

#: The figure by which a rule's gain is told.
GAIN = "recall@10"
#: The flags whose shares are printed, in this order.
FLAGS = ("one_speaker", "other_speaker", "on_topic")


@dataclass(frozen=True, slots=True)
class QualityOptions:
    """The options of the command; `stack` is a running stack's data folder.

    `more` are further sets, as FORMAT=PATH, that are measured beside `file` in the same run. `long`: also measure with
    this many consecutive messages joined to one (0: do not). `tokens`: also ask for answers of this size in tokens (0:
    do not).
    """

    file: Path | None
    kind: str
    stack: Path | None
    ablate: bool
    long: int = 0
    tokens: int = 0
    more: Sequence[str] = ()

    def list_sets(self) -> Mapping[str, tuple[Path, str]]:
        """Return path and format of each set by its name. Raises UnreadableData for what is no FORMAT=PATH."""
        alone = [f"{self.kind}={self.file or ''}"] if self.file is not None or not self.more else []
        told = [one.partition("=") for one in (*alone, *self.more)]
        if any(not path or kind not in FORMATS for kind, _, path in told):
            raise UnreadableData(f"--quality needs --data FILE --format F or --set F=FILE; F: {'|'.join(FORMATS)}")
        return {f"{kind} {Path(path).stem}": (Path(path), kind) for kind, _, path in told}


def measure_recall_quality(options: QualityOptions, *, as_json: bool) -> None:
    """Measure recall quality and print the figures; exits 2 when the data or the stack cannot be used."""
    try:
        variants: dict[str, Sequence[Dialogue]] = {}
        for name, (file, kind) in options.list_sets().items():
            variants[name] = dialogues = read_dialogues(file, kind)
            if options.long:
                variants[f"{name}, messages of {options.long}"] = [
                    join_messages(one, options.long) for one in dialogues
                ]
        with _open_stack(options.stack) as stack:
            found = {name: _measure_dialogues(stack, told, options) for name, told in variants.items()}
    except UnreadableData as error:
        raise exit_with(str(error), 2) from None
    except (StageNotSettled, AfterturnError, PrivateStackError, StackNotRunning) as error:
        raise exit_with(str(error), 2) from None
    if as_json:
        first, *others = found.items()
        print_json({**_serialise_report(first[1]), "variants": {name: _serialise_report(one) for name, one in others}})
        return
    for name, one in found.items():
        _print_report(name, one)
    if len(found) > 1:
        create_console().print(_build_sets_table(found))
    if len(found) > 1 and options.ablate:
        create_console().print(build_gains_table(found))


def _measure_dialogues(stack: Stack, dialogues: Sequence[Dialogue], options: QualityOptions) -> QualityReport:
    measured = measure_quality(stack, dialogues, print_notice, ablate=options.ablate, tokens=options.tokens)
    return asyncio.run(measured)


def _print_report(name: str, found: QualityReport) -> None:
    create_console().print(_build_table(name or "category", found))
    create_console().print(_build_flags_table(found.flags))
    if found.changes:
        create_console().print(_build_changes_table(found.changes))
    if found.without:
        create_console().print(_build_ablation_table(found))
    create_console().print(
        f"{found.turns} turns; a recall takes {found.p50_ms:.1f} ms (p50), {found.p95_ms:.1f} ms (p95)"
    )


@contextmanager
def _open_stack(data: Path | None) -> Iterator[Stack]:
    """Yield the stack that runs in a data folder; for None the default folder's, or else a private stack."""
    try:
        yield find_stack(data or read_settings().data)
    except StackNotRunning:
        if data is not None:
            raise
        print_notice("no stack is running: a private one is started")
        with run_private_stack(name="quality", gateway="off") as stack:
            yield stack


def _serialise_report(found: QualityReport) -> Mapping[str, Any]:
    return {
        "turns": found.turns,
        "categories": [_serialise_row(row) for row in found.figures],
        "tokens": found.tokens,
        "flags": [_serialise_flags(row) for row in found.flags],
        "changes": [asdict(row) for row in found.changes],
        "without": {name: [_serialise_row(row) for row in rows] for name, rows in found.without.items()},
        "recall_ms": {"p50": round(found.p50_ms, 2), "p95": round(found.p95_ms, 2)},
    }


def _serialise_row(row: CategoryMeans) -> dict[str, Any]:
    means = {name: round(mean, 4) for name, mean in row.means.items()}
    return {"category": row.category, "questions": row.questions, **means}


def _serialise_flags(row: FlagShares) -> dict[str, Any]:
    shares = {name: round(getattr(row, name), 4) for name in FLAGS}
    return {"group": row.group, "questions": row.questions, **shares}


def _build_flags_table(rows: Sequence[FlagShares]) -> ResultTable:
    """Return a table of the flags' shares by group; for answerable questions `other_speaker` is a false alarm."""
    table = ResultTable("questions that are", "questions", *FLAGS)
    for row in rows:
        table.add_values(row.group, str(row.questions), *(f"{getattr(row, name):.3f}" for name in FLAGS))
    return table


def _build_changes_table(rows: Sequence[ChangeShares]) -> ResultTable:
    """Return a table of how answers treat what is outdated, by category."""
    table = ResultTable("changes of mind", "questions", "changes", "current first", "stale former", "wrongly former")
    for row in rows:
        shares = (f"{one:.3f}" for one in (row.current_first, row.stale_former, row.wrongly_former))
        table.add_values(row.category, str(row.questions), str(row.changes), *shares)
    return table


def _build_ablation_table(found: QualityReport) -> ResultTable:
    """Return a table of recall@10 by category and of all figures, with each part left out."""
    categories = [row.category for row in found.figures[:-1]]
    table = ResultTable("without", *categories, *NAMES)
    for name, rows in {"nothing": found.figures, **found.without}.items():
        *each, every = rows
        cells = [*(row.means["recall@10"] for row in each), *(every.means[figure] for figure in NAMES)]
        table.add_values(name, *(f"{cell:.3f}" for cell in cells))
    return table


def _build_sets_table(found: Mapping[str, QualityReport]) -> ResultTable:
    """Return a table of all sets, and the means of their figures, in which each set counts the same."""
    table = ResultTable("set", "questions", *NAMES)
    rows = {name: one.figures[-1] for name, one in found.items()}
    for name, row in rows.items():
        table.add_values(name, str(row.questions), *(f"{row.means[figure]:.3f}" for figure in NAMES))
    means = (fmean(row.means[figure] for row in rows.values()) for figure in NAMES)
    table.add_values(
        "mean of the sets", str(sum(row.questions for row in rows.values())), *(f"{one:.3f}" for one in means)
    )
    return table


def build_gains_table(found: Mapping[str, QualityReport]) -> ResultTable:
    """Return how much higher recall@10 of each set is with an arm or rule than without it, and the mean of the sets."""
    table = ResultTable(f"gain in {GAIN}", *found, "mean of the sets")
    for part in next(iter(found.values())).without:
        gains = [one.figures[-1].means[GAIN] - one.without[part][-1].means[GAIN] for one in found.values()]
        table.add_values(part, *(f"{gain:+.3f}" for gain in (*gains, fmean(gains))))
    return table


def _build_table(title: str, found: QualityReport) -> ResultTable:
    within = [f"within {found.tokens} tokens", "all of it"] if found.tokens else []
    table = ResultTable(title, "questions", *NAMES, *within)
    for row in found.figures:
        table.add_values(row.category, str(row.questions), *(f"{mean:.3f}" for mean in row.means.values()))
    return table


QualityFlag = typer.Option("--quality", help="`recall`: measure recall quality on your own data (--data FILE).")
FormatOption = typer.Option("--format", help=f"Format of FILE: {', '.join(FORMATS)}.")
SetOption = typer.Option(
    "--set", metavar="FORMAT=PATH", help="`--quality`: also measure this set; repeat it for several sets."
)
StackOption = typer.Option(metavar="DIR", help="`--quality`: the running stack's data folder.")
LongOption = typer.Option("--long", metavar="N", help="`--quality`: also with N consecutive messages joined into one.")
TokensOption = typer.Option(
    "--tokens", metavar="N", min=0, help="`--quality`: also the share of evidence in an answer of N tokens."
)
AblateFlag = typer.Option("--ablate", help="`--quality`: repeat with each arm and rule disabled in turn.")
