"""Snapshots in tests: a whole export of a world, and an import of it into another."""

from uuid import UUID, uuid4

import orjson

from store.replay import verify_log
from store.snapshot.exporting import ExportRequest, Exports
from store.snapshot.importing import NO_RULES, ImportRequest, Imports
from store.snapshot.policy import Part
from store.snapshot.replacements import Replacements
from store.snapshot.rows import SnapshotRow
from tests.workers.conftest import HOST, World, dialogue, now
from tests.workers.stages import Crew

EVERYTHING = frozenset(Part)


async def export(world: World, parts: frozenset[Part] = EVERYTHING, limit: int = 7, **asked: object) -> list[str]:
    """Every event of an export, as JSON texts."""
    exports = Exports(world.database, now)
    row = await exports.begin(HOST, ExportRequest(parts, "test", **asked))  # type: ignore[arg-type]
    found = list[str]()
    while row.status != "done":
        page = await exports.read_page(HOST, row.snapshot_id, row.place, limit)
        found += page.events
        row = page.row
    return found


async def take(
    world: World,
    events: list[str],
    batch: int = 11,
    *,
    host: UUID = HOST,
    rules: Replacements | None = None,
    **asked: object,
) -> SnapshotRow:
    """Take these events of HOST in, and finish."""
    imports = Imports(world.database, now)
    request = ImportRequest(EVERYTHING, "test", uuid4(), HOST, rules=rules, **asked)  # type: ignore[arg-type]
    row = await imports.begin(host, request)
    for first in range(0, len(events), batch):
        lines = [orjson.loads(one) for one in events[first : first + batch]]
        row = (await imports.take(host, row.snapshot_id, first, lines, rules=rules or NO_RULES)).row
    while row.status != "done":
        row = await imports.finish(host, row.snapshot_id, len(events))
    return row


async def fill(world: World) -> None:
    for n, home in enumerate(("Kyoto", "Lisbon", "Porto")):
        words = f"My name is Karl Berger. I live in {home}. Karl and Ann Moore met in {home}."
        await world.append("s", f"t{n}", messages=dialogue(words, f"Ann Moore likes {home}."), gateway=False)
    await Crew(world).drain()


async def verified(world: World) -> list[str]:
    report = await verify_log(world.postgres.owner_url)
    assert report.equal
    return [one.name for one in report.derived if not one.equal]
