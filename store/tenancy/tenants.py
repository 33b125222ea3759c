"""Creates tenants, to whose rows all others refer, and lists them for operators: names and ages, no content."""

import re
import unicodedata
from uuid import UUID

from afterturn_client.contract.operators import CountedTenant, Tenant
from sqlalchemy import bindparam, func, select, true
from sqlalchemy.dialects.postgresql import insert

from store import identity
from store.database import Database
from store.errors import InvalidTenantName, NotFound
from store.schema import API_KEY, HOST, LEDGER

#: Characters that are drawn as nothing: format characters (Cf) and Unicode's Default_Ignorable_Code_Point.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


def require_tenant_name(name: str) -> str:
    """Return the name of a new tenant. Raises InvalidTenantName for one that can look like another's.

    Nothing unseen, no other space than a blank between words, and composed characters (NFC).
    """
    unseen = any(unicodedata.category(sign)[0] == "C" for sign in name) or _UNSEEN.search(name)
    spaced = name != " ".join(name.split()) or any(sign.isspace() and sign != " " for sign in name)
    if unseen or spaced or name != unicodedata.normalize("NFC", name):
        raise InvalidTenantName(
            "a tenant's name holds no invisible characters, no spaces but single blanks between words, and is in "
            "Unicode's composed form (NFC): otherwise two tenants could look the same"
        )
    return name


#: Adds a host if it does not exist; takes `host_id` and `name`.
ADD_HOST = insert(HOST).on_conflict_do_nothing()


async def ensure_host(database: Database, name: str, digest_key: bytes | None = None) -> UUID:
    """Create a tenant of this name unless it exists, with this key of its digests or one of its own; return its id."""
    host = identity.host_id(require_tenant_name(name))
    given = {} if digest_key is None else {"digest_key": digest_key}
    async with database.operator() as connection:
        await connection.execute(ADD_HOST, {"host_id": host, "name": name, **given})
    return host


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
