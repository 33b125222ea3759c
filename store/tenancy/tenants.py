"""Lists tenants for operators: names and ages, no content."""

from uuid import UUID

from afterturn_client.contract.operators import CountedTenant, Tenant
from sqlalchemy import bindparam, func, select, true

from store.database import Database
from store.errors import NotFound
from store.schema import API_KEY, HOST, LEDGER

_HOST, _KEY = HOST.c, API_KEY.c
_NAME = _HOST.name.collate("C")
_TENANT = (_HOST.host_id.label("tenant_id"), _HOST.name, _HOST.created_at)
LIST = select(*_TENANT).where(bindparam("after") < _NAME).order_by(_NAME).limit(bindparam("limit"))
_KEYS = (
    select(func.count())
    .select_from(API_KEY)
    .where(
        _KEY.host_id == _HOST.host_id,
        _KEY.revoked_at.is_(None),
        func.coalesce(_KEY.expires_at > func.now(), true()),
    )
)
_UNDONE = select(func.count()).select_from(LEDGER).where(LEDGER.c.host_id == _HOST.host_id, LEDGER.c.undone)
ONE = select(*_TENANT, _KEYS.scalar_subquery().label("active_keys"), _UNDONE.scalar_subquery().label("undone")).where(
    _HOST.host_id == bindparam("host")
)


class Tenants:
    """Reads tenants, as the operator."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, after: str, limit: int) -> list[Tenant]:
        """Return tenants by name, after one of them."""
        async with self._database.operator() as connection:
            rows = await connection.execute(LIST, {"after": after, "limit": limit})
            return [Tenant(**row) for row in rows.mappings()]

    async def get(self, tenant: UUID) -> CountedTenant:
        """Return one tenant. Raises NotFound."""
        async with self._database.operator() as connection:
            row = (await connection.execute(ONE, {"host": tenant})).mappings().one_or_none()
        if row is None:
            raise NotFound("no such tenant")
        return CountedTenant(**row)
