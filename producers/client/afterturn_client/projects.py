"""The project of a folder: the memory that a coding agent has there.

It is the git repository that the folder is in, by the name of its main checkout's folder: worktrees share the
repository's memory. A submodule is a repository, and a project of its own. So is a repository of Jujutsu or Mercurial,
and one of git without a checkout. A home folder that is a repository (of settings, say) is no project, nor is what lies
above it. Symbolic links are followed, as git does.

Two repositories may have one folder name. The first that is seen on this machine has the name; another one's holds its
origin or its path as well. Which is which is kept in files, one a name, in the user's state folder.
"""

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

DEFAULT_PROJECT = "default"
#: Most bytes of a name: those of a bank's.
LONGEST_NAME = 256

_GITDIR = re.compile(r"gitdir:\s*(.+)")
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)(?:\s+"([^"]*)")?\s*\]')
#: A comment behind a value; in quotes its signs are the value's.
_COMMENT = re.compile(r'(?:(?<=")|(?<=\s))\s*[#;][^"]*\Z')
_VALUE = re.compile(r"\s*(\w+)\s*=\s*(.*?)\s*\Z")
#: An address of git as `HOST/PATH`: a user, a password, a port and how it is reached do not tell repositories apart.
_ADDRESS = re.compile(r"(?:\w[\w+.-]*://)?(?:[^@/]*@)?([^:/]+)(?::\d+(?=/))?[:/]+(.+?)/*(?:\.git)?/*\Z")

#: Names before that of a host by which it is reached as well, and hosts to which capitals are small letters.
_OTHER_NAMES, _CASELESS_HOSTS = (
    re.compile(r"\A(?:www|ssh|altssh)\.(?=[^.]+\.[^.]+\Z)"),
    ("github.com", "gitlab.com", "bitbucket.org"),
)
#: A host of repositories, and what stands in its paths by one way of reaching it alone.
_AZURE, _OF_AZURE = "dev.azure.com", re.compile(r"\A/v3/|/_git/")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository: its main checkout (its own folder, where it has none), and its origin, empty without one."""

    path: str
    origin: str = ""


def find_project(folder: Path) -> str:
    """Return the name of the project that a folder is in; `default` outside of any."""
    repository = find_repository(folder)
    return DEFAULT_PROJECT if repository is None else claim_name(repository)


def find_repository(folder: Path) -> Repository | None:
    """Return the repository that a folder is in; None outside of any, and in a home folder that is one."""
    try:
        folder = _resolve(folder)
    except ValueError:  # a name that no folder can have
        return None
    root = next((one for one in (folder, *folder.parents) if _is_root(one)), None)
    home = _resolve(Path(os.path.expanduser("~")))  # noqa: PTH111 - Path.home() raises where there is none
    if root is None or not root.name or root in (home, *home.parents):
        return None
    main, shared = _find_main(root)
    return Repository(str(_resolve(main)), _read_origin(shared / "config", main))


def claim_name(repository: Repository) -> str:
    """Return the name of a repository's project, the same at every call, and no other repository's."""
    # A name that is not UTF-8 has U+FFFD for its bad bytes.
    told = os.fsencode(Path(repository.path).name.removesuffix(".git")).decode(errors="replace")
    name = _cut_name(told, LONGEST_NAME)
    qualified = _qualify(name, repository)
    # What cannot be kept cannot be told apart later: then only the name that no other repository has is safe.
    with suppress(OSError):
        if _claim(name, repository):
            return name
        _claim(qualified, repository)
    return qualified


def state_folder() -> Path:
    """Return the folder of the files that say whose a name is."""
    told = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(os.path.expanduser(told)) / "afterturn" / "projects"  # noqa: PTH111


def _is_root(folder: Path) -> bool:
    try:
        return any((folder / name).exists() for name in (".git", ".jj", ".hg")) or _is_bare(folder)
    except OSError:
        return False


def _is_bare(folder: Path) -> bool:
    """Return whether a folder is itself one of git, which a `.git` is as well."""
    return folder.name != ".git" and (folder / "HEAD").is_file() and (folder / "objects").is_dir()


def _find_main(root: Path) -> tuple[Path, Path]:
    """Return the main checkout of a checkout, and the folder of git that all of its worktrees share."""
    if _is_bare(root):
        return _name_shared(root), root
    inside = root / ".git"
    if not inside.exists() and (root / ".jj").exists():
        return _find_main_of_jujutsu(root)
    told = None if inside.is_dir() else _GITDIR.match(_read_text(inside))
    return (root, inside) if told is None else _find_main_elsewhere(root, root / told[1].strip())


def _find_main_elsewhere(root: Path, own: Path) -> tuple[Path, Path]:
    """Return the same for a checkout whose `own` folder of git lies elsewhere."""
    common = _read_text(own / "commondir").strip()
    if not common:
        return root, own  # a submodule, or a folder of git that lies elsewhere
    shared = Path(os.path.normpath(own / common))
    if shared.name == ".git":
        return shared.parent, shared
    # The worktree of a submodule, or of a repository without a checkout.
    if worktree := _read_config(shared / "config").get("core.worktree"):
        return Path(os.path.normpath(shared / worktree)), shared
    return _name_shared(shared), shared


def _name_shared(shared: Path) -> Path:
    """Return what names a repository without a checkout: where it is hidden, the folder of its worktrees."""
    return shared.parent if shared.name.startswith(".") else shared


def _find_main_of_jujutsu(root: Path) -> tuple[Path, Path]:
    """Return the main workspace of one of Jujutsu, and its folder of git."""
    repo = root / ".jj" / "repo"
    if told := "" if repo.is_dir() else _read_text(repo).strip():
        repo = Path(os.path.normpath(root / ".jj" / told))
    main = repo.parent.parent
    return main, main / ".git" if (main / ".git").is_dir() else repo / "store" / "git"


def _qualify(name: str, repository: Repository) -> str:
    """Return a name with where the repository comes from: the owner at its origin, or the folder it lies in."""
    known_by = repository.origin or repository.path
    parent = re.sub(r"\W+", "-", Path(known_by).parent.name).strip("-")
    digest = hashlib.sha256(known_by.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    before = "-".join(part for part in (name, parent) if part)
    return f"{_cut_name(before, LONGEST_NAME - len(digest) - 1)}-{digest}"


def _cut_name(name: str, most: int) -> str:
    """Return a name of at most `most` bytes."""
    return name.encode()[:most].decode(errors="ignore")


def _claim(name: str, repository: Repository) -> bool:
    """Return whether a name is this repository's; an unused one becomes its. Raises OSError."""
    file = state_folder() / f"{quote(name, safe='', errors='surrogateescape')}.json"
    told = json.dumps(asdict(repository))
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(told)
    except FileExistsError:
        owner = _read_owner(file)
        if owner is not None and not _is_same(owner, repository):
            return False
        if owner != repository:
            file.write_text(told, encoding="utf-8")
    return True


