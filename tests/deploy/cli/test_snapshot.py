"""`afterturn snapshot`: a file that goes on where it was interrupted, checked before anything is written."""

import asyncio
import errno
import gzip
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncConnection
from typer.testing import CliRunner

from deploy.cli import snapshot_files
from deploy.cli.app import build_cli
from deploy.cli.compression import zstd
from deploy.cli.snapshot_files import ParkedFile, check_snapshot, iterate_events, open_snapshot, read_first_line
from deploy.components.bootstrap import HOST
from producers.cutover.errors import UnusableFile
from producers.cutover.lines import LONGEST_LINE
from producers.settings import ApiSettings
from tests.deploy.operated import SECRET, Busy, Operated, busy_stack
from tests.processes import spawned
from tests.servers import TestPostgres, TestValkey

BOTH = ("--include", "agent_memory", "--include", "agent_session_history_t")


@pytest_asyncio.fixture
async def elsewhere(
    tmp_path: Path, servers: tuple[TestPostgres, TestValkey], administrator: AsyncConnection, valkey: TestValkey
) -> AsyncIterator[Operated]:
    """Another stack, on a database of its own."""
    database = await servers[0].create(f"test_{uuid4().hex}", by=administrator)
    async with busy_stack(tmp_path / "elsewhere", database, valkey) as made:
        yield made
    await database.drop(by=administrator)


def lines_of(file: Path) -> list[dict[str, object]]:
    packed = {".gz": gzip.decompress, ".zst": zstd.decompress}.get(file.suffix, bytes)
    raw = packed(file.read_bytes())
    return [json.loads(line) for line in raw.splitlines()]


@pytest.mark.parametrize("end", ["gz", "zst"])
async def test_a_snapshot_is_written_checked_and_taken_in_and_again_changes_nothing(
    busy: Busy, elsewhere: Operated, tmp_path: Path, end: str
) -> None:
    await busy.append(("monday", "1"), ("monday", "2"), ("tuesday", "1"))
    file = tmp_path / f"all.jsonl.{end}"
    made = await busy.answer("snapshot", "export", str(file), *BOTH)
    first, *events, last = lines_of(file)
    assert (first["format"], first["version"], first["parts"]) == (
        "afterturn-snapshot",
        1,
        ["agent_memory", "agent_session_history"],
    )
    assert last["end"] == len(events) == made["counts"]["events"] > 6
    assert SECRET in json.dumps(events)
    checked = await elsewhere.answer("snapshot", "import", str(file), "--dry-run", "--batch-size", "3")
    assert (checked["counts"]["validated"], checked["counts"].get("imported", 0)) == (len(events), 0)
    taken = await elsewhere.answer("snapshot", "import", str(file), "--batch-size", "3")
    assert (taken["status"], taken["counts"]["imported"]) == ("done", len(events))
    again = await elsewhere.answer("snapshot", "import", str(file))
    assert again["counts"]["skippedExactDuplicate"] == again["counts"]["total"] == len(events)
    listed = await elsewhere.answer("snapshot", "list")
    assert [one["kind"] for one in listed["snapshots"]] == ["import"] * 3


