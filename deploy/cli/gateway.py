"""`afterturn gateway`: targets of deliveries, and deliveries that failed or whose outcome is unknown."""

from enum import StrEnum
from typing import Annotated

import typer
from afterturn_client.contract.operators import SettledDelivery

from deploy.cli import gateway_targets
from deploy.cli.jobs import AllOption, DryRunOption, TurnsArgument, show_command
from deploy.cli.ledger_rows import (
    BankFilter,
    BankOption,
    CategoryOption,
    HostOption,
    LimitOption,
    OlderOption,
    TurnArgument,
    YesOption,
)
from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.operator_jobs import BulkChange, JobSelection, change_rows, print_jobs
from deploy.cli.options import DataOption, JsonOption, create_group
from deploy.cli.output import print_json
from deploy.cli.running_stack import find_running_stack
from deploy.notices import replace_unprintable
from store.ledger.quarantine import SETTLEMENTS, DeliveryFinding, NextStep
from store.ledger.stages import Stage


class State(StrEnum):
    """The state of a failed delivery; `dead`: it failed before its first call."""

    ADD_UNKNOWN = "add_unknown"
    ADD_FAILED = "add_failed"
    FLUSH_FAILED = "flush_failed"
    DEAD = "dead"


StateOption = Annotated[list[State] | None, typer.Option("--state", help="Filter by delivery state (repeatable).")]

gateway_app = create_group()
gateway_app.command("set")(gateway_targets.set_command)
gateway_app.command("unset")(gateway_targets.unset_command)
gateway_app.command("list-targets")(gateway_targets.list_command)
gateway_app.command("reseal")(gateway_targets.reseal_command)
gateway_app.command("show")(show_command)


@gateway_app.command("list")
def list_command(
    *,
    state: StateOption = None,
    host: HostOption = None,
    bank: BankOption = None,
    category: CategoryOption = None,
    older_than: OlderOption = None,
    limit: LimitOption = 50,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List deliveries that failed (`add_failed`, `flush_failed`) or are unknown (`add_unknown`), the oldest first.

    **Example:** `afterturn gateway list --category timeout`
    """
    states = state or list(State)
    selection = JobSelection(BankFilter(host, bank), states=states, category=category, older_than=older_than)
    print_jobs(OperatorApi(find_running_stack(data)), selection, limit, as_json=as_json)


@gateway_app.command("resolve")
def resolve_command(
    turn: TurnArgument,
    *,
    found: Annotated[DeliveryFinding, typer.Option("--as", help="The outcome found at the gateway.")],
    then: Annotated[
        NextStep | None,
        typer.Option(help="Next step. delivered: flush (default) or done; not-delivered: retry or skip (required)."),
    ] = None,
    host: HostOption = None,
    bank: BankOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Settle a delivery whose outcome is unknown, after you looked it up at the gateway.

    `delivered`: flush it, or mark it done. `not-delivered`: send it again, after newer turns of its session, or skip
    it. After a failed flush, the answer is about the flush: `delivered` marks it done, `not-delivered` flushes again.

    **Example:** `afterturn gateway resolve monday/7 --as not-delivered --then retry`
    """
    place = BankFilter(host, bank)
    _check_settlement(found, then)
    api = OperatorApi(find_running_stack(data))
    body = {"found": found.value, "then": then and then.value, "tenant": api.tenant_name(place.tenant)}
    answer = api.call("POST", f"/jobs/{place.item(turn)}/settle", body)
    if as_json:
        print_json(answer)
    else:
        done = read_answer(SettledDelivery, answer)
        to = done.gateway and done.gateway.session
        at = f" (session {replace_unprintable(to)} at the gateway)" if to else ""
        print(f"{done.turn_id}: {done.was} is {done.state} now{at}")


@gateway_app.command("retry")
def retry_command(
    turn: TurnsArgument = None,
    *,
    everything: AllOption = False,
    host: HostOption = None,
    bank: BankOption = None,
    category: CategoryOption = None,
    older_than: OlderOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Retry deliveries that certainly had no effect: no connection was made, or the answer was 401, 403 or 429.

    A failed flush is repeated without its add. All other deliveries are left as they are; settle them with `resolve`.
    Newer turns of the same session have arrived before a retried one.

    **Example:** `afterturn gateway retry --category unauthorized --yes`
    """
    if not (turn or everything or host or bank or category or older_than):
        raise typer.BadParameter("name a TURN, give a filter, or --all")
    place = BankFilter(host, bank)
    left = "the call may have had an effect; look at the gateway, then run `afterturn gateway resolve TURN --as …`"
    selection = JobSelection(place, [Stage.GATEWAY], states=list(State), category=category, older_than=older_than)
    again, api = BulkChange("retried", left, {"action": "retry"}), OperatorApi(find_running_stack(data))
    change_rows(api, turn or (), selection, again, yes=yes, dry_run=dry_run, as_json=as_json)


def _check_settlement(found: DeliveryFinding, then: NextStep | None) -> None:
    ways = [way.value for told, way in SETTLEMENTS if told is found]
    if then is None and found is DeliveryFinding.NOT_DELIVERED:
        raise typer.BadParameter(f"not-delivered needs a next step: {' or '.join(ways)}", param_hint="--then")
    if then is not None and then.value not in ways:
        raise typer.BadParameter(f"after {found.value} it must be {' or '.join(ways)}", param_hint="--then")
