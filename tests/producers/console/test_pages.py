"""What the console is made of: small, for this origin alone, the same as the packages it came from."""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from producers.console.pages import FOLDER, HEADERS, KEPT, find_version, read_files
from tests.packages import find_or_skip
from tests.producers.conftest import World
from tests.tables import each_row

VENDORED: list[dict[str, Any]] = tomllib.loads((FOLDER.parent / "vendored.toml").read_text())["file"]
#: The most that all files together may have, compressed.
MOST_BYTES = 200_000
TEXT = re.compile(r'^ {2}"([\w.]+)": \[', re.MULTILINE)
USED = re.compile(r'"((?:[a-z]\w*\.)+\w+)"')


def scripts() -> dict[str, str]:
    """Return our own modules by path."""
    return {
        name: file.body.decode()
        for name, file in read_files().items()
        if name.endswith(".js") and not name.startswith("vendor/")
    }


async def test_every_file_has_the_policy_and_the_page_stands_in_no_frame(world: World) -> None:
    async with world.client() as client:
        for path in ("/console", "/console/assets/main.js", "/console/assets/console.css"):
            reply = await client.get(path)
            assert reply.status_code == 200
            assert HEADERS.items() <= dict(reply.headers).items()
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


async def test_a_file_is_compressed_where_asked_and_not_sent_twice(world: World) -> None:
    async with world.client() as client:
        plain = await client.get("/console", headers={"accept-encoding": "identity"})
        small = await client.get("/console", headers={"accept-encoding": "gzip"})
        again = await client.get("/console", headers={"if-none-match": plain.headers["etag"]})
    assert plain.content == small.content == read_files()["index.html"].body
    assert small.headers["content-encoding"] == "gzip"
    assert (again.status_code, again.content) == (304, b"")


async def test_files_are_kept_under_their_version_and_no_page_mixes_two(world: World) -> None:
    async with world.client() as client:
        page = (await client.get("/console")).text
        named = re.findall(r'(?:href|src)="(/console/assets/[^"]+)"', page)
        [version] = {one.split("/")[3] for one in named}
        for one in named:
            reply = await client.get(one)
            assert (reply.status_code, reply.headers["cache-control"]) == (200, KEPT["cache-control"]), one
        # A page of another version, as during an upgrade, is given these, and keeps none of them.
        other = await client.get(f"/console/assets/{'0' * 32}/main.js")
        page_again = await client.get("/console")
    assert version != "0" * 32
    assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")
    assert page_again.headers["cache-control"] == "no-cache"
    told = {one.partition(f"{version}/")[2] for one in named}
    assert told == set(read_files()) - {"index.html"}, "every file is asked for at once"


def test_the_version_is_of_every_file() -> None:
    files = {"a.js": b"1", "b.js": b"2"}
    assert len({find_version(one) for one in (files, {**files, "b.js": b"3"}, {"a.js": b"1", "c.js": b"2"})}) == 3


async def test_no_other_file_is_given_away(world: World) -> None:
    async with world.client() as client:
        for path in (
            "",
            "0" * 32,
            f"{'0' * 32}/../pages.py",
            "../pages.py",
            "%2e%2e/pages.py",
            "vendor",
            "nothing.js",
            "vendor/LICENSE.htm",
        ):
            assert (await client.get(f"/console/assets/{path}")).status_code == 404


def test_all_files_together_are_small() -> None:
    assert sum(len(file.compressed) for file in read_files().values()) < MOST_BYTES
    assert all(gzip.decompress(file.compressed) == file.body for file in read_files().values())


def test_nothing_is_asked_of_another_site_and_no_markup_is_made_of_text() -> None:
    for name, text in scripts().items():
        assert not re.search(r"https?://|\beval\(|new Function|innerHTML|dangerously|document\.write", text), name


def test_every_text_is_there_in_both_languages_and_used() -> None:
    table = read_files()["core/texts.js"].body.decode()
    known = TEXT.findall(table)
    assert len(known) == len(set(known))
    assert len(known) > 100
    for line in re.findall(r"\[\s*\"[^\]]*\]", table, re.DOTALL):
        english, german = json.loads(re.sub(r",\s*\]", "]", line))
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", german)), english
        assert english.count("`") == german.count("`"), english
    others = "\n".join(text for name, text in scripts().items() if name != "core/texts.js")
    named = set(USED.findall(others)) & {name for name in USED.findall(others) if f'"{name}"' in table}
    # Texts of a kind are named by what they are of: `banks.scope.${scope}`.
    made = tuple(re.findall(r"`((?:\w+\.)+)\$\{", others)) + tuple(
        name for name in known if re.search(r"`\$\{\w+\}\." + re.escape(name.rpartition(".")[2]) + "`", others)
    )
    assert not [name for name in known if name not in named and not name.startswith(made)]
    assert set(re.findall(r'\bt\(\s*"([\w.]+)"', others)) <= set(known)


@each_row("file", VENDORED, ids=lambda one: one["path"])
def test_a_vendored_file_is_as_it_was_taken(file: dict[str, Any]) -> None:
    assert hashlib.sha256((FOLDER / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    assert (FOLDER / "vendor" / f"LICENSE.{file['package']}").exists()
    assert file["licence"]


def test_every_vendored_file_is_named() -> None:
    there = {path.relative_to(FOLDER).as_posix() for path in (FOLDER / "vendor").glob("*.*s")}
    assert there == {file["path"] for file in VENDORED}


@pytest.mark.nightly
@pytest.mark.parametrize("file", VENDORED, ids=lambda one: one["path"])
def test_a_vendored_file_is_that_of_the_registry(file: dict[str, Any], tmp_path: Path) -> None:
    npm = find_or_skip(shutil.which("npm"), "npm is not installed")
    packed = [npm, "pack", f"{file['package']}@{file['version']}", "--silent"]
    done = subprocess.run(packed, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip("the registry of npm is not reached")
    with tarfile.open(tmp_path / done.stdout.strip()) as archive:
        found = archive.extractfile(file["source"])
        assert found is not None
        assert hashlib.sha256(found.read()).hexdigest() == file["sha256"]
