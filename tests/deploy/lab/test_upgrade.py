"""`afterturn check upgrade`: this version, and a next one whose schema has more, in both orders under load."""

import shutil
import zipfile
from pathlib import Path

import pytest

from deploy.lab.soak import Calls
from deploy.lab.upgrade import Release, Upgrade, UpgradePhase, run_upgrades
from store import migrations

ROOT = Path(__file__).parents[3]
PACKAGES = ("store", "workers", "producers", "embeddings", "deploy")
#: A revision as the next release would bring it: it only adds, to the tables that every turn writes.
REVISION = '''"""A synthetic revision that expands the schema."""

from alembic import op

revision = "9.9.9_{number:04}"
down_revision = "{down}"


def upgrade() -> None:
    op.execute("alter table afterturn.turn_t add column next_release text default 'x'")
    op.execute("alter table afterturn.ledger_t add column next_release int")
    op.execute("create table afterturn.next_release_t (host_id uuid, key text, primary key (host_id, key))")
'''


def pack_this_version(folder: Path) -> Path:
    """Make what a wheel is of the packages as they stand."""
    wheel = folder / "afterturn-previous-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for package in PACKAGES:
            for path in sorted((ROOT / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts and "client" not in path.parts:
                    archive.write(path, path.relative_to(ROOT))
    return wheel


def make_next_version(wheel: Path, folder: Path) -> Release:
    """Return a version with one revision more, which says that it works on the schema before."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    known = migrations.list_revisions()
    added = folder / "store" / "migrations" / "versions" / f"{len(known) + 1:04}_next.py"
    added.write_text(REVISION.format(number=len(known) + 1, down=known[-1]), encoding="utf-8")
    rule = folder / "store" / "migrations" / "compatibility.py"
    source = rule.read_text(encoding="utf-8")
    declared = "OLDEST_SCHEMA: str | None = "
    assert declared in source
    before, _, after = source.partition(declared)
    rule.write_text(f'{before}{declared}"{known[-1]}"\n{after.partition(chr(10))[2]}', encoding="utf-8")
    return Release("new", folder)


def test_calls_that_fail_are_told_with_their_reason() -> None:
    calls = Calls()
    calls.count("turns", None)
    calls.count("turns", "status 503")
    calls.count("health", "status 503")
    upgrade = Upgrade("migrate first", [UpgradePhase("both", calls)])
    told = upgrade.as_json()
    assert (told["calls"], told["failed"]) == (1, 1)
    assert told["phases"][0]["reasons"] == {"turns: status 503": 1, "health: status 503": 1}


@pytest.mark.nightly
def test_no_call_fails_in_either_order_and_code_of_two_releases_works_on_either_schema(tmp_path: Path) -> None:
    wheel = pack_this_version(tmp_path)
    new = make_next_version(wheel, tmp_path / "next")
    upgrades = run_upgrades(wheel, 5.0, 1.0, print, new)
    for upgrade in upgrades:
        assert not upgrade.failures
        assert not upgrade.refused
        assert all(phase.well for phase in upgrade.phases)
    assert [len(upgrade.phases) for upgrade in upgrades] == [4, 4]
    shutil.rmtree(tmp_path / "next")
