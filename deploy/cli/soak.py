"""`afterturn soak`: steady load on a private stack, then a check that its resources return to the baseline."""

from typing import Annotated

import typer

from deploy.cli.options import JsonOption
from deploy.cli.output import exit_with, print_json
from deploy.local import EmbeddedError
from deploy.local.private_stack import PrivateStackError
from deploy.notices import print_notice


def soak_command(
    *,
    minutes: Annotated[float, typer.Option(min=0.5, max=10_080, metavar="N", help="Minutes of load.")] = 30.0,
    rate: Annotated[
        float,
        typer.Option(min=0.1, max=100, metavar="N", help="Rounds per second; each round calls every interface once."),
    ] = 2.0,
    as_json: JsonOption = False,
) -> None:
    """Load every interface, then check that memory, connections, files and ledger return to their baseline.

    Starts a private stack with one worker in a temporary folder, and removes it. The first fifth of the time (two
    minutes at most) warms up; the baseline is measured after it. Exits 1 when a resource does not return within 90 s
    after the load, or a call failed.

    **Example:** `afterturn soak --minutes 30 --json`
    """
    # WHY here: the laboratory imports much, and `afterturn --help` should not.
    from deploy.lab.soak import run_soak  # noqa: PLC0415

    try:
        outcome = run_soak(minutes, rate, print_notice)
    except (EmbeddedError, PrivateStackError) as error:
        raise exit_with(f"the run broke off: {error}", 2) from None
    if as_json:
        print_json(outcome.as_json())
    else:
        for name, figure in outcome.as_json().items():
            print(f"{name}: {figure}")
    for failure in outcome.failures:
        print_notice(f"does not hold: {failure}")
    raise typer.Exit(1 if outcome.failures else 0)
