"""`afterturn embeddings`: change the sentence model while the service runs."""

from typing import Annotated

import typer
from afterturn_client.contract.embeddings import Generation, GenerationComparison, GenerationList

from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import as_api_json, create_console, print_json
from deploy.cli.running_stack import find_running_stack
from deploy.notices import print_notice, replace_unprintable
from deploy.tables import ResultTable
from store.derived.generations import GenerationState

PATH = "/embeddings"
#: What to do in each state.
NEXT_STEPS = {
    GenerationState.LIVE: "",
    GenerationState.BUILDING: "wait for the workers",
    GenerationState.RETIRED: "kept up to date: roll back to it, or drop it",
    GenerationState.DROPPING: "the workers delete its vectors",
}

embeddings_app = create_group()


@embeddings_app.command("status")
def status_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show the generations of vectors: model, dimension, state, and how far a build is.

    Recall compares the vectors of the live generation alone. A generation that is retired is kept up to date, so that a
    rollback finds every text; each new text is then embedded by both models.

    **Example:** `afterturn embeddings status --json`
    """
    _change(data, "GET", as_json=as_json)


@embeddings_app.command("build")
def build_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Begin to build the vectors of the model that `embedding` of the service's settings names.

    Name the model in the settings of every process and restart them first: they go on with the live model. The API
    begins the build with the model of its own settings, and tells workers whose settings name another one. The workers
    then embed all stored texts, one batch after the other, and new texts get vectors of both models. A build that was
    interrupted goes on by itself. `afterturn embeddings status` shows how far it is.

    **Example:** `afterturn embeddings build`
    """
    _change(data, "POST", "/build", as_json=as_json)


@embeddings_app.command("compare")
def compare_command(
    *,
    generation: Annotated[
        int | None, typer.Option(min=1, max=32_767, help="Number of the generation (default: the one being built).")
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
    pages = _ask_questions(OperatorApi(find_running_stack(data)), generation, questions)
    told = {
        "live": pages[0].live,
        "compared": pages[0].compared,
        "questions": sum(one.questions for one in pages),
        "overlap": _share(sum(one.shared for one in pages), sum(one.nearest for one in pages)),
        "recall": _share(sum(one.found for one in pages), sum(one.exact for one in pages)),
    }
    if as_json:
        print_json(told)
    else:
        create_console().print(
            f"{told['compared']} beside {told['live']}: overlap {told['overlap']}, recall against exact "
            f"{told['recall']}, of {told['questions']} questions"
        )


def _ask_questions(api: OperatorApi, generation: int | None, questions: int) -> list[GenerationComparison]:
    """Return the pages of a comparison; the service asks for some seconds at a time."""
    pages, cursor = list[GenerationComparison](), None
    while True:
        asked = {"generation": generation, "questions": questions, "cursor": cursor}
        pages.append(api.read(GenerationComparison, f"{PATH}/comparison", **asked))
        if (cursor := pages[-1].cursor) is None:
            return pages
        banks, done = sum(one.banks for one in pages), sum(one.questions for one in pages)
        print_notice(f"{done} questions, {banks} banks done, going on")


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
    _change(data, "POST", "/switch", {"force": force}, as_json=as_json)


@embeddings_app.command("rollback")
def rollback_command(*, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Make the generation live that was live before; the one that is live is retired.

    **Example:** `afterturn embeddings rollback`
    """
    _change(data, "POST", "/rollback", as_json=as_json)


@embeddings_app.command("drop")
def drop_command(
    generation: Annotated[
        int, typer.Argument(min=1, max=32_767, help="Number of the generation, as `status` shows it.")
    ],
    *,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the vectors of a generation that is not live; a build in progress ends by it.

    The workers delete them in the background. There is no way back: build the model again.

    **Example:** `afterturn embeddings drop 1`
    """
    _change(data, "DELETE", f"/{generation}", as_json=as_json)


def _change(
    data: DataOption, method: str, path: str = "", body: dict[str, bool] | None = None, *, as_json: bool
) -> None:
    """Call the service, and print the generations that it answers."""
    told = read_answer(GenerationList, OperatorApi(find_running_stack(data)).call(method, f"{PATH}{path}", body))
    if as_json:
        print_json(as_api_json(told))
    else:
        _print_table(told)
    _tell_other_settings(told)


def _print_table(told: GenerationList) -> None:
    columns = "generation", "model", "dimension", "state", "vectors of the pass", "built", "next step"
    table = ResultTable(*columns, numbers=("generation", "dimension", "vectors of the pass", "built"))
    for one in told.generations:
        cells = one.generation, one.model, one.dimension, one.state, one.vectors, _describe_share(one)
        table.add_values(*map(str, cells), _name_next_step(one))
    none = "no model is live yet: a worker that embeds makes its own the first"
    create_console().print(table if told.generations else none)


def _describe_share(one: Generation) -> str:
    """Return the share of the pass in percent; 100 only where it has ended."""
    return "100 %" if one.complete_at is not None else f"{min(int(one.share * 100), 99)} %"


def _name_next_step(one: Generation) -> str:
    state = GenerationState(one.state)
    return "switch to it" if one.complete_at and state is GenerationState.BUILDING else NEXT_STEPS[state]


def _tell_other_settings(told: GenerationList) -> None:
    """Name the processes whose settings name another model than the one that is being built."""
    for built in told.generations:
        if built.state == GenerationState.BUILDING:
            others = [one for one in told.workers if one.generation not in {None, built.generation}]
            named = [(f"the settings of the worker {one.worker}", one.model) for one in others]
            if told.model not in {None, built.model}:
                named.insert(0, ("the settings of the service", told.model))
            for where, model in named:
                print_notice(
                    f"{replace_unprintable(where)} name {replace_unprintable(str(model))}, while "
                    f"{replace_unprintable(built.model)} is built: name that in `embedding` there, and restart"
                )
