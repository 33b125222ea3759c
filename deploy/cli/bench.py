"""`afterturn bench NAME`: measure the product beside its floor, and check the targets."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from deploy.cli.options import JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.quality import (
    AblateFlag,
    FormatOption,
    LongOption,
    QualityFlag,
    QualityOptions,
    SetOption,
    StackOption,
    TokensOption,
)
from deploy.cli.quality import measure_recall_quality as measure_quality
from deploy.cli.running_stack import read_settings
from deploy.lab.bench.attacks.victim import VictimGone
from deploy.lab.bench.measures import BenchOutcome, Measure
from deploy.lab.bench.quality.settling import StageNotSettled
from deploy.local import EmbeddedError
from deploy.local.private_stack import PrivateStackError
from deploy.notices import print_notice
from deploy.tables import ResultTable

#: Each benchmark: the module with its `run`, its `Sizes`, its `FULL` sizes, and the `servers` it runs on.
BENCHES: Mapping[str, str] = {
    "append": "deploy.lab.bench.append",
    "capacity": "deploy.lab.bench.capacity",
    "attacks": "deploy.lab.bench.attacks.run",
    "paraphrase": "deploy.lab.bench.quality.paraphrase",
    "pipeline": "deploy.lab.bench.pipeline",
    "plugin": "deploy.lab.bench.plugin",
    "portable": "deploy.lab.bench.portable",
    "recall": "deploy.lab.bench.recall.speed",
    "turns": "deploy.lab.bench.turns",
}

NameArgument = Annotated[str, typer.Argument(help=f"Which: {', '.join(BENCHES)}.")]
FullFlag = Annotated[bool, typer.Option("--full", help="Run the largest sizes; this may take long.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ATTACK", help="With `attacks`: run this attack only (repeatable; default: all)."),
]
UnitsOption = Annotated[
    int | None,
    typer.Option(
        min=100,
        help="With `recall`, `turns`, `plugin`: number of stored units (default: 100,000; plugin 10,000).",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR|FILE",
        help="Data folder of the running stack (default: AFTERTURN_DATA, else the default folder); with --quality, the "
        "file of dialogues.",
    ),
]


def bench_command(
    name: NameArgument,
    *,
    quality: Annotated[bool, QualityFlag] = False,
    kind: Annotated[str, FormatOption] = "",
    more: Annotated[list[str] | None, SetOption] = None,
    stack: Annotated[Path | None, StackOption] = None,
    ablate: Annotated[bool, AblateFlag] = False,
    long: Annotated[int, LongOption] = 0,
    tokens: Annotated[int, TokensOption] = 0,
    full: FullFlag = False,
    only: OnlyOption = None,
    units: UnitsOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a benchmark; those of speed are compared with a floor: the bare library calls in the same run.

    Benchmarks use the running stack under a temporary tenant, or a private stack when none runs. Give them a quiet
    machine. Exits 1 when a target is not met.

    `append`: acknowledge turns, compared with the same rows written without logic.

    `pipeline`: turns through all stages and a gateway, on a private stack.

    `recall`: questions over HTTP to banks of 1,000, 10,000 and 100,000 units (`--full`: and a million in a hundred
    banks), compared with the embedding and the bare queries, and with an exact search; on a private stack also during
    ingestion.

    `turns`: before_turn and after_turn with sessions of 30 items: 1 client, 8 clients, 20 requests a second.

    `capacity`: turns and recalls a second and core, bytes a turn by table, memory of each process, connections, on a
    private stack; no targets. `--full` runs ten times as much.

    `attacks`: about forty bounded attacks by one tenant on a private stack, while another tenant writes 8 turns and
    asks 8 questions a second. Target: that tenant's p95 stays below three times its quiet p95 and 50 ms. An attack
    that misses it is made three times, after more quiet, and the medians count.

    `plugin`: memories written and searched over HTTP by 1 and 16 clients: 10,000 in each of three namespaces, `--full`
    also 200,000 in one. Searches filtered to 0.1 % are compared with an exact one.

    `portable`: an import of a snapshot beside the same events in bulk, words and guards behind it beside the analysis
    of the texts alone, an export beside the bare log, memory, turns during an import, a command beside a single memory,
    a generation of vectors beside its model alone, and recall while it is built.

    `paraphrase`: 200 statements in ten contexts each, asked for in other words, at once and after all stages.

    `recall --quality --data FILE --format locomo|longmemeval|beam|agents|tool-output|lists|changes`:
    store the dialogues of a file, ask their questions, and print the share of evidence among the first results, and
    how often `evidence` flags answerable questions, questions about the wrong person, with a swapped name, and of
    another dialogue. `--set FORMAT=PATH`, repeated, measures several sets and prints their mean. `--tokens 2000` adds
    the share of evidence in an answer of that size, `--ablate` each arm and rule disabled in turn, `--long 6` six
    consecutive messages joined into one.

    **Example:** `afterturn bench pipeline --json`
    """
    if quality and name == "recall":
        measure_quality(QualityOptions(data, kind, stack, ablate, long, tokens, more or ()), as_json=as_json)
        return
    if name not in BENCHES:
        raise exit_with(f"no such bench: {list_bench_names()}", 2)
    bench = import_module(BENCHES[name])
    sizes = _choose_sizes(bench, full=full, only=only, units=units)
    outcome = _run_bench(bench, data, sizes)
    if as_json:
        print_json(outcome.as_json())
    else:
        create_console().print(_render_outcome(outcome) if isinstance(outcome, BenchOutcome) else outcome.in_words())
    raise typer.Exit(0 if outcome.met else 1)


