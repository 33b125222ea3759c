"""The first line of a snapshot: its form and version, whose it is, what it holds, and which key made its digests."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.errors import SealBroken, SnapshotRefused
from store.schema import HOST
from store.snapshot.policy import Part, parse_parts
from store.snapshot.rows import SnapshotRow
from store.tenancy.sealing import Sealer

FORMAT = "afterturn-snapshot"
VERSION = 1
TENANT = select(HOST.c.name, HOST.c.digest_key).where(HOST.c.host_id == bindparam("host"))


@dataclass(frozen=True, slots=True)
class Heading:
    """What a first line says; `digests` names the key of the digests, `sealed_key` is that key where it travels."""

    snapshot: UUID
    host: UUID
    tenant: str
    parts: frozenset[Part]
    masked: bool
    digests: str | None
    sealed_key: str | None = field(repr=False)


async def write_heading(
    connection: AsyncConnection, row: SnapshotRow, environment: str, sealer: Sealer | None
) -> dict[str, Any]:
    """Return the first line of an export; with a `sealer` the key of the tenant's digests travels, sealed.

    Raises SnapshotRefused where there is no key to seal with.
    """
    tenant = (await connection.execute(TENANT, {"host": row.host})).one()
    key = bytes(tenant.digest_key)
    try:
        sealed = None if sealer is None else sealer.seal(key.hex(), _build_key_scope(row.host))
    except SealBroken:
        raise SnapshotRefused("the digest key travels sealed alone: set gateway.sealing_keys in both places") from None
    return {
        "format": FORMAT,
        "version": VERSION,
        "snapshot_id": str(row.snapshot_id),
        "tenant": tenant.name,
        "host": str(row.host),
        "parts": sorted(row.parts),
        "banks": None if row.banks is None else sorted(map(str, row.banks)),
        "masked": row.masked,
        "environment": environment,
        "made_at": row.started_at.isoformat(),
        # A masked text is another one than its digest is of.
        "digests": None if row.masked else name_digest_key(key),
        **({"digest_key": sealed} if sealed else {}),
    }


async def read_digest_key(connection: AsyncConnection, host: UUID) -> bytes:
    """Return the key of a tenant's digests."""
    return bytes((await connection.execute(TENANT, {"host": host})).one().digest_key)


def read_heading(line: Any) -> Heading:
    """Return the heading in a first line. Raises SnapshotRefused for one of another form or version."""
    if not isinstance(line, Mapping) or line.get("format") != FORMAT:
        raise SnapshotRefused(f"this is no snapshot: its first line must name the format {FORMAT}")
    if line.get("version") != VERSION:
        raise SnapshotRefused(f"this snapshot is of version {line.get('version')!r}; this service reads {VERSION}")
    try:
        return Heading(
            UUID(str(line["snapshot_id"])),
            UUID(str(line["host"])),
            str(line["tenant"]),
            parse_parts([str(one) for one in line["parts"]]),
            line["masked"] is True,
            line.get("digests"),
            line.get("digest_key"),
        )
    except (KeyError, TypeError, ValueError):
        raise SnapshotRefused("the first line of this snapshot is incomplete: export again") from None


def describe_converted(host: UUID, tenant: str, digest: str, made_at: datetime) -> dict[str, Any]:
    """Return the first line of a snapshot that is converted from what has this SHA-256: the same of the same."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "snapshot_id": str(uuid5(host, digest)),
        "tenant": tenant,
        "host": str(host),
        "parts": sorted(Part),
        "banks": None,
        "masked": False,
        "environment": "",
        "made_at": made_at.isoformat(),
        "digests": None,
    }


def name_digest_key(key: bytes) -> str:
    """Return the name of a key: equal names are equal keys, and no key follows from its name."""
    return hmac.digest(key, FORMAT.encode(), "sha256").hex()[:32]


def open_digest_key(heading: Heading, sealer: Sealer | None) -> bytes | None:
    """Return the key that travels with a snapshot, None where none does. Raises SealBroken."""
    if heading.sealed_key is None:
        return None
    return bytes.fromhex((sealer or Sealer(())).open(heading.sealed_key, _build_key_scope(heading.host)))


def _build_key_scope(host: UUID) -> tuple[str, ...]:
    return ("digest key", str(host))
