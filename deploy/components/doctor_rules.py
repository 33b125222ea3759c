"""Pure rules of `afterturn doctor`: each turns a measured value into a verdict with a remedy."""

import re
from collections.abc import Sequence
from enum import StrEnum

from afterturn_client.contract.installation import Finding

from store.connections import TlsMode

#: Oldest major version that has the features the schema uses.
LEAST_POSTGRESQL = 16
#: Oldest version whose VACUUM does not corrupt HNSW indexes.
LEAST_PGVECTOR = (0, 8, 5)
GATEWAYS = "gateway targets"
LOW_DISK_BYTES = 2 * 1024**3
NO_DISK_BYTES = 256 * 1024**2


VERIFIED_MODES = frozenset({TlsMode.VERIFY_CA, TlsMode.VERIFY_FULL})
UNENCRYPTED_MODES = frozenset({TlsMode.DISABLE, TlsMode.ALLOW, TlsMode.PREFER})


class CheckVerdict(StrEnum):
    """The verdict of one check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


def report_ok(subject: str, seen: str) -> Finding:
    """Return a finding with verdict ok."""
    return Finding(subject=subject, verdict=CheckVerdict.OK, seen=seen, remedy="")


def report_warning(subject: str, seen: str, remedy: str) -> Finding:
    """Return a finding with verdict warn."""
    return Finding(subject=subject, verdict=CheckVerdict.WARN, seen=seen, remedy=remedy)


def report_failure(subject: str, seen: str, remedy: str) -> Finding:
    """Return a finding with verdict fail."""
    return Finding(subject=subject, verdict=CheckVerdict.FAIL, seen=seen, remedy=remedy)


def judge_postgresql_version(number: int, text: str) -> Finding:
    """Judge PostgreSQL's `server_version_num`."""
    if number // 10_000 >= LEAST_POSTGRESQL:
        return report_ok("PostgreSQL version", text)
    return report_failure("PostgreSQL version", text, f"upgrade to PostgreSQL {LEAST_POSTGRESQL} or newer")


def judge_pgvector_version(text: str | None) -> Finding:
    """Judge pgvector's version; None: the extension is not installed."""
    least = ".".join(map(str, LEAST_PGVECTOR))
    if text is None:
        return report_failure(
            "pgvector", "not installed in this database", f"install pgvector {least} or newer, then migrate"
        )
    found = tuple(int(part) for part in re.findall(r"\d+", text)[:3])
    if found >= LEAST_PGVECTOR:
        return report_ok("pgvector", text)
    return report_failure("pgvector", text, f"install pgvector {least} or newer, then `alter extension vector update`")


def judge_schema_revision(found: str | None, newest: str, problem: str | None, *, foreign: bool = False) -> Finding:
    """Judge the schema's revision; `problem` says what to do about it, None when this code can use it.

    `afterturn up` migrates its own server when it starts; a `foreign` one must be migrated by a command.
    """
    if found == newest:
        return report_ok("migrations", f"revision {newest}")
    seen = f"revision {found}, this code has {newest}" if found else "never run"
    if problem is None:
        return report_ok("migrations", f"{seen}: newer code migrated it, and it serves this one, too")
    remedy = problem if foreign else f"{problem} (`afterturn up` of this version migrates when it starts)"
    return report_failure("migrations", seen, remedy)


def judge_log_stamp(*, at_home: bool, foreign: bool = False) -> Finding:
    """Judge whether the log is stamped for its cluster (`at_home`); until it is, log readers stand still."""
    if at_home:
        return report_ok("log", "stamped for this cluster")
    remedy = "run `afterturn doctor --fix`" + (", with database.owner_url set" if foreign else "")
    return report_failure("log", "restored from another cluster, and not stamped for this one", remedy)


def judge_database_role(role: str, *, above: bool) -> Finding:
    """Judge whether row-level security applies to a role; it does not to superusers, BYPASSRLS and owners (`above`)."""
    if not above:
        return report_ok("tenant isolation", f"row-level security holds the {role}'s role")
    name = {"application": "afterturn_app in database.url", "operator": "afterturn_operator in database.operator_url"}
    return report_failure(
        "tenant isolation",
        f"the {role}'s role is a superuser, has BYPASSRLS or owns the tables",
        f"connect as {name[role]}, made as store/ROLES.md says",
    )


def judge_tls_mode(role: str, mode: TlsMode, *, local: bool) -> Finding:
    """Judge the TLS mode of a role's connections to PostgreSQL."""
    subject = "TLS to PostgreSQL"
    if local and mode is TlsMode.DISABLE:
        return report_ok(subject, f"{role}: not encrypted, stays on this machine")
    if mode in VERIFIED_MODES or local:
        return report_ok(subject, f"{role}: sslmode={mode}")
    seen = "may be read on the way" if mode in UNENCRYPTED_MODES else "is encrypted to a server that proves nothing"
    remedy = f"set sslmode={TlsMode.VERIFY_FULL} in the {role}'s URL, and sslrootcert=FILE for an authority of your own"
    return report_warning(subject, f"{role}: sslmode={mode}: the connection to another machine {seen}", remedy)


def judge_gateway_keys(targets: int, unreadable: Sequence[str]) -> Finding:
    """Judge whether the keys of current gateway targets can be opened; `unreadable` names targets whose key cannot."""
    if not unreadable:
        return report_ok(GATEWAYS, f"{targets} in force; every key that was set can be opened")
    return report_failure(
        GATEWAYS,
        f"the key cannot be opened with gateway.sealing_keys: {'; '.join(unreadable)}",
        "put the key that sealed it back into gateway.sealing_keys, or give it again with `afterturn gateway set`",
    )


def warn_of_closed_gateway(named: str) -> Finding:
    """Return the warning about a gateway target that is not called for now, whose deliveries wait."""
    return report_warning(
        GATEWAYS,
        f"its circuit breaker is open, or it asked to wait, so it is not called for now: {named}",
        "ask its operator",
    )


def judge_free_space(folder: str, free: int) -> Finding:
    """Judge the free bytes of a folder's file system."""
    seen = f"{free / 1024**3:.1f} GiB free at {folder}"
    if free >= LOW_DISK_BYTES:
        return report_ok("disk", seen)
    remedy = "free some space, or move the data folder to a larger disk"
    return report_warning("disk", seen, remedy) if free >= NO_DISK_BYTES else report_failure("disk", seen, remedy)


def judge_file_mode(path: str, mode: int, *, holds_secrets: bool) -> Finding:
    """Judge whether other users of this machine may read a file or folder."""
    seen = f"{path} {mode & 0o777:04o}"
    if not mode & 0o077:
        return report_ok("permissions", seen)
    remedy = f"chmod go-rwx {path}"
    return report_failure("permissions", seen, remedy) if holds_secrets else report_warning("permissions", seen, remedy)
