"""Ledger rows over the operator API, for commands that have no database access."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from deploy.cli.ledger_rows import BankFilter
from deploy.cli.operator_api import OperatorApi
from deploy.cli.output import exit_with
from deploy.components.bootstrap import HOST
from store.ledger.listing import OPEN_STATUSES, Selection
from store.ledger.quarantine import TOGETHER, ChangeCount
from store.ledger.stages import Stage

#: Rows of one page.
PAGE = 1000

Row = Mapping[str, Any]


def read_jobs(
    api: OperatorApi, place: BankFilter, selection: Selection, limit: int | None = None
) -> tuple[list[Row], bool]:
    """Return the rows of a selection, the oldest first, at most `limit` (None: all), and whether there are more."""
    found, more = list[Row](), False
    for asked in _split_selection(api, place, selection):
        rows, rest = _read_pages(api, asked, limit)
        found, more = [*found, *rows], more or rest
    found.sort(key=lambda row: (row["accepted_at"], row["position"]))
    return found[:limit], more or (limit is not None and len(found) > limit)


def read_named_jobs(api: OperatorApi, place: BankFilter, names: Sequence[str], selection: Selection) -> list[Row]:
    """Return the rows of these turns, or single rows, within a selection; exits 1 when one is unknown."""
    tenant = find_tenant(api, place)
    found = dict[tuple[str, str], Row]()
    for item in map(place.item, names):
        for row in api.call("GET", f"/jobs/{item}", tenant=tenant)["jobs"]:
            meant = str(item) in {row["id"], row["turn_id"]}
            if meant and row["status"] in selection.statuses and row["stage"] in selection.stages:
                found[row["id"], row["stage"]] = row
    return list(found.values())


def count_jobs(api: OperatorApi, place: BankFilter, selection: Selection) -> dict[str, int]:
    """Count the rows of a selection by status."""
    counts = dict.fromkeys(OPEN_STATUSES, 0)
    for asked in _split_selection(api, place, selection):
        for status, number in api.call("GET", "/jobs/count", **asked).items():
            counts[status] += number
    return counts


def change_jobs(api: OperatorApi, rows: Sequence[Row], body: Mapping[str, str]) -> ChangeCount:
    """Retry or drop rows, as `body` says, a batch of one tenant and stage at a time."""

    def belong(row: Row) -> tuple[str, str]:
        return row["tenant"], row["stage"]

    changed = 0
    for (tenant, stage), group in groupby(sorted(rows, key=belong), key=belong):
        ids = [row["id"] for row in group]
        for at in range(0, len(ids), TOGETHER):
            asked = {**body, "tenant": tenant, "stage": stage, "ids": ids[at : at + TOGETHER]}
            changed += api.call("POST", "/jobs", asked)["changed"]
    return ChangeCount(len(rows), changed)


def find_tenant(api: OperatorApi, place: BankFilter) -> str | None:
    """Return the tenant's name; a bank without a tenant belongs to the default tenant."""
    if place.host is None:
        return None if place.bank is None else HOST
    try:
        tenant = UUID(place.host)
    except ValueError:
        return place.host
    return str(api.call("GET", f"/tenants/{tenant}")["name"])


def _split_selection(api: OperatorApi, place: BankFilter, selection: Selection) -> Iterator[dict[str, Any]]:
    """Yield API queries, each for one stage and status, or for all."""
    if selection.states is not None:
        raise exit_with("the service lists deliveries by status alone (`afterturn jobs`); this needs its database", 2)
    stages = [None] if len(selection.stages) == len(Stage) else [stage.value for stage in selection.stages]
    statuses = [None] if len(selection.statuses) in {0, len(OPEN_STATUSES)} else list(selection.statuses)
    older = selection.older_than
    where = {
        "tenant": find_tenant(api, place),
        "bank": place.bank,
        "category": selection.category,
        "older_than_s": None if older is None else older.total_seconds(),
    }
    for stage in stages:
        for status in statuses:
            yield {**where, "stage": stage, "status": status}


def _read_pages(api: OperatorApi, asked: Mapping[str, Any], limit: int | None) -> tuple[list[Row], bool]:
    found, cursor = list[Row](), None
    while True:
        most = PAGE if limit is None else min(PAGE, limit - len(found))
        page = api.call("GET", "/jobs", **asked, limit=most, cursor=cursor)
        found += page["jobs"]
        cursor = page.get("cursor")
        if cursor is None or len(found) == limit:
            return found, bool(page["has_more"])
