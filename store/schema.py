"""The schema: every table, column, constraint and index, declared once; each index says why it is there.

`store/SCHEMA.md` says who owns each table and what it holds. Revisions bring a database here (`store/migrations`), and
`tests/store/test_schema.py` holds the two to each other. What SQLAlchemy has no words for is in .sql files: partitions,
planner statistics, roles and policies in the first revision; functions, triggers and views in `store/sql`.

The tenant (`host_id`) comes first in every key: one set of tenants can move to another server whole.
"""

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Computed,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    FromClause,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    and_,
    bindparam,
    column,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import UserDefinedType

from store.ledger.stages import STAGES
from store.vectors import HalfVector

METADATA = MetaData(schema="afterturn")
TIME = DateTime(timezone=True)


class Xid8(UserDefinedType[str]):
    """A transaction's number that never wraps around; SQLAlchemy has no type for it."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return the type's name in DDL."""
        return "xid8"


def _belongs_to(parent: Table, *columns: str) -> ForeignKeyConstraint:
    """Return a foreign key to the primary key of `parent`; rows are deleted with their parent."""
    return ForeignKeyConstraint(columns, list(parent.primary_key), ondelete="CASCADE")


def _make_tail() -> tuple[Column[int], Column[bool], Column[object], Column[str]]:
    """Return the last columns of each of the seed's projections: version, whether active, last change and its user."""
    return (
        Column("aggregate_version", BigInteger, nullable=False, server_default=text("1")),
        Column("active", Boolean, nullable=False, server_default=text("true")),
        Column("update_ts", TIME, nullable=False),
        Column("update_user", String(126), nullable=False),
    )


# Who -----------------------------------------------------------------------------------------------------------------

HOST = Table(
    "host_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column(
        "digest_key",
        LargeBinary,
        nullable=False,
        server_default=text("decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')"),
    ),
    Column("created_at", TIME, nullable=False, server_default=func.now()),
    UniqueConstraint("name"),
)

API_KEY = Table(
    "api_key_t",
    METADATA,
    Column("key_id", Uuid, primary_key=True),
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), nullable=False),
    #: unique, so that a key is looked up by its hash in one index probe
    Column("key_hash", LargeBinary, nullable=False),
    Column("label", Text, nullable=False),
    #: banks that the key reaches; null: every bank of the tenant; empty: none
    Column("banks", ARRAY(Text)),
    Column("can_write", Boolean, nullable=False, server_default=text("true")),
    #: not null: a key of this user for the gateway's `/memories/*` and nothing else
    Column("gateway_user", Text),
    Column("created_at", TIME, nullable=False, server_default=func.now()),
    Column("revoked_at", TIME),
    Column("user_name", Text),
    Column("agent", Text),
    Column("expires_at", TIME),
    Column("rotated_from", Uuid, ForeignKey("afterturn.api_key_t.key_id", ondelete="SET NULL")),
    Column("can_curate", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("key_hash"),
)

#: The operator's limits of a tenant or of one of its banks, and their usage. Null means no limit.
QUOTA = Table(
    "quota_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    #: id of the tenant or of the bank
    Column("scope_id", Uuid, primary_key=True),
    #: null: the row is the tenant's
    Column("bank_name", Text),
    Column("max_turns", BigInteger),
    Column("max_bytes", BigInteger),
    Column("max_banks", BigInteger),
    Column("turns_per_minute", BigInteger),
    Column("turns", BigInteger, nullable=False, server_default=text("0")),
    #: bytes of stored data, in UTF-8
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("banks", BigInteger, nullable=False, server_default=text("0")),
    Column("minute", TIME, nullable=False, server_default="-infinity"),
    Column("minute_turns", BigInteger, nullable=False, server_default=text("0")),
    Column("counted_at", TIME, nullable=False, server_default="-infinity"),
    CheckConstraint("max_turns >= 0"),
    CheckConstraint("max_bytes >= 0"),
    CheckConstraint("max_banks is null or (max_banks >= 0 and bank_name is null)"),
    CheckConstraint("turns_per_minute >= 0"),
    postgresql_with={"fillfactor": "50"},
)

#: The Memory Gateway that receives the turns of a tenant or of one of its banks, as an operator set it. A delivery
#: keeps the target it was opened for.
GATEWAY_TARGET = Table(
    "gateway_target_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("target_id", Uuid, primary_key=True),
    #: null: the target of every bank of the tenant that has none of its own
    Column("bank_id", Uuid),
    #: null: this service itself (`--gateway self`)
    Column("base_url", Text),
    #: the gateway's user, application and project
    Column("user_id", Text, nullable=False),
    Column("app_id", Text, nullable=False),
    Column("project_id", Text, nullable=False),
    #: scopes in which a recall through the gateway searches
    Column("scope", ARRAY(Text), nullable=False),
    #: the user's key, sealed (store/tenancy/sealing.py); null: the settings hold it
    Column("sealed_key", Text),
    Column("of_settings", Boolean, nullable=False, server_default=text("false")),
    Column("set_at", TIME, nullable=False, server_default=func.now()),
    #: when another target replaced this one; deliveries opened for it still go to it
    Column("replaced_at", TIME),
    #: when it was unset: no more deliveries, and its key is deleted
    Column("unset_at", TIME),
    # WHY: a tenant has one current target, and so has each bank; every append reads it.
    Index(
        "gateway_target_in_force",
        "host_id",
        text("coalesce(bank_id, host_id)"),
        unique=True,
        postgresql_where=text("replaced_at is null and unset_at is null"),
    ),
    # WHY: a gateway's user belongs to one tenant or bank permanently; otherwise sessions of two would merge there, and
    # a recall of one would find the other's data. Unique over all tenants, so it does not begin with the host.
    Index(
        "gateway_target_identity",
        "base_url",
        "user_id",
        "app_id",
        "project_id",
        unique=True,
        postgresql_where=text("base_url is not null"),
    ),
)