def _choose_sizes(bench: ModuleType, *, full: bool, only: list[str] | None, units: int | None) -> Any:
    """Return what a benchmark is asked to measure; exits 2 for an option that it does not have."""
    sizes = bench.FULL if full else type(bench.FULL)()
    if only:
        if not hasattr(bench, "select_attacks"):
            raise exit_with("--only names an attack of `afterturn bench attacks`", 2)
        try:
            sizes = bench.select_attacks(sizes, only)
        except ValueError as error:
            raise exit_with(str(error), 2) from None
    if units is not None:
        if not hasattr(sizes, "units"):
            raise exit_with("--units is for `afterturn bench recall`, `turns` and `plugin`", 2)
        sizes = replace(sizes, units=units)
    return sizes


def _run_bench(bench: ModuleType, data: Path | None, sizes: Any) -> Any:
    """Run a benchmark on its servers and return its result; exits 2 when it cannot run."""
    try:
        with bench.servers(data or read_settings().data) as servers:
            print_notice(f"on {servers}")
            return asyncio.run(bench.run(servers, print_notice, sizes))
    except (EmbeddedError, StageNotSettled, PrivateStackError, VictimGone) as error:
        raise exit_with(str(error), 2) from None


def list_bench_names() -> str:
    """Return a text that lists the benchmarks."""
    return f"there is {', '.join(BENCHES)}"


def _render_outcome(outcome: BenchOutcome) -> Group:
    numbers = ("floor", "ours", "ratio", "target", "")
    table = ResultTable("measure", "floor", "ours", "unit", "ratio", "target", "", numbers=numbers)
    for measure in outcome.measures:
        table.add_values(*_render_cells(measure))
    machine = outcome.machine
    settings = ", ".join(f"{name}={value}" for name, value in machine.settings.items())
    where = f"{machine.cores} cores, PostgreSQL {machine.postgresql}, pgvector {machine.pgvector}; {settings}"
    sizes: Mapping[str, Any] = outcome.sizes
    parts = Text("\n".join(f"{name} {figure:.3f}" for name, figure in outcome.parts.items()))
    return Group(Text(where), Text(", ".join(f"{name}={value}" for name, value in sizes.items())), parts, table)


def _render_cells(measure: Measure) -> list[Text]:
    floor, ratio = ("" if figure is None else f"{figure:.2f}" for figure in (measure.floor, measure.ratio))
    verdict = Text("met", style="green") if measure.met else Text("not met", style="red")
    return [
        *(Text(cell) for cell in (measure.measure, floor, f"{measure.ours:.2f}", measure.unit, ratio)),
        Text(str(measure.target)),
        verdict,
    ]