def _is_same(owner: Repository, repository: Repository) -> bool:
    """Return whether a repository is the one that had the name, moved or with another origin, or that is gone."""
    if owner.path == repository.path or (owner.origin and owner.origin == repository.origin):
        return True
    return not owner.origin and not (Path(owner.path) / ".git").exists()


def _read_owner(file: Path) -> Repository | None:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        return Repository(str(told["path"]), str(told["origin"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _read_origin(config: Path, main: Path) -> str:
    """Return the address of a repository's origin, in one form however it is written; empty without one."""
    url = _read_config(config).get("remote.origin.url", "")
    if "://" not in url and (url.startswith((".", "/", "~")) or ":" not in url):
        return str(_resolve(main / os.path.expanduser(url))) if url else ""  # noqa: PTH111
    found = _ADDRESS.match(url)
    return _join_address(found[1].lower(), found[2]) if found else url


def _join_address(host: str, path: str) -> str:
    """Return a host and a path as one text, in one form where a host has several names, or takes capitals for small."""
    host = _OTHER_NAMES.sub("", host)
    if host.removeprefix("ssh.") == _AZURE:
        host, path = _AZURE, _OF_AZURE.sub("/", f"/{path}").strip("/")
    return f"{host}/{path.lower() if host in _CASELESS_HOSTS else path}"


def _read_config(file: Path) -> dict[str, str]:
    """Return the values of a file of git's settings; of those that stand there twice, the last."""
    values, section = dict[str, str](), ""
    for line in _read_text(file).splitlines():
        if begun := _SECTION.match(line):
            section = ".".join(part for part in (begun[1].lower(), begun[2]) if part)
        elif found := _VALUE.match(line):
            values[f"{section}.{found[1].lower()}"] = _COMMENT.sub("", found[2]).strip('"')
    return values


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))
