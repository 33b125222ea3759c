"""Exports a snapshot to a file and imports one from it, over the operators' API; each goes on where it was cut off."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from afterturn_client.contract.snapshots import Snapshot, StartedExport, StartedImport, TakenEvents

from deploy.cli.operator_api import OperatorApi, read_answer
from deploy.cli.row_progress import show_progress
from deploy.cli.snapshot_files import (
    BegunFile,
    ParkedFile,
    UnfinishedFile,
    iterate_batches,
    open_snapshot,
    read_first_line,
)
from deploy.notices import print_notice, replace_unprintable
from producers.cutover.errors import UnusableFile
from producers.cutover.lines import write_line
from producers.service.snapshots import MOST_NAMES
from store import identity
from store.snapshot.policy import ALIASES

PATH = "/snapshots"
#: Events of one request of an import, and the most bytes of them with the rules: below api.max_request_bytes.
BATCH_SIZE, BATCH_BYTES = 2000, 2_000_000
#: Problems that are printed; the rest is counted.
MOST_PRINTED = 20


def export_snapshot(api: OperatorApi, file: Path, asked: dict[str, Any]) -> Snapshot:
    """Write the snapshot that is asked for to a file; a file that was begun goes on where it ended."""
    unfinished, tenant = UnfinishedFile(file), asked["tenant"]
    begun = unfinished.read_begun()
    if begun is None:
        started = read_answer(StartedExport, api.call("POST", PATH, asked))
        begun, snapshot = BegunFile(dict(started.first_line)), started.snapshot
        with unfinished.open() as out:
            write_line(out, begun.first_line)
        path = f"{PATH}/{snapshot.snapshot_id}"
    else:
        _require_same(begun.first_line, asked, file)
        print_notice(f"{file}.part has {begun.events} events: going on behind them; delete it to begin anew")
        path = f"{PATH}/{begun.first_line['snapshot_id']}"
        snapshot = read_answer(Snapshot, api.call("GET", path, tenant=tenant))
    after, events = begun.position, begun.events
    with show_progress("positions") as advance:
        while snapshot.status != "done":
            page = api.call("GET", f"{path}/events", tenant=tenant, after=after)
            snapshot = read_answer(Snapshot, page["snapshot"])
            with unfinished.open() as out:
                for event in page["events"]:
                    write_line(out, event)
            after, events = snapshot.place, events + len(page["events"])
            advance(snapshot.place, max(snapshot.head, 1))
    if events != snapshot.counts["events"]:
        raise UnusableFile(f"{file}.part lacks events of an export that is done: delete it, and export again")
    if not begun.whole:
        with unfinished.open() as out:
            write_line(out, {"end": events, "counts": dict(snapshot.counts)})
    unfinished.finish()
    return snapshot


def _require_same(first_line: Mapping[str, Any], asked: Mapping[str, Any], file: Path) -> None:
    """Raise UnusableFile where a file was begun with other options: what is not asked for must not get into it."""
    host = identity.host_id(asked["tenant"])
    banks = sorted(str(identity.bank_id(host, one)) for one in asked["banks"]) if "banks" in asked else None
    same = {
        "host": str(host),
        "parts": sorted({ALIASES.get(one, one) for one in asked["include"]}),
        "banks": banks,
        "masked": asked["mask"],
    }
    told = {name: first_line.get(name) for name in same}
    if told != same or ("digest_key" in first_line) != asked["digest_key"]:
        raise UnusableFile(f"{file}.part was begun with other options: name the same ones, or delete it")


class SnapshotImport:
    """An import of one file."""

    def __init__(
        self, api: OperatorApi, file: Path, asked: Mapping[str, Any], names: Sequence[str], *, fail_fast: bool
    ) -> None:
        self._api = api
        self._file = file
        self._asked = asked
        self._names = names if asked["rules"] or "from_tenant" in asked else ()
        self._fail_fast = fail_fast
        self._printed = 0

    def run(self, total: int, batch_size: int) -> Snapshot:
        """Send every event that the service has not taken yet, and wait until derived state is made."""
        with open_snapshot(self._file) as lines:
            first_line = read_first_line(lines)
        snapshot = self._begin(first_line)
        path = f"{PATH}/{snapshot.snapshot_id}"
        parked = ParkedFile(self._file, first_line, goes_on=snapshot.place > 0)
        if snapshot.place:
            print_notice(f"{snapshot.place} of {total} events were taken before: going on behind them")
        first, rules, tenant = snapshot.place, self._asked["rules"], {"tenant": self._asked["tenant"]}
        with open_snapshot(self._file) as lines, show_progress("events") as advance:
            for batch in iterate_batches(lines, first, batch_size, BATCH_BYTES - len(json.dumps(rules))):
                body = {**tenant, "first": first, "events": batch, "fail_fast": self._fail_fast, "rules": rules}
                taken = read_answer(TakenEvents, self._api.call("POST", f"{path}/events", body))
                for problem in taken.problems:
                    self._note(problem.event, problem.counter, problem.reason)
                    if problem.counter == "parked":
                        parked.add(batch[problem.event - first - 1])
                first += len(batch)
                advance(first, total)
        parked.finish()
        if parked.events:
            print_notice(f"{parked.events} events are parked in {parked.file}: import it when their parents are there")
        ended, begun = {**tenant, "events": total}, time.monotonic()
        while True:
            snapshot = read_answer(Snapshot, self._api.call("POST", f"{path}/finish", ended))
            if snapshot.status == "done":
                return snapshot
            print_notice(
                f"the events are in the log; words are being made, for {time.monotonic() - begun:.0f} s so far"
            )

    def _begin(self, first_line: Mapping[str, Any]) -> Snapshot:
        """Begin the import, or find the one that goes on; the names of users are sent in several calls."""
        for first in range(0, max(len(self._names), 1), MOST_NAMES):
            body = {**self._asked, "first_line": first_line, "names": self._names[first : first + MOST_NAMES]}
            begun = read_answer(StartedImport, self._api.call("POST", f"{PATH}/imports", body))
        return begun.snapshot

    def _note(self, event: int, counter: str, reason: str) -> None:
        self._printed += 1
        if self._printed <= MOST_PRINTED:
            print_notice(f"[{counter}] event {event}: {replace_unprintable(reason)}")
