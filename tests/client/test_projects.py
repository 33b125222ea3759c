"""Which memory a coding agent has in a folder: real repositories, worktrees and submodules of git."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from afterturn_client.projects import Repository, find_project, find_repository, state_folder

from tests.tables import each_row


def git(folder: Path, *told: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *told], cwd=folder, check=True, capture_output=True)


def repository(folder: Path, origin: str = "") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "f").write_text("x")
    git(folder, "add", "f")
    git(folder, "commit", "-qm", "x")
    if origin:
        git(folder, "remote", "add", "origin", origin)
    return folder


def test_the_project_is_the_git_repository_of_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "garden" / "beds"
    inner.mkdir(parents=True)
    assert find_project(inner) == "default"
    (tmp_path / "garden" / ".git").mkdir()
    assert find_project(inner) == find_project(inner / "not yet there") == "garden"
    assert find_project(Path("/")) == "default"


@pytest.mark.parametrize("place", ["../elsewhere/spike", ".claude/worktrees/spike"])
def test_a_worktree_has_the_memory_of_its_repository(tmp_path: Path, place: str) -> None:
    main = repository(tmp_path / "garden")
    git(main, "worktree", "add", place)
    inner = main / place / "deep"
    inner.mkdir()
    assert find_project(inner) == find_project(main) == "garden"


def test_a_worktree_of_a_repository_without_a_checkout(tmp_path: Path) -> None:
    git(repository(tmp_path / "made"), "clone", "-q", "--bare", ".", str(tmp_path / "garden.git"))
    git(tmp_path / "garden.git", "worktree", "add", str(tmp_path / "spike"))
    assert find_project(tmp_path / "spike") == "garden"


@pytest.mark.parametrize("file", [True, False])
def test_worktrees_beside_a_hidden_repository_without_a_checkout(tmp_path: Path, file: bool) -> None:  # noqa: FBT001
    git(repository(tmp_path / "made"), "clone", "-q", "--bare", ".", str(tmp_path / "garden" / ".bare"))
    if file:
        (tmp_path / "garden" / ".git").write_text("gitdir: ./.bare\n")
        assert find_project(tmp_path / "garden") == "garden"
    for branch in ("spike", "other"):
        git(tmp_path / "garden" / ".bare", "worktree", "add", str(tmp_path / "garden" / branch))
        assert find_project(tmp_path / "garden" / branch) == "garden"


def test_a_link_is_followed_as_git_does(tmp_path: Path) -> None:
    """From outside, and out of one repository into another."""
    garden, field = repository(tmp_path / "garden"), repository(tmp_path / "field")
    (garden / "beds").mkdir()
    for link in (tmp_path / "link", field / "link"):
        link.symlink_to(garden / "beds")
        assert find_project(link) == find_project(link / "deep") == "garden"


def test_within_a_repository_without_a_checkout(tmp_path: Path) -> None:
    git(repository(tmp_path / "made"), "clone", "-q", "--bare", ".", str(tmp_path / "garden.git"))
    assert find_project(tmp_path / "garden.git") == find_project(tmp_path / "garden.git" / "hooks") == "garden"


def test_repositories_of_jujutsu_and_mercurial(tmp_path: Path) -> None:
    """Workspaces of Jujutsu are one project, also with that of git which it may lie beside."""
    for name, inner in (("garden", ".jj/repo/store/git"), ("field", ".jj/repo/store"), ("hill", ".hg")):
        (tmp_path / name / inner).mkdir(parents=True)
    repository(tmp_path / "made").rename(tmp_path / "field" / "made")
    (tmp_path / "field" / "made" / ".git").rename(tmp_path / "field" / ".git")
    for name, told in (("garden", tmp_path / "garden/.jj/repo"), ("field", "../../field/.jj/repo")):
        (tmp_path / f"{name}-2" / ".jj").mkdir(parents=True)
        (tmp_path / f"{name}-2" / ".jj" / "repo").write_text(str(told))
        assert find_project(tmp_path / f"{name}-2" / "src") == find_project(tmp_path / name / "src") == name
    assert find_project(tmp_path / "hill" / "src") == "hill"


@each_row("name", ["a\0b", "a\ud83d", "a" * 5000])
def test_a_folder_that_cannot_be_is_in_no_project(tmp_path: Path, name: str) -> None:
    assert find_project(tmp_path / name) == "default"


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, os.fsdecode(b"gar\xffden"), "a\nb"])
def test_any_name_of_a_folder_is_one_of_a_memory(tmp_path: Path, name: str) -> None:
    found = {find_project(repository(tmp_path / place / name)) for place in ("one", "two")}
    assert len(found) == 2
    assert all(0 < len(one.encode()) <= 256 for one in found)


def test_a_comment_behind_an_origin_is_none_of_it(tmp_path: Path) -> None:
    here, there = (
        repository(tmp_path / "a" / "garden"),
        repository(tmp_path / "b" / "garden", "https://x.org/me/garden"),
    )
    told = '[remote "origin"]\n\turl = "https://x.org/me/garden" ; mine\n'
    (here / ".git" / "config").write_text((here / ".git" / "config").read_text() + told)
    assert find_project(here) == find_project(there)
    (here / ".git" / "config").write_text(told.replace(" ; mine", "").replace("garden", "garden#1"))
    assert find_repository(here).origin == "x.org/me/garden#1"  # type: ignore[union-attr]


def test_a_submodule_is_a_project_of_its_own_and_so_are_its_worktrees(tmp_path: Path) -> None:
    lib, main = repository(tmp_path / "made" / "lib"), repository(tmp_path / "garden")
    git(main, "submodule", "add", "-q", str(lib), "vendor/pumps")
    git(main / "vendor/pumps", "worktree", "add", str(tmp_path / "spike"))
    assert find_project(main) == "garden"
    assert find_project(main / "vendor/pumps") == find_project(tmp_path / "spike") == "pumps"


def test_a_folder_of_git_that_lies_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "garden").mkdir()
    git(tmp_path / "garden", "init", "-q", "--separate-git-dir", str(tmp_path / "apart.git"))
    assert find_project(tmp_path / "garden") == "garden"


def test_a_home_folder_that_is_a_repository_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = repository(tmp_path / "homes" / "ana")
    (home / "notes").mkdir()
    garden = repository(home / "garden")
    git(tmp_path / "homes", "init", "-q")
    monkeypatch.setenv("HOME", str(home))
    assert find_project(home) == find_project(home / "notes") == "default"
    assert find_project(tmp_path / "homes") == "default"
    assert find_project(garden) == "garden"
    (tmp_path / "link").symlink_to(home)
    assert find_project(tmp_path / "link") == "default"


def test_two_repositories_of_one_folder_name_are_two_projects(tmp_path: Path) -> None:
    first, second = repository(tmp_path / "client/billing"), repository(tmp_path / "own/billing")
    assert find_project(first) == "billing"
    other = find_project(second)
    assert other.startswith("billing-own-")
    for _ in range(2):
        assert (find_project(second), find_project(first)) == (other, "billing")


def test_an_origin_tells_repositories_apart_and_clones_together(tmp_path: Path) -> None:
    first = repository(tmp_path / "a/billing", "git@example.org:client/billing.git")
    assert find_project(first) == "billing"
    again = repository(tmp_path / "b/billing", "https://ana:secret@EXAMPLE.org:443/client/billing/")
    assert find_project(again) == "billing"
    other = repository(tmp_path / "c/billing", "ssh://git@example.org/own/billing.git")
    assert find_project(other).startswith("billing-own-")
    same = ["https://www.github.com/Ann/pump", "ssh://git@ssh.github.com:443/ann/pump.git", "github.com:ann/pump"]
    pumps = [repository(tmp_path / str(nth) / "pump", address) for nth, address in enumerate(same)]
    azure = ["https://ann@dev.azure.com/ann/pumps/_git/pump", "git@ssh.dev.azure.com:v3/ann/pumps/pump"]
    pumps += [repository(tmp_path / str(nth) / "azure-pump", address) for nth, address in enumerate(azure)]
    assert [find_project(pump) for pump in pumps] == ["pump"] * 3 + ["azure-pump"] * 2
    assert "secret" not in "".join(file.read_text() for file in state_folder().iterdir())
    assert [file.stat().st_mode & 0o077 for file in [state_folder()]] == [0]


def test_a_name_stays_with_a_repository_that_moves_or_gets_an_origin(tmp_path: Path) -> None:
    first = repository(tmp_path / "a/billing")
    assert find_project(first) == "billing"
    git(first, "remote", "add", "origin", "git@example.org:client/billing.git")
    assert find_project(first) == "billing"
    moved = tmp_path / "b" / "billing"
    shutil.copytree(first, moved)
    shutil.rmtree(first)
    assert find_project(moved) == "billing"
    git(moved, "remote", "set-url", "origin", "git@example.org:client/accounts.git")
    assert find_project(moved) == "billing"


def test_relative_origins_are_not_one(tmp_path: Path) -> None:
    first, second = (repository(tmp_path / one / "billing", "../origin.git") for one in "ab")
    assert find_repository(first) == Repository(str(first), str(tmp_path / "a" / "origin.git"))
    assert find_project(first) != find_project(second)


def test_where_nothing_can_be_kept_no_name_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    first, second = (repository(tmp_path / one / "billing") for one in "ab")
    assert find_project(first) == find_project(first) != find_project(second) == find_project(second)


def test_files_that_cannot_be_read_stop_nothing(tmp_path: Path) -> None:
    first = repository(tmp_path / "billing")
    (first / ".git" / "config").write_bytes(b'[remote "origin"]\n\turl\n\xff = [\n')
    assert find_project(first) == "billing"
    [kept] = state_folder().iterdir()
    kept.write_text("{")
    assert find_project(first) == "billing"
    shutil.rmtree(first / ".git")
    (first / ".git").write_text("nonsense")
    assert find_project(first) == "billing"