async def test_an_event_that_is_longer_than_a_request_is_taken_in(
    busy: Busy, elsewhere: Operated, tmp_path: Path
) -> None:
    await busy.append(("monday", "1"))
    file = tmp_path / "all.jsonl"
    await busy.answer("snapshot", "export", str(file), *BOTH)
    lines = file.read_text().splitlines()
    nth = next(n for n, line in enumerate(lines) if json.loads(line).get("data", {}).get("content"))
    long = json.loads(lines[nth])
    long["data"]["content"] += " and so on" * (2 * ApiSettings().max_request_bytes // 10)
    lines[nth] = json.dumps(long)
    file.write_text("".join(f"{line}\n" for line in lines))
    taken = await elsewhere.answer("snapshot", "import", str(file))
    assert (taken["status"], taken["counts"]["imported"]) == ("done", len(lines) - 2)


async def test_without_a_named_part_no_content_is_in_the_file(busy: Busy, tmp_path: Path) -> None:
    await busy.append(("monday", "1"))
    file = tmp_path / "none.jsonl"
    result = await busy.run("snapshot", "export", str(file))
    assert result.exit_code == 0, result.stderr
    assert "no content" in result.stderr
    first, last = lines_of(file)
    assert (first["parts"], last["end"]) == ([], 0)


async def test_an_unknown_part_and_a_file_that_exists_are_refused(busy: Busy, tmp_path: Path) -> None:
    unknown = await busy.run("snapshot", "export", str(tmp_path / "x.jsonl"), "--include", "everything")
    assert (unknown.exit_code, "agent_session_history" in unknown.stderr) == (1, True)
    (tmp_path / "there.jsonl").write_text("mine")
    there = await busy.run("snapshot", "export", str(tmp_path / "there.jsonl"))
    assert (there.exit_code, (tmp_path / "there.jsonl").read_text()) == (2, "mine")


@pytest.mark.parametrize("lost", ["the last line", "the first line", "half a line", "a line more"])
async def test_a_file_that_is_cut_off_is_refused_before_anything_is_written(
    busy: Busy, elsewhere: Operated, tmp_path: Path, lost: str
) -> None:
    await busy.append(("monday", "1"))
    file = tmp_path / "all.jsonl"
    await busy.answer("snapshot", "export", str(file), *BOTH)
    lines = file.read_bytes().splitlines(keepends=True)
    cut = {
        "the last line": lines[:-1],
        "the first line": lines[1:],
        "half a line": [*lines[:-1], lines[-1][:5]],
        "a line more": [*lines, lines[2]],
    }[lost]
    file.write_bytes(b"".join(cut))
    refused = await elsewhere.run("snapshot", "import", str(file))
    assert refused.exit_code == 2, refused.stderr
    assert (await elsewhere.answer("snapshot", "list"))["snapshots"] == []


async def test_a_snapshot_of_another_tenant_is_taken_in_where_it_is_named_with_its_rules(
    busy: Busy, elsewhere: Operated, tmp_path: Path
) -> None:
    await busy.append(("monday", "1"), ("tuesday", "1"))
    file, rules = tmp_path / "all.jsonl", tmp_path / "rules.json"
    await busy.answer("snapshot", "export", str(file), *BOTH)
    refused = await elsewhere.run("snapshot", "import", str(file), "--host", "acme")
    assert (refused.exit_code, "--from" in refused.stderr) == (1, True), refused.stderr
    other = await elsewhere.run("snapshot", "import", str(file), "--host", "acme", "--from", "somebody")
    assert other.exit_code == 1
    rules.write_text('{"field": "bankName"}')
    unread = await elsewhere.run("snapshot", "import", str(file), "--host", "acme", "--rules", str(rules))
    assert (unread.exit_code, "JSON list" in unread.stderr) == (2, True)
    rules.write_text('[{"field": "content", "from": "a", "to": "b"}]')
    asked = ("snapshot", "import", str(file), "--host", "acme", "--from", HOST, "--rules", str(rules))
    content = await elsewhere.run(*asked)
    assert (content.exit_code, "content is never replaced" in content.stderr) == (1, True), content.stderr
    rules.write_text('[{"field": "sessionName", "from": "monday", "to": "first"}]')
    taken = await elsewhere.answer(*asked, "--batch-size", "3")
    assert taken["counts"]["imported"] == taken["counts"]["total"] > 6
    again = await elsewhere.answer(*asked)
    assert again["counts"]["skippedExactDuplicate"] == again["counts"]["total"]
    own = tmp_path / "own.jsonl"
    await elsewhere.answer("snapshot", "export", str(own), "--host", "acme", *BOTH)
    names = {one["data"].get("sessionName") for one in lines_of(own)[1:-1]}  # type: ignore[attr-defined]
    assert names - {None} == {"first", "tuesday"}
    assert SECRET in own.read_text()


async def test_converting_there_and_back_gives_the_same_bytes_each_time_and_is_taken_in(
    busy: Busy, elsewhere: Operated, tmp_path: Path
) -> None:
    await busy.append(("monday", "1"), ("tuesday", "1"))
    file = tmp_path / "all.jsonl.gz"
    await busy.answer("snapshot", "export", str(file), *BOTH)
    portals, backs = [tmp_path / f"portal{n}.json" for n in (1, 2)], [tmp_path / f"back{n}.jsonl.gz" for n in (1, 2)]
    for portal, back in zip(portals, backs, strict=True):
        told = await convert(str(file), str(portal))
        assert told["counts"]["events"] == len(lines_of(file)) - 2 == len(json.loads(portal.read_bytes()))
        await convert(str(portal), str(back), "--host", "acme")
    for one, two in (portals, backs):
        assert one.read_bytes() == two.read_bytes()
    taken = await elsewhere.answer("snapshot", "import", str(backs[0]), "--host", "acme")
    assert taken["counts"]["imported"] == taken["counts"]["total"] == len(lines_of(backs[0])) - 2 > 4
    (tmp_path / "other.json").write_text("{}")
    refused = CliRunner().invoke(build_cli("snapshot"), ["snapshot", "convert", str(tmp_path / "other.json"), "x.json"])
    assert (refused.exit_code, "no `tables`" in refused.stderr) == (2, True), refused.stderr


async def convert(*arguments: str) -> dict[str, dict[str, int]]:
    """Convert a file; the command needs no stack."""
    command = ["snapshot", "convert", *arguments, "--json"]
    result = await asyncio.to_thread(CliRunner().invoke, build_cli("snapshot"), command)
    assert result.exit_code == 0, result.stderr
    return dict(json.loads(result.stdout))


def kill_in_phase(phase: str, *arguments: str) -> None:
    """Run the command until it reaches a phase, and kill it there."""
    command = [sys.executable, "-m", "tests.deploy.cli.snapshot_child", phase, *arguments]
    with spawned(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"stopped\n"
        child.kill()
        child.wait()


@pytest.mark.live
async def test_killed_in_each_phase_it_goes_on_where_it_ended(busy: Busy, elsewhere: Operated, tmp_path: Path) -> None:
    await busy.append(("monday", "1"), ("monday", "2"), ("tuesday", "1"))
    whole, file = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl.gz"
    await busy.answer("snapshot", "export", str(whole), *BOTH)
    await asyncio.to_thread(kill_in_phase, "export", "export", str(file), *BOTH, "--data", str(busy.folder))
    assert not file.exists()
    assert not (tmp_path / "killed.jsonl.gz.part").read_bytes().endswith(b"\n")
    await busy.answer("snapshot", "export", str(file), *BOTH)
    assert [one["id"] for one in lines_of(file)[1:-1]] == [one["id"] for one in lines_of(whole)[1:-1]]
    taking = ("import", str(file), "--batch-size", "3", "--data", str(elsewhere.folder))
    await asyncio.to_thread(kill_in_phase, "import", *taking)
    [begun] = (await elsewhere.answer("snapshot", "list"))["snapshots"]
    assert (begun["status"], begun["place"]) == ("running", 3)
    await asyncio.to_thread(kill_in_phase, "derive", *taking)
    [begun] = (await elsewhere.answer("snapshot", "list"))["snapshots"]
    events = len(lines_of(file)) - 2
    assert (begun["status"], begun["place"]) == ("deriving", events)
    done = await elsewhere.answer("snapshot", "import", str(file))
    # The batch that was appended when the process died is known when it is sent again.
    counts = done["counts"]
    assert (done["status"], done["snapshot_id"], counts["total"]) == ("done", begun["snapshot_id"], events)
    assert (counts["imported"], counts["skippedExactDuplicate"]) == (events - 3, 3)


async def test_a_snapshot_goes_through_standard_output_and_input(
    busy: Busy, elsewhere: Operated, tmp_path: Path
) -> None:
    await busy.append(("monday", "1"))
    file = tmp_path / "all.jsonl.gz"
    await busy.answer("snapshot", "export", str(file), *BOTH)
    out = await busy.run("snapshot", "export", "-", *BOTH)
    assert out.exit_code == 0, out.stderr
    said = [json.loads(line) for line in out.stdout.splitlines()]
    assert [one["id"] for one in said[1:-1]] == [one["id"] for one in lines_of(file)[1:-1]]
    taken = await elsewhere.answer("snapshot", "import", "-", said=out.stdout)
    assert taken["counts"]["imported"] == said[-1]["end"] > 3


async def test_an_export_that_was_begun_goes_on_under_the_same_options_alone(busy: Busy, tmp_path: Path) -> None:
    await busy.append(("monday", "1"))
    whole, file, part = (tmp_path / name for name in ("whole.jsonl", "again.jsonl", "again.jsonl.part"))
    await busy.answer("snapshot", "export", str(whole), *BOTH)
    lines = whole.read_bytes().splitlines(keepends=True)
    part.write_bytes(whole.read_bytes())
    for other in (BOTH[:2], (*BOTH, "--mask"), (*BOTH, "--bank", "default"), (*BOTH, "--digest-key")):
        refused = await busy.run("snapshot", "export", str(file), *other)
        assert (refused.exit_code, "other options" in refused.stderr) == (2, True), refused.stderr
    assert part.read_bytes() == whole.read_bytes()
    # It was killed while the file was packed, or before its last line was written.
    for kept in (lines, lines[:-1]):
        part.write_bytes(b"".join(kept))
        await busy.answer("snapshot", "export", str(file), *BOTH)
        assert (file.read_bytes(), part.exists()) == (whole.read_bytes(), False)
        file.unlink()
    part.write_bytes(b"".join(lines[:-2]))
    lacking = await busy.run("snapshot", "export", str(file), *BOTH)
    assert (lacking.exit_code, "lacks events" in lacking.stderr) == (2, True), lacking.stderr


async def test_a_full_disk_and_a_damaged_archive_are_said_of_the_file_that_has_it(
    busy: Busy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await busy.append(("monday", "1"))
    file = tmp_path / "all.jsonl.gz"
    await busy.answer("snapshot", "export", str(file), *BOTH)
    damaged = tmp_path / "damaged.jsonl.gz"
    raw = bytearray(file.read_bytes())
    raw[20:60] = b"x" * 40
    damaged.write_bytes(raw)
    unread = await busy.run("snapshot", "import", str(damaged))
    assert (unread.exit_code, f"{damaged} cannot be read" in unread.stderr) == (2, True), unread.stderr

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(snapshot_files, "_compress", full)
    packed = tmp_path / "more.jsonl.gz"
    refused = await busy.run("snapshot", "export", str(packed), *BOTH)
    assert (refused.exit_code, f"{packed} cannot be written (No space left" in refused.stderr) == (1, True)
    assert not (tmp_path / "more.jsonl.gz.packed").exists()
    monkeypatch.undo()
    await busy.answer("snapshot", "export", str(packed), *BOTH)
    nowhere = await busy.run("snapshot", "export", str(tmp_path / "none" / "x.jsonl"), *BOTH)
    assert (nowhere.exit_code, "No such file" in nowhere.stderr) == (1, True), nowhere.stderr


@pytest.mark.parametrize(
    "read", [lambda lines: check_snapshot(lines, set()), read_first_line, lambda lines: list(iterate_events(lines))]
)
def test_a_small_archive_of_one_endless_line_is_refused_within_little_memory(
    tmp_path: Path, read: Callable[[BinaryIO], object]
) -> None:
    file, longest = tmp_path / "bomb.jsonl.zst", LONGEST_LINE
    with zstd.open(file, "wb") as out:
        out.write(b'{"format": "afterturn-snapshot"}\n' if read is not read_first_line else b"")
        for _ in range(8):
            out.write(b"0" * longest)
    assert file.stat().st_size < longest // 100
    tracemalloc.start()
    try:
        with open_snapshot(file) as lines, pytest.raises(UnusableFile, match=f"at most {longest} bytes"):
            read(lines)
        assert tracemalloc.get_traced_memory()[1] < 4 * longest
    finally:
        tracemalloc.stop()


def test_what_was_parked_before_an_interruption_is_in_the_file_when_the_import_goes_on(tmp_path: Path) -> None:
    file, first = tmp_path / "all.jsonl", {"format": "afterturn-snapshot", "snapshot_id": "a"}
    parked = tmp_path / "all.jsonl.parked.jsonl"
    ParkedFile(file, first, goes_on=False).add({"id": 1})
    assert not parked.exists(), "a file without its last line has another name"
    later = ParkedFile(file, first, goes_on=True)
    later.add({"id": 2})
    later.finish()
    assert lines_of(parked) == [first, {"id": 1}, {"id": 2}, {"end": 2}]
    ParkedFile(file, first, goes_on=False).add({"id": 3})
    other = ParkedFile(file, {**first, "snapshot_id": "b"}, goes_on=True)
    other.add({"id": 4})
    other.finish()
    assert [one.get("id") for one in lines_of(parked)[1:-1]] == [4]
