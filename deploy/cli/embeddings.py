"""`afterturn embeddings`: change the sentence model while the service runs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from deploy.cli.operator_command import run_audited, run_on_database
from deploy.cli.options import DataOption, JsonOption
from deploy.cli.output import create_console, exit_with, print_json
from deploy.cli.running_stack import find_running_stack, read_settings
from deploy.tables import ResultTable
from embeddings.errors import EmbeddingError
from embeddings.registry import create_embedder, name_source
from store.database import Database
from store.derived.generations import (
    Generation,
    GenerationState,
    begin_build,
    begin_drop,
    read_generations,
    roll_back,
    switch_to,
)
from store.errors import GenerationRefused
from store.recall.accuracy_check import CheckedQuestion, compare_searches, find_stored_banks
from store.recall.generation_comparison import ComparedQuestion, compare_generations
from store.tenancy.call_audit import NO_HOST

#: What to do in each state.
NEXT_STEPS = {
    GenerationState.LIVE: "",
    GenerationState.BUILDING: "wait for the workers",
    GenerationState.RETIRED: "kept up to date: roll back to it, or drop it",
    GenerationState.DROPPING: "the workers delete its vectors",
}

embeddings_app = typer.Typer(
    help="Change the sentence model: build its vectors, switch to them, roll back, drop.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@embeddings_app.command("status")
def status_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show the generations of vectors: model, dimension, state, and how far a build is.

    Recall compares the vectors of the live generation alone. A generation that is retired is kept up to date, so that a
    rollback finds every text; each new text is then embedded by both models.

    **Example:** `afterturn embeddings status --json`
    """
    _print(run_on_database(find_running_stack(data), read_generations), as_json=as_json)


@embeddings_app.command("build")
def build_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Begin to build the vectors of the model that `embedding` of the settings names.

    Name the model in the settings of every process and restart them first: they go on with the live model. The workers
    then embed all stored texts, one batch after the other, and new texts get vectors of both models. A build that was
    interrupted goes on by itself. `afterturn embeddings status` shows how far it is.

    **Example:** `afterturn embeddings build`
    """
    stack = find_running_stack(data)
    folder = data or read_settings().data

    async def build(database: Database) -> None:
        embedder = create_embedder(stack.embedding, folder)
        try:
            await embedder.load()
            if not embedder.dimensions:
                raise exit_with(f"{embedder.name} does not answer: its dimension is found by asking it", 1)
            await begin_build(database, embedder, name_source(stack.embedding))
        except EmbeddingError as error:
            raise exit_with(str(error), 1) from None
        finally:
            await embedder.close()

    _change(data, "embeddings build", build, as_json=as_json)


@embeddings_app.command("compare")
def compare_command(
    *,
    generation: Annotated[
        int | None, typer.Option(help="Number of the generation (default: the one that is being built).")
    ] = None,
    questions: Annotated[int, typer.Option(min=1, max=1000, help="Questions to each bank.")] = 20,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a generation with the live one on sample questions, and its searches with exact ones.

    Stored texts serve as questions. `overlap` is the share of the ten nearest texts that both models have; a low one
    says that they differ, not which is better. `recall` is the share of the exact ten that a search finds.

    **Example:** `afterturn embeddings compare --questions 50`
    """
    stack = find_running_stack(data)

    async def compare(database: Database) -> Mapping[str, Any]:
        there = await read_generations(database)
        live, other = _choose_compared(there, generation)
        shared, checked = list[ComparedQuestion](), list[CheckedQuestion]()
        for bank in await find_stored_banks(database):
            shared += await compare_generations(database, bank, live.number, other.number, questions)
            checked += await compare_searches(database, bank, questions, stack.recall, other.number)
        return {
            "live": live.model,
            "compared": other.model,
            "questions": len(shared),
            "overlap": _share(sum(one.shared for one in shared), sum(one.there for one in shared)),
            "recall": _share(sum(one.found for one in checked), sum(one.there for one in checked)),
        }

    told = run_on_database(stack, compare)
    if as_json:
        print_json(told)
    else:
        create_console().print(
            f"{told['compared']} beside {told['live']}: overlap {told['overlap']}, recall against exact "
            f"{told['recall']}, of {told['questions']} questions"
        )


def _choose_compared(there: Sequence[Generation], number: int | None) -> tuple[Generation, Generation]:
    """Return the live generation and the one to compare; exits 1 where there is none."""
    live = [one for one in there if one.state is GenerationState.LIVE]
    others = [
        one
        for one in there
        if one not in live and (one.state is GenerationState.BUILDING if number is None else one.number == number)
    ]
    if not live or not others:
        raise exit_with("there is no generation to compare with the live one: `afterturn embeddings status`", 1)
    return live[0], others[0]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


@embeddings_app.command("switch")
def switch_command(
    *,
    force: Annotated[bool, typer.Option("--force", help="Even where texts lack a vector of the new model.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the built generation live; the one that was live is retired.

    Every process asks the new model within seconds. No recall fails, and none compares vectors of two models.

    **Example:** `afterturn embeddings switch`
    """

    async def switch(database: Database) -> None:
        await switch_to(database, incomplete=force)

    _change(data, "embeddings switch", switch, as_json=as_json)


@embeddings_app.command("rollback")
def rollback_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Make the generation live that was live before; the one that is live is retired.

    **Example:** `afterturn embeddings rollback`
    """

    async def rollback(database: Database) -> None:
        await roll_back(database)

    _change(data, "embeddings rollback", rollback, as_json=as_json)


@embeddings_app.command("drop")
def drop_command(
    generation: Annotated[int, typer.Argument(help="Number of the generation, as `status` shows it.")],
    *,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the vectors of a generation that is not live; a build in progress ends by it.

    The workers delete them in the background. There is no way back: build the model again.

    **Example:** `afterturn embeddings drop 1`
    """

    async def drop(database: Database) -> None:
        await begin_drop(database, generation)

    _change(data, "embeddings drop", drop, as_json=as_json)


def _change(data: DataOption, operation: str, work: Callable[[Database], Awaitable[None]], *, as_json: bool) -> None:
    """Run a change, record it in the audit, and print the generations; exits 1 where it is refused."""

    async def run(database: Database, _act: object) -> Sequence[Generation]:
        await work(database)
        return await read_generations(database)

    try:
        _print(run_audited(find_running_stack(data), operation, NO_HOST, run), as_json=as_json)
    except GenerationRefused as error:
        raise exit_with(str(error), 1) from None


def _print(there: Sequence[Generation], *, as_json: bool) -> None:
    if as_json:
        print_json({"generations": [_as_json(one) for one in there]})
        return
    columns = "generation", "model", "dimension", "state", "vectors of the pass", "complete", "next step"
    table = ResultTable(*columns, numbers=("generation", "dimension", "vectors of the pass"))
    for one in there:
        done = one.complete_at is not None
        step = "switch to it" if done and one.state is GenerationState.BUILDING else NEXT_STEPS[one.state]
        cells = (one.number, one.model, one.dimension, one.state.value, one.vectors, "yes" if done else "no", step)
        table.add_values(*map(str, cells))
    create_console().print(table if there else "no model is live yet: a worker that embeds makes its own the first")


def _as_json(one: Generation) -> dict[str, Any]:
    return {
        "generation": one.number,
        "model": one.model,
        "dimension": one.dimension,
        "state": one.state.value,
        "since": one.since,
        "vectors": one.vectors,
        "complete_at": one.complete_at,
    }