#: Banks that were upserted as namespaces through the memory plugin. Outside the log, as keys and quotas are.
PLUGIN_NAMESPACE = Table(
    "plugin_namespace_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("expires_at", TIME),
    #: JSON, with numbers digit for digit as received
    Column("metadata", Text),
    Column("created_at", TIME, nullable=False),
    #: the namespace is being deleted: its memories end first, then this row is deleted
    Column("ending", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("kind in ('workspace', 'team', 'org', 'custom')"),
)

#: Vectors that callers of the memory plugin send, scaled to unit length. They are outside the log and cannot be
#: rebuilt. A memory's metadata hold the digest of its vector, so that the vector of another version is never used.
PLUGIN_VECTOR = Table(
    "plugin_vector_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    #: the session id of the memory (store/memory/memories.py)
    Column("session_id", Uuid, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("dimension", Integer, nullable=False),
    #: the length of the vector as received
    Column("norm", Double, nullable=False),
    Column("embedding", VECTOR, nullable=False),
    Column("written_at", TIME, nullable=False),
    CheckConstraint("dimension between 1 and 4096"),
    CheckConstraint("public.vector_dims(embedding) = dimension"),
    # WHY: a search reads only the vectors of its dimension.
    Index("plugin_vector_of_dimension", "host_id", "bank_id", "dimension"),
)

# The event log -------------------------------------------------------------------------------------------------------

EVENT_STORE = Table(
    "event_store_t",
    METADATA,
    Column("id", Uuid, nullable=False),
    Column("host_id", Uuid, primary_key=True),
    Column("user_id", Uuid, nullable=False),
    #: the aggregate's id without host and bank; empty: the bank itself
    Column("aggregate_key", String(255), nullable=False),
    Column("aggregate_version", BigInteger, nullable=False, server_default=text("1")),
    Column("aggregate_type", String(255), nullable=False),
    Column("event_type", String(255), nullable=False),
    Column("event_ts", TIME, nullable=False),
    #: extension attributes of the envelope, and its source unless that is this service
    Column("metadata", JSONB),
    Column("bank_id", Uuid, nullable=False),
    Column("position", BigInteger, primary_key=True),
    Column("xid", Xid8, nullable=False, server_default=text("pg_current_xact_id()")),
    #: the envelope's data without the fields that are columns: host, bank and versions
    Column("data", JSONB, nullable=False),
    #: an event that is offered twice is stored once
    UniqueConstraint("host_id", "id"),
    #: optimistic concurrency
    UniqueConstraint("host_id", "bank_id", "aggregate_key", "aggregate_version"),
    # WHY: a user's events are read in the order of the log.
    Index("log_by_user", "host_id", "user_id", "position"),
    # WHY: readers follow the order of commits, which differs from the order of positions.
    Index("log_by_commit", "host_id", "xid", "position"),
)

#: Positions of readers of the log, which no code keeps any more: the next revision that takes away drops it.
SUBSCRIPTION = Table(
    "subscription_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("xid", Xid8, nullable=False),
    Column("position", BigInteger, nullable=False),
    postgresql_with={"fillfactor": "50"},
)

# Projections: the seed's tables --------------------------------------------------------------------------------------

BANK = Table(
    "agent_memory_bank_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id"), primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("agent_def_id", Uuid),
    Column("user_id", Uuid),
    Column("bank_name", String(256), nullable=False),
    Column("disposition", JSONB, nullable=False, server_default='{"empathy": 3, "literalism": 3, "skepticism": 3}'),
    Column("background", Text),
    *_make_tail(),
    #: from this time on the bank is in no answer
    Column("expires_at", TIME),
    # WHY: maintenance looks for banks that have expired, of which there are few.
    Index(
        "bank_expiring", "host_id", "expires_at", postgresql_where=text("expires_at is not null and bank_name <> ''")
    ),
)

DOC = Table(
    "agent_memory_doc_t",
    METADATA,
    Column("host_id", Uuid),
    Column("doc_id", Uuid),
    Column("bank_id", Uuid),
    Column("original_text", Text),
    #: hexadecimal SHA-256 of the text; not unique, as in the seed
    Column("content_hash", Text),
    *_make_tail(),
    Column("title", Text),
    Column("metadata", JSONB, nullable=False, server_default="{}"),
    Column("occurred_at", TIME),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("host_id", "bank_id", "doc_id"),
    _belongs_to(BANK, "host_id", "bank_id"),
    # WHY: a file that is ingested again is found by its hash.
    Index("doc_by_hash", "host_id", "bank_id", "content_hash"),
    # WHY: the documents of a bank are listed in pages, newest first.
    Index(
        "doc_by_time",
        "host_id",
        "bank_id",
        text("update_ts desc"),
        text("doc_id desc"),
        postgresql_where=text("active"),
    ),
)

#: When the event of a unit occurred, if that is known, else when it was said; in lines, as the server writes it.
_OCCURRENCE = """(
case
    when occurred_start is null then event_date
    else occurred_start
end)"""

UNIT = Table(
    "agent_memory_unit_t",
    METADATA,
    Column("host_id", Uuid),
    Column("unit_id", Uuid),
    Column("bank_id", Uuid),
    Column("doc_id", Uuid),
    Column("content", Text, nullable=False),
    Column("context", Text),
    Column("event_date", TIME, nullable=False),
    Column("occurred_start", TIME),
    Column("occurred_end", TIME),
    Column("mentioned_at", TIME),
    Column("fact_type", String(32), nullable=False, server_default="world"),
    Column("metadata", JSONB, nullable=False, server_default="{}"),
    Column("proof_count", Integer, nullable=False, server_default=text("1")),
    Column("source_memory_ids", ARRAY(Uuid), nullable=False, server_default="{}"),
    Column("user_id", Uuid, nullable=False),
    Column("origin", Text, nullable=False),
    Column("session_id", Uuid),
    Column("turn_id", Uuid),
    Column("session_name", Text),
    Column("turn_name", Text),
    #: the message's number within its turn
    Column("ordinal", Integer),
    #: the message's number within its session
    Column("seq", Integer),
    Column("role", Text),
    Column("name", Text),
    #: position of the event that retained the unit
    Column("position", BigInteger, nullable=False),
    *_make_tail(),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    #: from this time on the unit is in no answer
    Column("expires_at", TIME),
    PrimaryKeyConstraint("host_id", "bank_id", "unit_id"),
    CheckConstraint("fact_type in ('world', 'experience', 'opinion', 'observation', 'mental_model')"),
    CheckConstraint("origin in ('message', 'extraction', 'document', 'memory')"),
    _belongs_to(BANK, "host_id", "bank_id"),
    _belongs_to(DOC, "host_id", "bank_id", "doc_id"),
    # WHY: recall reads a result's neighbours in its session, and the newest messages of a session.
    Index("unit_by_session", "host_id", "bank_id", "session_id", "seq", postgresql_where=text("seq is not null")),
    # WHY: the stages read the units of a turn.
    Index("unit_by_turn", "host_id", "bank_id", "turn_id"),
    # WHY: a question that names a time searches the units of that time. WHY not coalesce: row-level security keeps it
    # out of the index condition, and each asked day would read the whole bank.
    Index(
        "unit_by_occurrence",
        "host_id",
        "bank_id",
        text(_OCCURRENCE),
        postgresql_where=text("active"),
    ),
    # WHY: forgetting a document forgets its units.
    Index("unit_by_doc", "host_id", "bank_id", "doc_id", postgresql_where=text("doc_id is not null")),
    # WHY: the facts of a user's turns are read across all banks. Partial, so that messages cost nothing.
    Index("unit_of_user", "host_id", "user_id", postgresql_where=text("origin = 'extraction' and active")),
    # WHY: a list of users steps from one user to the next; the index stores a user's equal entries once.
    Index("unit_by_user", "host_id", "user_id", "bank_id", postgresql_where=text("active")),
    # WHY the position: a turn's facts are linked to the last fact before them, which would otherwise be searched among
    # all facts of the session at every turn.
    Index(
        "unit_other_by_session", "host_id", "bank_id", "session_id", "position", postgresql_where=text("seq is null")
    ),
    # WHY: every recall reads the pinned units; without any, the index is empty and costs nothing.
    Index(
        "unit_pinned",
        "host_id",
        "bank_id",
        "position",
        postgresql_where=text("metadata->>'pinned' = 'true' and active"),
    ),
    # WHY: the memory plugin reads a bank's memories among very many facts, and lists pages of very many memories: first
    # the pinned ones, then all, each in this order. WHY two indexes: under row-level security, a function of a row's
    # columns cannot be an index condition.
    Index(
        "unit_listed_by_plugin",
        "host_id",
        "bank_id",
        "mentioned_at",
        text("(((metadata -> 'plugin'::text) ->> 'id'::text)::uuid)"),
        postgresql_where=text("origin = 'memory' and active and jsonb_exists(metadata, 'plugin')"),
    ),
    Index(
        "unit_pinned_by_plugin",
        "host_id",
        "bank_id",
        "mentioned_at",
        text("(((metadata -> 'plugin'::text) ->> 'id'::text)::uuid)"),
        postgresql_where=text(
            "origin = 'memory' and active and jsonb_exists(metadata, 'plugin') and metadata->'plugin'->>'pin' = 'true'"
        ),
    ),
    # WHY: a search for memories of a rare kind reads only those. WHY one index per kind: as above.
    *(
        Index(
            f"unit_{kind}_by_plugin",
            "host_id",
            "bank_id",
            postgresql_where=text(
                "origin = 'memory' and active and jsonb_exists(metadata, 'plugin')"
                f" and metadata->'plugin'->>'kind' = '{kind}'"
            ),
        )
        for kind in ("fact", "summary", "checkpoint")
    ),
    # WHY: a recall with `known_at` looks for units changed since then, of which there are few.
    Index("unit_changed", "host_id", "bank_id", "update_ts", postgresql_where=text("aggregate_version > 1 and active")),
    # WHY: every recall checks whether units of the bank have expired, and maintenance looks for them; without such
    # units the index is empty and costs nothing.
    Index(
        "unit_expiring",
        "host_id",
        "bank_id",
        "expires_at",
        postgresql_where=text("expires_at is not null and active"),
    ),
    # WHY: a profile counts the facts of a person that ended, by their reasons.
    Index(
        "unit_ended_fact",
        "host_id",
        "bank_id",
        "update_ts",
        postgresql_where=text("origin = 'extraction' and not active and content <> ''"),
    ),
    # WHY: maintenance erases units that expired long ago.
    Index(
        "unit_expired",
        "host_id",
        "bank_id",
        "update_ts",
        postgresql_where=text("expires_at is not null and not active and content <> ''"),
    ),
)

ENTITY = Table(
    "agent_memory_entity_t",
    METADATA,
    Column("host_id", Uuid),
    Column("entity_id", Uuid),
    Column("bank_id", Uuid),
    Column("user_id", Uuid),
    Column("canonical_name", Text, nullable=False),
    #: derived by the projection stage
    Column("mention_count", Integer, nullable=False, server_default=text("0")),
    Column("metadata", JSONB, nullable=False, server_default="{}"),
    *_make_tail(),
    PrimaryKeyConstraint("host_id", "bank_id", "entity_id"),
    _belongs_to(BANK, "host_id", "bank_id"),
)

UNIT_ENTITY = Table(
    "agent_memory_unit_entity_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("unit_id", Uuid, primary_key=True),
    Column("entity_id", Uuid, primary_key=True),
    #: how often the unit mentions the entity
    Column("mentions", Integer, nullable=False, server_default=text("1")),
    #: a tombstone, so that a replayed Linked event does not restore the link
    Column("removed_at", TIME),
    #: derived: co-occurrence and mention counts include this link. A bank's counts have one writer, so this is set by a
    #: second write: together with that of `unit_word_t.posted` 3.6 KB of the 55 KB of WAL of a processed turn. A
    #: separate queue would write and delete a row instead, at about half of that.
    Column("counted", Boolean, nullable=False, server_default=text("false")),
    Column("aggregate_version", BigInteger, nullable=False, server_default=text("1")),
    Column("name", Text),
    Column("kind", Text),
    Column("place", Integer, nullable=False, server_default=text("0")),
    _belongs_to(UNIT, "host_id", "bank_id", "unit_id"),
    _belongs_to(ENTITY, "host_id", "bank_id", "entity_id"),
    # WHY: recall and counting read the units of an entity.
    Index("unit_entity_by_entity", "host_id", "bank_id", "entity_id"),
    # WHY: the projection stage reads the links that are not counted yet; the index is nearly always empty.
    Index("unit_entity_uncounted", "host_id", "bank_id", postgresql_where=text("counted <> (removed_at is null)")),
)

ENTITY_COOCCUR = Table(
    "agent_memory_entity_cooccur_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("entity_id_1", Uuid, primary_key=True),
    Column("entity_id_2", Uuid, primary_key=True),
    Column("cooccur_count", Integer, nullable=False, server_default=text("1")),
    Column("last_cooccurred", TIME, nullable=False),
    CheckConstraint("entity_id_1 < entity_id_2"),
    # WHY: pairs are looked up by their second member as often as by their first.
    Index("cooccur_by_second", "host_id", "bank_id", "entity_id_2"),
)

LINK = Table(
    "agent_memory_link_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("from_unit_id", Uuid, primary_key=True),
    Column("to_unit_id", Uuid, primary_key=True),
    Column("link_type", String(32), primary_key=True),
    Column("weight", Double, nullable=False, server_default=text("1.0")),
    *_make_tail(),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    CheckConstraint("link_type in ('temporal', 'semantic', 'entity', 'causes', 'caused_by', 'enables', 'prevents')"),
    _belongs_to(UNIT, "host_id", "bank_id", "from_unit_id"),
    _belongs_to(UNIT, "host_id", "bank_id", "to_unit_id"),
    # WHY: links are followed in both directions, and forgetting a unit ends the links to it.
    Index("link_by_target", "host_id", "bank_id", "to_unit_id"),
)

DIRECTIVE = Table(
    "agent_memory_directive_t",
    METADATA,
    Column("host_id", Uuid),
    Column("directive_id", Uuid),
    Column("bank_id", Uuid),
    Column("name", String(256), nullable=False),
    Column("content", Text, nullable=False),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    *_make_tail(),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("laid_down_by", Text),
    PrimaryKeyConstraint("host_id", "bank_id", "directive_id"),
    _belongs_to(BANK, "host_id", "bank_id"),
)

#: A reflection's vectors are in unit_vector_t under the reflection's id, so that one search covers both.
REFLECTION = Table(
    "agent_memory_reflection_t",
    METADATA,
    Column("host_id", Uuid),
    Column("reflection_id", Uuid),
    Column("bank_id", Uuid),
    Column("content", Text, nullable=False),
    *_make_tail(),
    PrimaryKeyConstraint("host_id", "bank_id", "reflection_id"),
    _belongs_to(BANK, "host_id", "bank_id"),
)

SESSION_HISTORY = Table(
    "agent_session_history_t",
    METADATA,
    Column("host_id", Uuid),
    Column("session_id", Uuid),
    Column("bank_id", Uuid),
    Column("metadata", JSONB, nullable=False, server_default="{}"),
    Column("session_name", Text),
    Column("message_count", Integer, nullable=False, server_default=text("0")),
    Column("turn_count", Integer, nullable=False, server_default=text("0")),
    Column("last_position", BigInteger, nullable=False),
    *_make_tail(),
    Column("first_seq", Integer, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("host_id", "bank_id", "session_id"),
    _belongs_to(BANK, "host_id", "bank_id"),
)

#: Messages of a session history that are not units: the summary of a compaction, a restored history.
SESSION_MESSAGE = Table(
    "session_message_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("session_id", Uuid, primary_key=True),
    #: the message's number within its session, as in the unit table
    Column("seq", Integer, primary_key=True),
    Column("message", JSONB, nullable=False),
    _belongs_to(SESSION_HISTORY, "host_id", "bank_id", "session_id"),
)

#: What sessions are about: the digest of their messages (store/text/session_digest.py), made as they grow.
SESSION_DIGEST = Table(
    "session_digest_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("session_id", Uuid, primary_key=True),
    #: messages with a lower number are read
    Column("next_seq", Integer, nullable=False, server_default=text("0")),
    Column("entries", JSONB, nullable=False, server_default="[]"),
)

# Turns and work ------------------------------------------------------------------------------------------------------

#: One row per accepted turn: it makes a second acceptance a duplicate, or a conflict if the body differs.
TURN = Table(
    "turn_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("turn_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, nullable=False),
    Column("session_id", Uuid, nullable=False),
    Column("user_id", Uuid, nullable=False),
    #: HMAC of the body with the tenant's key
    Column("digest", LargeBinary, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("accepted_at", TIME, nullable=False),
    Column("ended", JSONB),
    # WHY: reads report the highest position of a bank.
    Index("turn_by_bank", "host_id", "bank_id", "position"),
)

#: Positions of the log, over all tenants; gaps have no meaning.
LOG_POSITION = Sequence("log_position_seq", metadata=METADATA, data_type=BigInteger)
#: Epochs of claims, each used once.
CLAIM_EPOCH = Sequence("claim_epoch_seq", metadata=METADATA, data_type=BigInteger)

#: The only form in which a traceparent is stored.
TRACEPARENT = "traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-01$'"

#: The ledger: undone work, and the outcome of all work.
LEDGER = Table(
    "ledger_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("stage", Text, primary_key=True),
    #: id of the turn, or of a follow-up that a stage opened
    Column("item_id", Uuid, primary_key=True),
    #: the unit of claiming: session, bank, or the item itself
    Column("stream_id", Uuid, nullable=False),
    Column("bank_id", Uuid, nullable=False),
    Column("session_id", Uuid, nullable=False),
    Column("turn_id", Uuid, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("status", Text, nullable=False, server_default="pending"),
    Column(
        "undone",
        Boolean,
        Computed("status in ('pending', 'running', 'adding', 'added', 'flushing')", persisted=True),
        nullable=False,
    ),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("error_category", Text),
    Column("error_reason", Text),
    Column("next_attempt_at", TIME, nullable=False, server_default=func.now()),
    Column("accepted_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False, server_default=func.now()),
    Column(
        "failed_at",
        TIME,
        Computed(
            "case when status in ('dead', 'unknown', 'add_failed', 'add_unknown', 'flush_failed') then updated_at end",
            persisted=True,
        ),
    ),
    Column("target_id", Uuid),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    #: W3C traceparent of the turn's request; null when tracing was off
    Column("traceparent", Text),
    CheckConstraint(TRACEPARENT),
    CheckConstraint(
        "status in ('pending', 'running', 'done', 'skipped', 'unknown', 'dead', "
        "'adding', 'added', 'flushing', 'flushed', 'add_failed', 'add_unknown', 'flush_failed')"
    ),
    #: every upgrade recreates this constraint from the registry of stages (`afterturn.set_stages`)
    CheckConstraint(column("stage").in_([stage.value for stage in STAGES])),
    # WHY: workers read the head of a stream, the rows before a row in its stream, and step from stream to stream.
    Index(
        "ledger_stream",
        "stage",
        "host_id",
        "stream_id",
        "position",
        postgresql_where=text("undone and next_attempt_at < 'infinity'"),
    ),
    # WHY: freshness reads the first undone position of a bank and stage.
    Index("ledger_bank", "host_id", "bank_id", "stage", "position", postgresql_where=text("undone")),
    # WHY: the status of a turn is read.
    Index("ledger_turn", "host_id", "turn_id"),
    # WHY: tenants take turns when work is claimed, so a worker reads the oldest and the newest work of a tenant and
    # stage, and the next tenant; rows that are done, or wait for another stage, are not in the index.
    Index(
        "ledger_ready_by_host",
        "stage",
        "host_id",
        "position",
        postgresql_where=text("undone and next_attempt_at < 'infinity'"),
    ),
    # WHY: operators look at failures, which should be few. WHY a column of its own: a delivery's row is updated five
    # times, and an update stays within its page, without touching indexes, only if it changes no indexed column; a
    # successful row never sets `failed_at`.
    Index("ledger_failed", "stage", "failed_at", postgresql_where=text("failed_at is not null")),
    # WHY: deliveries that wait for a target are read when it is unset or does not answer.
    Index("ledger_target", "host_id", "target_id", postgresql_where=text("undone and target_id is not null")),
    postgresql_with={"fillfactor": "70"},
)

#: The claims of streams that workers are processing. Epochs are never reused, so a claim can be deleted when its work
#: is done, and a worker that finishes late still notices that it has lost its claim.
CLAIM = Table(
    "claim_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("stream_id", Uuid, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("lease_until", TIME, nullable=False),
    Column("worker", Text, nullable=False),
    postgresql_with={"fillfactor": "50", "autovacuum_vacuum_scale_factor": "0.0", "autovacuum_vacuum_threshold": "500"},
)

#: Numbers of pruned turns by stage and final status, so that the ledger's counts do not change when it is pruned.
PRUNED_TURNS = Table(
    "pruned_turns_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("status", Text, primary_key=True),
    Column("turns", BigInteger, nullable=False),
    postgresql_with={"fillfactor": "50"},
)

#: The versions of extractors that have read a turn, beyond the rules' first reading. Written together with the
#: findings, so that each version reads a turn once even after the ledger is pruned: a model's answers vary.
READING = Table(
    "reading_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("turn_id", Uuid, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("bank_id", Uuid, nullable=False),
    Column("read_at", TIME, nullable=False, server_default=func.now()),
)

RECALL_JOB = Table(
    "recall_job_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("job_id", Uuid, primary_key=True),
    Column("request", JSONB, nullable=False),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("result", JSONB),
    Column("error_category", Text),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("lease_until", TIME),
    Column("created_at", TIME, nullable=False, server_default=func.now()),
    Column("expires_at", TIME, nullable=False),
    Column(
        "bytes",
        BigInteger,
        Computed(
            "case when error_category is distinct from 'expired' "
            "then octet_length(request::text) + coalesce(octet_length(result::text), 0) else 0 end",
            persisted=True,
        ),
        nullable=False,
    ),
    #: W3C traceparent of the request that created the job; null when tracing was off
    Column("traceparent", Text),
    CheckConstraint(TRACEPARENT),
    CheckConstraint("status in ('pending', 'running', 'done', 'failed')"),
    # WHY: the sweeper deletes expired jobs and notifies workers of waiting ones.
    Index("recall_job_expiry", "expires_at"),
    # WHY: before a job is created, its tenant's existing jobs are counted.
    Index("recall_job_of_host", "host_id", "expires_at"),
)

#: Turns prepared by memory_run_turn that wait for their output, up to an hour. They are outside the log, which gets a
#: turn together with its output.
OPEN_TURN = Table(
    "open_turn_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("token_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, nullable=False),
    #: key that signs only this row's token
    Column("mac_key", LargeBinary, nullable=False),
    #: JSON of the request; only its bank, session and turn once the turn is stored
    Column("request", Text, nullable=False),
    Column("kept", Boolean, nullable=False, server_default=text("false")),
    #: MAC of the output with which the token was first used
    Column("output_mac", LargeBinary),
    Column("expires_at", TIME, nullable=False),
    #: whose turn it will be; null: opened by code that did not note it
    Column("user_id", Uuid),
    # WHY: expired rows are deleted.
    Index("open_turn_expiry", "expires_at"),
    # WHY: before a turn is opened, its tenant's open turns are counted.
    Index("open_turn_of_host", "host_id", "expires_at"),
)

#: Erasures: target, progress and receipt, which consist of ids, counts and names of gateway sessions.
ERASURE = Table(
    "erasure_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("erasure_id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    #: null: the erasure of a user in all banks
    Column("bank_id", Uuid),
    Column("target_id", Uuid, nullable=False),
    #: last log position that is erased; for kind `ended` the time until which units ended, in microseconds since 1970
    Column("upto", BigInteger, nullable=False),
    #: log position up to which the erasure has come
    Column("reached", BigInteger, nullable=False, server_default=text("0")),
    Column("status", Text, nullable=False, server_default="running"),
    Column("counts", JSONB, nullable=False, server_default="{}"),
    #: gateway sessions that had received erased turns, each with the number of turns
    Column("delivered", JSONB, nullable=False, server_default="{}"),
    Column("requested_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("finished_at", TIME),
    Column("parent_id", Uuid),
    CheckConstraint("status in ('running', 'done')"),
    CheckConstraint("kind in ('unit', 'session', 'user', 'bank', 'age', 'ended', 'document', 'directive', 'memory')"),
    # WHY: an erasure that is requested again while it runs continues instead of starting twice; the sweeper reads only
    # running ones.
    Index("erasure_running", "host_id", "target_id", "kind", unique=True, postgresql_where=text("status = 'running'")),
    # Kind `age` erases a bank's old turns up to the position `upto`. WHY: the next such erasure begins where the last
    # one ended.
    Index("erasure_by_age", "host_id", "bank_id", "upto", postgresql_where=text("kind = 'age'")),
    # WHY: every write of a call asks whether its target was erased since the call began.
    Index(
        "erasure_marks",
        "host_id",
        "target_id",
        postgresql_where=text("kind in ('user', 'session', 'bank', 'document', 'memory')"),
    ),
    # WHY: the erasure of a user has a part for each bank, whose results are summed up.
    Index("erasure_parts", "host_id", "parent_id", postgresql_where=text("parent_id is not null")),
)

#: Snapshots of a tenant's log, made or taken in: what each held, how far it came, and its counts; no content.
SNAPSHOT = Table(
    "snapshot_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("snapshot_id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="running"),
    #: the parts that it holds, by the names of the policy (store/snapshot/policy.py)
    Column("parts", ARRAY(Text), nullable=False),
    #: ids of the banks that it holds; null: every bank
    Column("banks", ARRAY(Uuid)),
    Column("masked", Boolean, nullable=False, server_default=text("false")),
    #: whether an operator overrode that production exports no history
    Column("overridden", Boolean, nullable=False, server_default=text("false")),
    #: whether an import only checks
    Column("dry_run", Boolean, nullable=False, server_default=text("false")),
    #: of an import: the snapshot that is taken in, and the tenant that it is of
    Column("source_id", Uuid),
    Column("source_host", Uuid),
    #: of an import: whether the digests of turns were made with this tenant's key
    Column("keeps_digests", Boolean, nullable=False, server_default=text("false")),
    #: of an export: the log below this commit and up to this position
    Column("xid", Xid8),
    Column("head", BigInteger, nullable=False, server_default=text("0")),
    #: of an export: the last position that was read; of an import: the number of events that were taken
    Column("place", BigInteger, nullable=False, server_default=text("0")),
    Column("counts", JSONB, nullable=False, server_default="{}"),
    #: the key of an export's marks; null once it is done
    Column("mark_key", LargeBinary),
    #: the operator's account, or the label of the operator's key
    Column("made_by", Text, nullable=False),
    Column("started_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("finished_at", TIME),
    #: of an import: the mapping of its ids (imported_id_t); null: they stay
    Column("mapping_id", Uuid),
    CheckConstraint("kind in ('export', 'import')"),
    CheckConstraint("status in ('running', 'deriving', 'done')"),
)

IMPORTED_ID = Table(
    "imported_id_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    #: the source's tenant under some rules (store/snapshot/replacements.py)
    Column("mapping_id", Uuid, primary_key=True),
    #: an id of the source, and the one that this tenant has in its place
    Column("old_id", Uuid, primary_key=True),
    Column("new_id", Uuid, nullable=False),
    Index("imported_id_new", "host_id", "mapping_id", "new_id"),
)

#: Audit of calls to external services: target and outcome, without content.
AUDIT_EVENT = Table(
    "audit_event_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("audit_id", BigInteger, Identity(always=True), primary_key=True),
    Column("event", Text, nullable=False),
    Column("bank_id", Uuid),
    Column("session_id", Uuid),
    Column("turn_id", Uuid),
    Column("payload", JSONB, nullable=False, server_default="{}"),
    Column("at", TIME, nullable=False, server_default=func.now()),
    # WHY: the events of a turn are read: calls to its gateway, and changes by operators.
    Index("audit_by_turn", "host_id", "turn_id", postgresql_where=text("turn_id is not null")),
)

#: Audit of API calls: interface, key, operation, duration and outcome. Names, ids and codes only: no content, no names
#: of sessions or banks. A call without a valid key has no tenant (the nil UUID).
CALL_AUDIT = Table(
    "call_audit_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("call_id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", TIME, nullable=False),
    Column("door", Text, nullable=False),
    Column("key_id", Uuid),
    #: the account that ran an operator's command
    Column("actor", Text),
    #: a route's template or a command's name, without parameter values
    Column("operation", Text, nullable=False),
    #: HTTP status
    Column("status", Integer),
    #: error code of a refused call
    Column("code", Text),
    Column("took_ms", REAL, nullable=False),
    #: the id that is also in the process's log
    Column("request_id", Uuid),
    #: number of rows that an operator's command changed
    Column("rows", BigInteger),
    CheckConstraint("door in ('http', 'gateway', 'mcp', 'operator', 'console')"),
    # WHY: calls are listed newest first, and pruned by age.
    Index("call_audit_by_time", "at"),
)

# Derived state -------------------------------------------------------------------------------------------------------

UNIT_WORD = Table(
    "unit_word_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("unit_id", Uuid, primary_key=True),
    Column("session_id", Uuid),
    Column("seq", Integer),
    #: number of words without stop words
    Column("length", Integer, nullable=False),
    #: {term: number of occurrences}
    Column("terms", JSONB, nullable=False),
    #: whether its postings are written and counted; set by a second write, like `agent_memory_unit_entity_t.counted`
    Column("posted", Boolean, nullable=False, server_default=text("false")),
    # WHY: recall reads the units that are not in posting_t yet, and the projection stage processes them.
    Index("unit_word_waiting", "host_id", "bank_id", postgresql_where=text("not posted")),
)

#: The words of units. WHY equality on a plain table: text search operators are not leakproof, so row-level security
#: would prevent the planner from using their index.
POSTING = Table(
    "posting_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("term", Text, primary_key=True),
    Column("unit_id", Uuid, primary_key=True),
    Column("session_id", Uuid),
    Column("seq", Integer),
    Column("tf", Integer, nullable=False),
    Column("length", Integer, nullable=False),
)

#: Number of units of a bank that contain a term; derived by the projection stage.
TERM = Table(
    "term_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("term", Text, primary_key=True),
    Column("df", BigInteger, nullable=False),
    postgresql_with={"fillfactor": "80"},
)

BANK_STATISTICS = Table(
    "bank_statistics_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("units", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)

#: How a bank's words are analysed, if not by the default rules. The language itself is an event of the bank; this row
#: records how far the stored words follow it. No row: all words are analysed by the default rules.
BANK_LANGUAGE = Table(
    "bank_language_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    #: language of new words and of questions
    Column("language", Text, nullable=False),
    #: language of words that are not analysed anew yet; null: there are none
    Column("former", Text),
    #: id of the last unit that was analysed anew
    Column("place", Uuid),
    Column("changed_at", TIME, nullable=False),
    # WHY: maintenance looks over all tenants for banks whose words must be analysed anew.
    Index("bank_language_undone", "changed_at", postgresql_where=text("former is not null")),
)

#: Vectors are inserted and never updated, so indexes get no dead tuples. Those of several models coexist: vectors of
#: one generation have its dimension (GENERATION), and an index of their own.
UNIT_VECTOR = Table(
    "unit_vector_t",
    METADATA,
    Column("host_id", Uuid),
    Column("bank_id", Uuid),
    Column("unit_id", Uuid),
    Column("chunk", SmallInteger),
    Column("generation", SmallInteger),
    Column("embedding", HalfVector(), nullable=False),
    PrimaryKeyConstraint("host_id", "bank_id", "generation", "unit_id", "chunk"),
    postgresql_partition_by="HASH (bank_id)",
)

#: Counts of an entity's mentions by name and kind; '' when the mention has none.
ENTITY_NAME = Table(
    "entity_name_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("entity_id", Uuid, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("mentions", Integer, nullable=False),
    postgresql_with={"fillfactor": "80"},
)

#: The name and kind of each mentioned entity, and the entity that it is an alias of (otherwise itself).
ENTITY_PROFILE = Table(
    "entity_profile_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("entity_id", Uuid, primary_key=True),
    Column("canonical_id", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    #: the name without case and accents
    Column("folded", Text, nullable=False),
    #: the first word of the name; only entities with the same stem can be aliases
    Column("stem", Text, nullable=False),
    Column("mentions", Integer, nullable=False),
    # WHY: a changed entity is compared with those of the same stem.
    Index("profile_by_stem", "host_id", "bank_id", "stem"),
    # WHY: the units of an entity include those of its aliases.
    Index("profile_by_canonical", "host_id", "bank_id", "canonical_id"),
    postgresql_with={"fillfactor": "80"},
)

#: How the subject of a fact looks that is the id of a user, as a pattern of SQL.
ID_LIKE = "________-____-____-____-____________"
#: Facts extracted from turns. A fact is valid until another value of the same subject and key is stated.
FACT = Table(
    "fact_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("unit_id", Uuid, primary_key=True),
    Column("subject", Text, nullable=False),
    Column("fact_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("valid_from", TIME, nullable=False),
    Column("valid_to", TIME),
    Column("superseded_by", Uuid),
    Column("said", BigInteger, nullable=False, server_default=text("0")),
    #: a denial: it holds for no time and ends the facts before it that have its value
    Column("denied", Boolean, nullable=False, server_default=text("false")),
    #: what confidence and tier add to the fact's score
    Column("weight", Double, nullable=False, server_default=text("0")),
    #: of a fact that holds: the next one that says the same
    Column("consolidated_by", Uuid),
    # WHY: a new fact is ordered among those of its subject and key.
    Index("fact_by_identity", "host_id", "bank_id", "fact_id", "subject", "key"),
    # WHY: a person's facts in a bank are read by the person's name.
    Index("fact_by_subject", "host_id", "bank_id", "subject"),
    # WHY: every prepared turn reads the newest valid facts among very many.
    Index(
        "fact_holding",
        "host_id",
        "bank_id",
        text("valid_from desc"),
        text("position desc"),
        postgresql_where=text("valid_to is null"),
    ),
    # WHY: maintenance looks for facts that are consolidated, and the end of a fact frees those that it consolidated.
    Index(
        "fact_consolidated",
        "host_id",
        "bank_id",
        "consolidated_by",
        postgresql_where=text("consolidated_by is not null"),
    ),
    # WHY: each new fact of a kind reads the newest of its kind and subject, of which there may be very many.
    Index(
        "fact_of_kind",
        "host_id",
        "bank_id",
        "fact_id",
        "subject",
        text("valid_from desc"),
        text("said desc"),
        text("position desc"),
        text("unit_id desc"),
        postgresql_where=text("valid_to is null"),
    ),
    # WHY: a user's question is answered by the own facts and by those of named subjects, which may be few of very many;
    # another one by the newest of both. Each index gives its facts newest first.
    *(
        Index(
            name,
            "host_id",
            "bank_id",
            "fact_id",
            text("valid_from desc"),
            text("position desc"),
            postgresql_where=text(f"valid_to is null and not denied and subject {is_like} '{ID_LIKE}'"),
        )
        for name, is_like in (("fact_of_named", "not like"), ("fact_of_users", "like"))
    ),
)

#: Units that ended, or whose text changed, since the projection stage last ran, to be subtracted from its counts.
FORGOTTEN_UNIT = Table(
    "forgotten_unit_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("nth", BigInteger, Identity(always=True), primary_key=True),
    Column("unit_id", Uuid, nullable=False),
    Column("terms", ARRAY(Text), nullable=False),
    #: 1: the unit ended; 0: its text changed
    Column("units", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)

#: Entities whose names changed without a new or removed mention.
STALE_ENTITY = Table(
    "stale_entity_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("entity_id", Uuid, primary_key=True),
)

# Of no tenant --------------------------------------------------------------------------------------------------------

#: The PostgreSQL cluster from which the log's xids come; in another one, after the restore of a dump, they have no
#: meaning. One row for the whole database, beside the schema's version.
CLUSTER = Table(
    "afterturn_cluster",
    METADATA,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("system_identifier", BigInteger, nullable=False),
    CheckConstraint("one"),
    schema="public",
)

#: Operators' keys, which have no tenant; like tenants' keys they are looked up by their hash.
OPERATOR_KEY = Table(
    "afterturn_operator_key",
    METADATA,
    Column("key_id", Uuid, primary_key=True),
    Column("key_hash", LargeBinary, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=func.now()),
    Column("expires_at", TIME),
    Column("revoked_at", TIME),
    #: whether it may make and rotate keys of tenants, which read content
    Column("makes_keys", Boolean, nullable=False, server_default=text("false")),
    UniqueConstraint("key_hash"),
    schema="public",
)

#: Sessions of the console and one-time links into it, by digest; only functions of the owner read and write them.
CONSOLE_SESSION = Table(
    "afterturn_console_session",
    METADATA,
    #: of a session: SHA-256 over both halves of its secret, of which the browser keeps one in a cookie
    Column("secret_hash", LargeBinary, primary_key=True),
    #: a link opens one session and is deleted with that
    Column("is_link", Boolean, nullable=False),
    #: the tenant's key that was shown; null: only an operator's was
    Column("key_id", Uuid),
    #: the operator's key that was shown; null: only a tenant's was
    Column("operator_key_id", Uuid),
    Column("created_at", TIME, nullable=False, server_default=func.now()),
    #: time of the last call, to the minute
    Column("seen_at", TIME, nullable=False, server_default=func.now()),
    CheckConstraint("coalesce(key_id, operator_key_id) is not null"),
    # WHY: ended sessions are deleted when another one begins.
    Index("console_sessions_by_time", "seen_at"),
    schema="public",
)

#: The worker processes; each refreshes its own row by heartbeats.
WORKER = Table(
    "afterturn_worker",
    METADATA,
    Column("worker", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("stages", ARRAY(Text), nullable=False),
    Column("started_at", TIME, nullable=False, server_default=func.now()),
    Column("seen_at", TIME, nullable=False, server_default=func.now()),
    Column("state", Text, nullable=False, server_default="working"),
    #: the sentence model that its settings name, and that model's generation
    Column("model", Text),
    Column("generation", SmallInteger),
    CheckConstraint("state in ('working', 'draining', 'drained')"),
    schema="public",
    postgresql_with={"fillfactor": "50"},
)

#: When each maintenance task runs next, and which worker runs it now. For all tenants, so it is in `public`.
MAINTENANCE = Table(
    "afterturn_maintenance",
    METADATA,
    Column("task", Text, primary_key=True),
    #: fencing token, which increases with each run
    Column("run", BigInteger, nullable=False, server_default=text("0")),
    Column("next_run", TIME, nullable=False, server_default="-infinity"),
    Column("lease_until", TIME),
    Column("worker", Text),
    #: where the next run continues after an interrupted one
    Column("place", Text),
    Column("started_at", TIME),
    Column("ended_at", TIME),
    Column("outcome", Text),
    #: number of removed rows over all runs
    Column("removed", BigInteger, nullable=False, server_default=text("0")),
    schema="public",
    postgresql_with={"fillfactor": "50"},
)

#: Circuit breaker and rate limit of each external service, shared by all tenants.
GATE = Table(
    "afterturn_gate",
    METADATA,
    #: kind of service, and a digest of its address and account
    Column("gate", Text, primary_key=True),
    #: consecutive failed calls
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("shut_until", TIME, nullable=False, server_default="-infinity"),
    #: tokens in the rate limit's bucket; null: not called yet, the bucket is full
    Column("tokens", Double),
    Column("filled_at", TIME, nullable=False, server_default=func.now()),
    schema="public",
    postgresql_with={"fillfactor": "50"},
)

#: External models and their machines, whose copies an erasure cannot reach. Written at the start of a process that may
#: call them; holds no tenant and no content.
OUTSIDE_MODEL = Table(
    "afterturn_outside_model",
    METADATA,
    #: embedding, extraction
    Column("purpose", Text, primary_key=True),
    #: generation of vectors, or version of an extractor
    Column("name", Text, primary_key=True),
    #: the machine's name
    Column("endpoint", Text, primary_key=True),
    Column("first_used", TIME, nullable=False, server_default=func.now()),
    schema="public",
)

#: Generations of vectors: the sentence models whose vectors are stored. Recall compares those of the live one alone,
#: and readers of the schema hindsight see no others. The first process of a deployment makes its model live; later only
#: an operator's command does. Holds no tenant and no content.
GENERATION = Table(
    "afterturn_generation",
    METADATA,
    Column("generation", SmallInteger, primary_key=True, autoincrement=False),
    #: the model's name, for people to read
    Column("model", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    #: live, building, retired, dropping
    Column("state", Text, nullable=False),
    #: when the state began
    Column("since", TIME, nullable=False, server_default=func.now()),
    #: the setting that names the model: embedding.model or embedding.remote.model
    Column("source", Text, nullable=False, server_default=text("''")),
    #: how far a pass over all stored texts has come: tenant, bank, position in its log, and vectors written by it
    Column("at_host", Uuid),
    Column("at_bank", Uuid),
    Column("at_position", BigInteger, nullable=False, server_default=text("0")),
    Column("vectors", BigInteger, nullable=False, server_default=text("0")),
    #: a text was written without a vector of this generation since the pass began: another pass is needed
    Column("behind", Boolean, nullable=False, server_default=text("false")),
    #: when a pass ended; null: texts may have no vector of this generation
    Column("complete_at", TIME),
    #: share of tenants, banks and log that the pass has gone through, from 0 to 1
    Column("share", Double, nullable=False, server_default=text("0")),
    CheckConstraint("generation > 0"),
    CheckConstraint("dimension between 1 and 4000"),
    CheckConstraint("state in ('live', 'building', 'retired', 'dropping')"),
    # WHY: one generation is live, and one is built at a time.
    Index("afterturn_generation_live", "state", unique=True, postgresql_where=text("state = 'live'")),
    Index("afterturn_generation_building", "state", unique=True, postgresql_where=text("state = 'building'")),
    schema="public",
)


def in_bank(rows: FromClause) -> ColumnElement[bool]:
    """Return the condition that rows of a table, or of its alias, belong to the bank `:bank` of `:host`."""
    return and_(rows.c.host_id == bindparam("host"), rows.c.bank_id == bindparam("bank"))


def same_bank(one: FromClause, other: FromClause, *names: str) -> ColumnElement[bool]:
    """Return the condition that two rows belong to the same bank, and are equal in these columns."""
    return and_(*(one.c[name] == other.c[name] for name in ("host_id", "bank_id", *names)))
