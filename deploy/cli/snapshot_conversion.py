"""Converts a snapshot to light-portal's form, and an export of light-portal to a snapshot; no service is called."""

import hashlib
import json
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

from deploy.cli.snapshot_files import UnfinishedFile, check_snapshot, iterate_events, open_snapshot
from producers.cutover.lines import write_line
from store import identity
from store.backfill.conversion import NO_TIME
from store.snapshot.heading import describe_converted
from store.snapshot.portal_document import iterate_document
from store.snapshot.portal_form import Conversion, from_portal, to_portal
from store.tenancy.tenants import require_tenant_name
from store.text.redaction import Redaction


def convert_snapshot(file: Path, out: UnfinishedFile, done: Conversion) -> None:
    """Write the events of a snapshot as a JSON array, one a line."""
    with open_snapshot(file) as lines:
        check_snapshot(lines, set())
    with open_snapshot(file) as lines, out.open() as into:
        before = b"[\n"
        for event in to_portal(iterate_events(lines), done):
            into.write(before + json.dumps(event).encode())
            before = b",\n"
        into.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def convert_document(file: Path, out: Path, host: str, redaction: Redaction, done: Conversion) -> None:
    """Write the events of light-portal's export as a snapshot; a folder beside it holds them until it is whole."""
    host_id = identity.host_id(require_tenant_name(host))
    with open_snapshot(file) as lines:
        digest = hashlib.file_digest(lines, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed: no BinaryIO
    with tempfile.TemporaryDirectory(prefix=".afterturn-", dir=out.parent) as named, open_snapshot(file) as lines:
        folder, newest = Path(named), NO_TIME
        with (folder / "events").open("w+b") as events:
            for event in from_portal(iterate_document(lines), host_id, redaction, done, folder):
                write_line(events, event)
                newest = max(newest, datetime.fromisoformat(event["time"]))
            events.seek(0)
            with UnfinishedFile(out).open() as into:
                write_line(into, describe_converted(host_id, host, digest, newest))
                shutil.copyfileobj(events, into)
                write_line(into, {"end": done.counts["events"]})
