"""`afterturn chaos`: breaks a stack of its own while turns come in, and counts what that cost."""

import logging
from typing import Annotated

import structlog
import typer

from deploy.cli.options import JsonOption
from deploy.cli.output import exit_with, print_json
from deploy.notices import print_notice
from workers.settings import WorkerSettings

LEASE_S = WorkerSettings().lease_seconds


def chaos_command(
    *,
    turns: Annotated[int, typer.Option(min=1, metavar="N", help="Number of turns to send.")] = 400,
    workers: Annotated[int, typer.Option(min=1, max=64, metavar="K", help="Worker processes.")] = 4,
    seed: Annotated[
        int, typer.Option(help="Seed of the turns and of the order of faults; the same seed repeats the run.")
    ] = 0,
    rounds: Annotated[
        int | None,
        typer.Option(min=0, max=20, help="How often each kind of fault happens (default: once per 1,500 turns)."),
    ] = None,
    lease: Annotated[
        float,
        typer.Option(
            min=2,
            max=600,
            metavar="S",
            help="Lease of a worker's claim in seconds; a shorter lease makes a shorter run.",
        ),
    ] = LEASE_S,
    sabotage: Annotated[
        str | None,
        typer.Option(
            metavar="double-send|drop|reorder", help="Cause one violation on purpose, to prove that the run detects it."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send turns while processes and servers are killed, then count what was lost or done twice.

    Workers, API, Valkey, PostgreSQL and the gateway fail, one after the other. It starts a stack and a gateway of its
    own in a temporary folder and leaves nothing of them. Counts come from the database and from the gateway's own file.
    Exits 1 when something was lost, done twice or out of order, the tables differ from those of the same writes without
    faults, recovery took more than a minute (or was never seen), or the run more than twelve minutes.

    **Example:** `afterturn chaos --turns 5000 --workers 4`
    """
    # WHY here: chaos imports the whole product, and `afterturn --help` should not.
    from deploy.lab.chaos.run import BROKE_OFF, Plan, count_rounds, run_chaos  # noqa: PLC0415
    from deploy.lab.chaos.sabotage import Sabotage  # noqa: PLC0415

    if sabotage is not None and sabotage not in set(Sabotage):
        raise exit_with(f"no such sabotage: there is {', '.join(Sabotage)}", 2)
    wanted = None if sabotage is None else Sabotage(sabotage)
    # The stages that work in this process, undisturbed, would write a line for every retry.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        outcome = run_chaos(
            Plan(turns, workers, seed, wanted, count_rounds(turns) if rounds is None else rounds, lease), print_notice
        )
    except BROKE_OFF as error:
        raise exit_with(f"the run broke off: {error}", 1) from None
    for failure in outcome.failures:
        print_notice(f"does not hold: {failure}")
    if as_json:
        print_json(outcome.as_json())
    else:
        print(outcome.in_words())
    raise typer.Exit(1 if outcome.failures else 0)
