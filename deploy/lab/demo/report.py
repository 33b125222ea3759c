"""Renders the demo's figures as tables for a terminal; message texts are never treated as markup."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.lab.bench.timing import pick_percentile
from deploy.lab.demo.data import Wording
from deploy.lab.demo.outcome import (
    DemoOutcome,
    DemoStageCounts,
    EntityRow,
    FreshAnswer,
    RankedAnswer,
    RecalledTurn,
)

_EXCERPT = 72
_COMPANIONS = 4


def build_stage_table(stages: Sequence[DemoStageCounts], turns: int) -> Table:
    """Return a table of the turns' states: a row per stage, a column per state."""
    table = _create_table(f"{turns} turns through {len(stages)} stages", "stage")
    for state in ("done", "skipped", "pending", "running", "unknown", "dead"):
        table.add_column(state, justify="right")
    table.add_column("through", justify="right")
    for one in stages:
        counts = (one.done, one.skipped, one.pending, one.running, one.unknown, one.dead)
        table.add_row(Text(one.stage), *map(str, counts), _colour_text(one.through == turns, f"{one.through}/{turns}"))
    return table


def build_recall_table(answers: Sequence[RankedAnswer]) -> Table:
    """Return a table of questions with the chosen result, its turn, the evidence's rank and milliseconds."""
    held = sum(answer.held for answer in answers)
    table = _create_table(f"{held} of {len(answers)} questions found their evidence among the first five", "question")
    table.add_column("recalled", ratio=2)
    table.add_column("from turn", no_wrap=True)
    table.add_column("place", justify="right")
    table.add_column("ms", justify="right")
    for answer in answers:
        shown = _choose_result(answer)
        table.add_row(
            Text(answer.question.question),
            Text(_cut_excerpt(shown.text) if shown else ""),
            Text(f"{shown.turn.session_id}/{shown.turn.turn_id}" if shown and shown.turn else "-"),
            _colour_text(answer.held, str(answer.rank or "-")),
            f"{answer.took_ms:.0f}",
        )
    return table


def build_entity_table(entities: Sequence[EntityRow]) -> Table:
    """Return a table of the entities with their most frequent neighbours."""
    table = _create_table("entities and what they stand beside", "entity")
    table.add_column("kind")
    table.add_column("mentions", justify="right")
    table.add_column("strongest co-occurrences", ratio=2)
    for one in entities:
        beside = ", ".join(f"{name} ({count})" for name, count in one.beside[:_COMPANIONS])
        table.add_row(Text(one.name), Text(one.kind), str(one.mentions), Text(beside))
    return table


def build_fresh_table(fresh: Sequence[FreshAnswer]) -> Table:
    """Return a table of how newly written texts were found, by word and by paraphrase."""
    table = _create_table("read your writes: recalled right after writing, workers paused", "asked by")
    for heading in ("written", "first", "first ten", "p50 ms", "p95 ms"):
        table.add_column(heading, justify="right")
    for how in Wording:
        group = [one for one in fresh if one.write.how is how]
        held = sum(one.held for one in group)
        took = [one.took_ms for one in group]
        table.add_row(
            how.value,
            str(len(group)),
            str(sum(one.rank == 1 for one in group)),
            _colour_text(held == len(group), f"{held}/{len(group)}"),
            f"{pick_percentile(took, 0.5):.0f}",
            f"{pick_percentile(took, 0.95):.0f}",
        )
    return table


def render_verdict(outcome: DemoOutcome) -> Text:
    """Return the verdict: success with its figures, or each failure."""
    if not outcome.failures:
        took = [answer.took_ms for answer in outcome.answers]
        return Text(
            f"All of it held, in {outcome.seconds:.0f} s. "
            f"Recall took {pick_percentile(took, 0.5):.0f} ms at the median,"
            f" {pick_percentile(took, 0.95):.0f} ms at the 95th percentile.",
            style="bold green",
        )
    return Text("\n".join(("This did not hold:", *(f"  {one}" for one in outcome.failures))), style="bold red")


def render_report(outcome: DemoOutcome) -> RenderableType:
    """Return the whole report: the tables, then the verdict."""
    return Group(
        build_stage_table(outcome.stages, outcome.turns),
        build_recall_table(outcome.answers),
        build_entity_table(outcome.entities),
        build_fresh_table(outcome.fresh),
        render_verdict(outcome),
    )


def _create_table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column(first, ratio=2)
    return table


def _choose_result(answer: RankedAnswer) -> RecalledTurn | None:
    """Return the evidence that was found, else the first result, else None."""
    place = answer.rank if answer.held and answer.rank else 1
    return answer.results[place - 1] if answer.results else None


def _cut_excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 1].rstrip()}\u2026"


def _colour_text(good: bool, text: str) -> Text:  # noqa: FBT001  # the colour shows only this
    return Text(text, style="green" if good else "red")
