"""Finds orphaned databases for `afterturn doctor`: of killed commands and deleted folders."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from afterturn_client.contract.installation import Finding

from deploy.components.doctor_checks import DoctorTarget
from deploy.components.doctor_rules import report_warning
from deploy.local.cluster import list_cluster_folders
from deploy.local.folder_lock import is_held
from deploy.local.private_folder import find_orphaned_folders, is_private, measure_folder
from deploy.local.survivors import find_servers

ORPHANED = "left behind"
AUTOMATIC_REMEDY = "the next `afterturn bench`, `chaos`, `check isolation` or `demo` removes it; or do it now:"


def find_orphaned_databases(target: DoctorTarget) -> Iterator[Finding]:
    """Yield a warning for each orphaned database, with its size and the command that removes it; skip those in use."""
    for left in find_orphaned_folders():
        yield report_warning(
            ORPHANED,
            f"{_describe_places(*left.places)}, by a command that was killed",
            f"{AUTOMATIC_REMEDY} {_build_removal_command(*left.places)}",
        )
    for home, data in list_cluster_folders():
        if not (is_held(home) or find_servers(home) or _is_known(home, data, target)):
            yield report_warning(
                ORPHANED,
                f"{_describe_places(home)}, the database of {data or 'an unknown folder'}",
                _describe_remedy(home, data),
            )


def _is_known(home: Path, data: Path | None, target: DoctorTarget) -> bool:
    """Return whether a data folder, or the private folder of a running command, refers to this database."""
    if data is not None and is_private(data.parent):
        return True
    candidates = (target.settings.data, *([] if data is None else [data]))
    return any((folder / "pg").resolve() == home / "pg" for folder in candidates)


def _describe_remedy(home: Path, data: Path | None) -> str:
    if data is None:
        return f"if the link `pg` of no data folder leads there: {_build_removal_command(home)}"
    removal = _build_removal_command(home)
    return f"its link is gone: if you moved the folder, run `afterturn up` there; if you do not need it: {removal}"


def _describe_places(*places: Path) -> str:
    return f"{sum(map(measure_folder, places)) / 1024**2:.0f} MiB in {' and '.join(map(str, places))}"


def _build_removal_command(*places: Path) -> str:
    return shlex.join(["rm", "-r", *map(str, places)])
