"""What `afterturn doctor` finds of databases that nobody will ask for: of killed commands, of folders that are gone."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from deploy.cli.doctor_checks import Patient
from deploy.cli.doctor_rules import Finding, warn
from deploy.local.cluster import homes
from deploy.local.folder_lock import is_held
from deploy.local.private_folder import is_private, leftovers, size_of
from deploy.local.survivors import servers_in

SUBJECT = "left behind"
NEXT = "the next `afterturn bench`, `chaos`, `check walls` or `demo` removes it; or do it now:"


def left_behind(patient: Patient) -> Iterator[Finding]:
    """Name each with its size and with the command that removes it; what anybody works in is not named."""
    for left in leftovers():
        yield warn(SUBJECT, f"{_named(*left.places)}, by a command that was killed", f"{NEXT} {_removal(*left.places)}")
    for home, data in homes():
        if not (is_held(home) or servers_in(home) or _is_known(home, data, patient)):
            yield warn(SUBJECT, f"{_named(home)}, the database of {data or 'an unknown folder'}", _advice(home, data))


def _is_known(home: Path, data: Path | None, patient: Patient) -> bool:
    """Say whether a data folder leads to this database, or a command's own does, which was looked at before."""
    if data is not None and is_private(data.parent):
        return True
    candidates = (patient.settings.data, *([] if data is None else [data]))
    return any((folder / "pg").resolve() == home / "pg" for folder in candidates)


def _advice(home: Path, data: Path | None) -> str:
    if data is None:
        return f"if the link `pg` of no data folder leads there: {_removal(home)}"
    return (
        f"its link is gone: if you moved the folder, run `afterturn up` there; if you do not need it: {_removal(home)}"
    )


def _named(*places: Path) -> str:
    return f"{sum(map(size_of, places)) / 1024**2:.0f} MiB in {' and '.join(map(str, places))}"


def _removal(*places: Path) -> str:
    return shlex.join(["rm", "-r", *map(str, places)])
