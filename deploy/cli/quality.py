"""`afterturn bench recall --quality`: finds the stack, runs the questions, prints the table."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from afterturn_client import AfterturnError
from rich.table import Table

from deploy.cli.output import answer, console, ended, say
from deploy.lab.bench.quality.figures import NAMES, Figures
from deploy.lab.bench.quality.formats import FORMATS, read
from deploy.lab.bench.quality.long import joined
from deploy.lab.bench.quality.material import Dialogue, UnreadableData
from deploy.lab.bench.quality.run import Quality, measured
from deploy.lab.bench.quality.settling import NotSettled
from deploy.local.private_stack import PrivateStackError, running
from deploy.local.stack import NoStack, Stack, find_stack
from deploy.settings import load

#: Of a private stack.
WORKERS = 2


@dataclass(frozen=True, slots=True)
class QualityOptions:
    """What was asked for on the command line; `stack` is a running stack's data folder.

    `long`: also with so many messages in a row made one, 0 for not.
    """

    file: Path | None
    kind: str
    stack: Path | None
    ablate: bool
    long: int = 0


def quality(options: QualityOptions, *, as_json: bool) -> None:
    """Measure and print. Ends with status 2 when there is nothing to measure with."""
    if options.file is None or options.kind not in FORMATS:
        raise ended(f"--quality needs --data FILE and --format {'|'.join(FORMATS)}", 2)
    try:
        dialogues = read(options.file, options.kind)
        variants = {"": dialogues}
        if options.long:
            variants[f"messages of {options.long}"] = [joined(one, options.long) for one in dialogues]
        with _stack(options.stack) as stack:
            found = {name: _measured(stack, told, options) for name, told in variants.items()}
    except UnreadableData as error:
        raise ended(str(error), 2) from None
    except (NotSettled, AfterturnError, PrivateStackError, NoStack) as error:
        raise ended(str(error), 2) from None
    if as_json:
        first, *others = found.items()
        answer({**_as_json(first[1]), "variants": {name: _as_json(one) for name, one in others}})
        return
    for name, one in found.items():
        _print(name, one)


def _measured(stack: Stack, dialogues: Sequence[Dialogue], options: QualityOptions) -> Quality:
    return asyncio.run(measured(stack, dialogues, say, ablate=options.ablate))


def _print(name: str, found: Quality) -> None:
    console().print(_table(name or "category", found.figures))
    if found.without:
        console().print(_ablation(found))
    console().print(f"{found.turns} turns; a recall takes {found.p50_ms:.1f} ms (p50), {found.p95_ms:.1f} ms (p95)")


@contextmanager
def _stack(data: Path | None) -> Iterator[Stack]:
    """Lend the running stack of that folder (None: the usual one), else one of our own."""
    try:
        yield find_stack(data or load().settings.data)
    except NoStack:
        if data is not None:
            raise
        say("no stack is running: a private one is started")
        with running(WORKERS, name="quality", gateway="off") as stack:
            yield stack


def _as_json(found: Quality) -> Mapping[str, Any]:
    return {
        "turns": found.turns,
        "categories": [_row(row) for row in found.figures],
        "without": {name: [_row(row) for row in rows] for name, rows in found.without.items()},
        "recall_ms": {"p50": round(found.p50_ms, 2), "p95": round(found.p95_ms, 2)},
    }


def _row(row: Figures) -> dict[str, Any]:
    means = {name: round(mean, 4) for name, mean in row.means.items()}
    return {"category": row.category, "questions": row.questions, **means}


def _ablation(found: Quality) -> Table:
    """Return recall@10 by category and all figures with each part left out."""
    categories = [row.category for row in found.figures[:-1]]
    table = Table("without", *categories, *NAMES, box=None, pad_edge=False, header_style="bold")
    for name, rows in {"nothing": found.figures, **found.without}.items():
        *each, every = rows
        cells = [*(row.means["recall@10"] for row in each), *(every.means[figure] for figure in NAMES)]
        table.add_row(name, *(f"{cell:.3f}" for cell in cells))
    return table


def _table(title: str, rows: Sequence[Figures]) -> Table:
    table = Table(title, "questions", *NAMES, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(row.category, str(row.questions), *(f"{row.means[name]:.3f}" for name in NAMES))
    return table


QualityFlag = typer.Option("--quality", help="`recall`: whether the evidence is found, on data of yours (--data FILE).")
FormatOption = typer.Option("--format", help=f"What FILE is: {', '.join(FORMATS)}.")
StackOption = typer.Option(metavar="DIR", help="`--quality`: the running stack's data folder.")
LongOption = typer.Option("--long", metavar="N", help="`--quality`: also with N messages in a row made one.")
AblateFlag = typer.Option("--ablate", help="`--quality`: ask again with each arm and rule left out in turn.")
