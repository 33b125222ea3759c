"""Monitors free disk space, and makes the database read-only before it runs out."""

import asyncio
import os
import shutil
from pathlib import Path

import structlog
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import NullPool

from deploy.local.postgres import PostgresEndpoint
from deploy.settings import HealthSettings, Settings
from store.connections import create_engine

log = structlog.get_logger("afterturn.disk")

CHECK_INTERVAL_S = 1.0
#: Writes resume when this many times the reserve is free, so that the state does not flip around one threshold.
RESUME_FACTOR = 2
TIMEOUT_S = 5
#: The embedded database, within a data folder.
DATABASE = "pg"

READ_ONLY = text("alter system set default_transaction_read_only = on")
WRITABLE = text("alter system reset default_transaction_read_only")
RELOAD = text("select pg_reload_conf()")


def free_bytes(data: Path) -> int:
    """Return the free bytes of the data folder's file system, or of its database's when that has fewer.

    For a folder that does not exist, the nearest parent counts. `DIR/pg` is a link when `afterturn up` runs as root.
    """
    return min(shutil.disk_usage(_nearest_folder(folder)).free for folder in (data, (data / DATABASE).resolve()))


def describe_shortage(data: Path, settings: HealthSettings) -> str | None:
    """Return a message that disk space is short and what follows from it; None while there is enough.

    Only the embedded database is made read-only.
    """
    free = free_bytes(data)
    if free >= settings.disk_low_bytes:
        return None
    if not os.path.lexists(data / DATABASE):
        return f"disk: {free >> 20} MiB are free in the data folder"
    if free < settings.disk_reserve_bytes:
        return f"disk: {free >> 20} MiB are free, writes are refused until {_resume_bytes(settings) >> 20} MiB are"
    return f"disk: {free >> 20} MiB are free; below {settings.disk_reserve_bytes >> 20} MiB writes are refused"


async def guard_disk(settings: Settings, endpoint: PostgresEndpoint) -> None:
    """Make the embedded database read-only while disk space is short, and writable again afterwards, until cancelled.

    PostgreSQL would stop, for readers too, when it cannot write its WAL.
    """
    refused = False
    engine = create_engine(
        endpoint.superuser_url, timeout_s=TIMEOUT_S, isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    while True:
        free = await asyncio.to_thread(free_bytes, settings.data)
        limit = _resume_bytes(settings.health) if refused else settings.health.disk_reserve_bytes
        if (free < limit) != refused:
            try:
                async with engine.connect() as connection:
                    await _set_read_only(connection, read_only=not refused)
            except Exception as error:  # noqa: BLE001 - the next look tries again after any error
                log.warning("disk_guard_failed", error=type(error).__name__, free_bytes=free)
            else:
                refused = not refused
                log.warning("disk_space_short" if refused else "disk_space_back", free_bytes=free)
        await asyncio.sleep(CHECK_INTERVAL_S)


async def _set_read_only(connection: AsyncConnection, *, read_only: bool) -> None:
    await connection.execute(READ_ONLY if read_only else WRITABLE)
    await connection.execute(RELOAD)


def _resume_bytes(settings: HealthSettings) -> int:
    return settings.disk_reserve_bytes * RESUME_FACTOR


def _nearest_folder(path: Path) -> Path:
    # A folder that this process may not enter counts as missing.
    return next(folder for folder in (path, *path.parents) if os.access(folder, os.X_OK))
