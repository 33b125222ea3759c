"""`afterturn bench NAME`: the product beside its floor, and whether what was promised holds."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from deploy.cli.output import create_console, exit_with, print_json, print_notice
from deploy.cli.quality import (
    AblateFlag,
    FormatOption,
    LongOption,
    QualityFlag,
    QualityOptions,
    StackOption,
    TokensOption,
)
from deploy.cli.quality import measure_recall_quality as measure_quality
from deploy.cli.running_stack import JsonOption
from deploy.lab.bench.attacks.victim import VictimGone
from deploy.lab.bench.measures import BenchOutcome, Measure
from deploy.lab.bench.quality.settling import StageNotSettled
from deploy.local import EmbeddedError
from deploy.local.private_stack import PrivateStackError
from deploy.settings import load_settings
from deploy.settings_errors import SettingsError

#: Each bench: the module with its `run`, its `Sizes` and its `FULL` ones, and with the `servers` it runs on.
BENCHES: Mapping[str, str] = {
    "append": "deploy.lab.bench.append",
    "capacity": "deploy.lab.bench.capacity",
    "attacks": "deploy.lab.bench.attacks.run",
    "paraphrase": "deploy.lab.bench.quality.paraphrase",
    "pipeline": "deploy.lab.bench.pipeline",
    "plugin": "deploy.lab.bench.plugin",
    "recall": "deploy.lab.bench.recall.speed",
    "turns": "deploy.lab.bench.turns",
}

NameArgument = Annotated[str, typer.Argument(help=f"Which: {', '.join(BENCHES)}.")]
FullFlag = Annotated[bool, typer.Option("--full", help="Run the largest sizes; this may take long.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ATTACK", help="With `attacks`: make this attack alone; may be repeated (default: all)."),
]
UnitsOption = Annotated[
    int | None,
    typer.Option(
        min=100, help="With `recall`, `turns` and `plugin`: units that are there (default: 100,000; plugin 10,000)."
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR|FILE",
        help="The running stack's data folder (default: AFTERTURN_DATA, else the usual one); with --quality, the file "
        "of dialogues instead.",
    ),
]


def bench_command(
    name: NameArgument,
    *,
    quality: Annotated[bool, QualityFlag] = False,
    kind: Annotated[str, FormatOption] = "",
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
    """Run a benchmark beside its floor: the bare library calls on the same server in the same run.

    `append` runs on the servers of the running stack, under a host of its own that is removed afterwards, else on a
    private PostgreSQL. `pipeline` starts a stack and a gateway of its own and removes them; give it a quiet machine.
    `recall` asks banks it fills itself (100,000 units in one; `--full`: a million in a hundred more), beside the bare
    calls that recall cannot do without, over HTTP, and beside an exact search; on the running stack, else on a private
    one, where it also asks while turns come in as fast as they are taken. Exits 1 when a target is not met.

    `turns` prepares turns of sessions with 30 items in such a bank beside the bare calls (embed, words, vectors, the
    history), and keeps turns beside the same rows written with no logic: alone, with 8 clients, and 20 a second.

    `capacity` starts a stack of its own and prints turns and recalls a second and core, bytes a turn by table, memory
    of each part and connections; it has no target. `--full` runs ten times as much.

    `attacks` makes about thirty bounded attacks of one tenant on a stack of its own while another tenant hands in 8
    turns and asks 8 questions a second. It prints that tenant's p95 during each attack (target: three times its quiet
    p95 and 50 ms) and how the calls of each attack ended. `--only ATTACK` makes one of them.

    `plugin` writes and searches memories over HTTP, alone and by 16 clients, beside the same rows written bare and
    beside embedding and bare queries: 10,000 memories in each of three namespaces, `--full` also 200,000 in one. It
    compares searches filtered to 0.1 % with an exact one. On the running stack, else on a private one.

    `paraphrase` says 200 things in ten contexts each and asks for them in other words, at once and when all stages are
    through: what was just said must be found as well. On the running stack, under a host of its own, else on a private
    one.

    `recall --quality --data FILE --format locomo|longmemeval|beam|agents` plays dialogues of yours into the running
    stack, else into a private one, asks their questions over HTTP and prints how much of the evidence is among the
    first, and how often `evidence` flags an answer: to these questions, to those about the wrong person, to these with
    the other speaker's name, and to those of another dialogue. With `--tokens 2000` also how much of the evidence an
    answer of that size holds.
    With `--ablate` also with each arm and rule left out in turn, with `--long 6` also with six messages made one.

    **Example:** `afterturn bench pipeline --json`
    """
    if quality and name == "recall":
        measure_quality(QualityOptions(data, kind, stack, ablate, long, tokens), as_json=as_json)
        return
    if name not in BENCHES:
        raise exit_with(f"no such bench: {list_bench_names()}", 2)
    bench = import_module(BENCHES[name])
    sizes = bench.FULL if full else type(bench.FULL)()
    if only:
        if name != "attacks":
            raise exit_with("--only names an attack of `afterturn bench attacks`", 2)
        try:
            sizes = bench.chosen(sizes, only)
        except ValueError as error:
            raise exit_with(str(error), 2) from None
    if units is not None:
        if not hasattr(sizes, "units"):
            raise exit_with("--units is for `afterturn bench recall`, `turns` and `plugin`", 2)
        sizes = replace(sizes, units=units)
    outcome = _run_bench(bench, data, sizes)
    if as_json:
        print_json(outcome.as_json())
    else:
        create_console().print(_render_outcome(outcome) if isinstance(outcome, BenchOutcome) else outcome.in_words())
    raise typer.Exit(0 if outcome.met else 1)


def _run_bench(bench: ModuleType, data: Path | None, sizes: Any) -> Any:
    """Run a bench on its servers. Ends with status 2 when there are none that serve."""
    try:
        with bench.servers(data or load_settings().settings.data) as servers:
            print_notice(f"on {servers}")
            return asyncio.run(bench.run(servers, print_notice, sizes))
    except SettingsError as error:
        raise exit_with(f"these settings cannot be used:\n{error}", 2) from None
    except (EmbeddedError, StageNotSettled, PrivateStackError, VictimGone) as error:
        raise exit_with(str(error), 2) from None


def list_bench_names() -> str:
    """Return the benches there are."""
    return f"there is {', '.join(BENCHES)}"


def _render_outcome(outcome: BenchOutcome) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("measure")
    for column in ("floor", "ours", "unit", "ratio", "target", ""):
        table.add_column(column, justify="left" if column == "unit" else "right")
    for measure in outcome.measures:
        table.add_row(*_render_cells(measure))
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
