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
    """Name the row of `parent` by its primary key: what belongs to it goes with it."""
    return ForeignKeyConstraint(columns, list(parent.primary_key), ondelete="CASCADE")


def _make_tail() -> tuple[Column[int], Column[bool], Column[object], Column[str]]:
    """Return the columns that end each projection of the seed: which version, whether it lives, since when, by whom."""
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
    #: unique: a key is looked up by its hash, in one probe
    Column("key_hash", LargeBinary, nullable=False),
    Column("label", Text, nullable=False),
    #: null: every bank of the tenant; empty: none
    Column("banks", ARRAY(Text)),
    Column("can_write", Boolean, nullable=False, server_default=text("true")),
    #: set: a user's key of the gateway's `/memories/*`, nothing else
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

#: What the operator allows a tenant, or one of its banks, and how much of it is used. A limit that is null is none.
QUOTA = Table(
    "quota_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    #: the tenant itself, or a bank
    Column("scope_id", Uuid, primary_key=True),
    #: null: the tenant
    Column("bank_name", Text),
    Column("max_turns", BigInteger),
    Column("max_bytes", BigInteger),
    Column("max_banks", BigInteger),
    Column("turns_per_minute", BigInteger),
    Column("turns", BigInteger, nullable=False, server_default=text("0")),
    #: of messages, UTF-8
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

#: To which Memory Gateway the turns of a tenant, or of one bank of it, are handed: what an operator set. A delivery
#: keeps the target it was opened for, so what is under way is never sent anywhere else.
GATEWAY_TARGET = Table(
    "gateway_target_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("target_id", Uuid, primary_key=True),
    #: null: every bank of the tenant without a target of its own
    Column("bank_id", Uuid),
    #: null: this service itself (`--gateway self`)
    Column("base_url", Text),
    #: the gateway's user, application and project
    Column("user_id", Text, nullable=False),
    Column("app_id", Text, nullable=False),
    Column("project_id", Text, nullable=False),
    #: where a recall through the gateway looks
    Column("scope", ARRAY(Text), nullable=False),
    #: the user's key, sealed (store/tenancy/sealing.py); null: the settings hold it
    Column("sealed_key", Text),
    Column("of_settings", Boolean, nullable=False, server_default=text("false")),
    Column("set_at", TIME, nullable=False, server_default=func.now()),
    #: another took its place; what was opened for it still goes to it
    Column("replaced_at", TIME),
    #: nothing goes to it any more, and its key is forgotten
    Column("unset_at", TIME),
    # WHY: one target is in force for a tenant, and one for each bank; every append looks here.
    Index(
        "gateway_target_in_force",
        "host_id",
        text("coalesce(bank_id, host_id)"),
        unique=True,
        postgresql_where=text("replaced_at is null and unset_at is null"),
    ),
    # WHY: a gateway's user holds the memory of one tenant or bank, for good: sessions of two would merge there, and a
    # recall of one would find what the other said. Over all tenants, so it does not begin with it.
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
    #: JSON, digit for digit as it came
    Column("metadata", Text),
    Column("created_at", TIME, nullable=False),
    #: it is being deleted: its memories end, then this row goes
    Column("ending", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("kind in ('workspace', 'team', 'org', 'custom')"),
)

#: Vectors that callers of the memory plugin bring, of unit length. Originals outside the log: nothing makes them again.
#: A memory's metadata hold the digest of its vector, so that one written for another version of it is never read.
PLUGIN_VECTOR = Table(
    "plugin_vector_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    #: of the memory (store/memory/memories.py)
    Column("session_id", Uuid, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("dimension", Integer, nullable=False),
    #: what the vector's length was
    Column("norm", Double, nullable=False),
    Column("embedding", VECTOR, nullable=False),
    Column("written_at", TIME, nullable=False),
    CheckConstraint("dimension between 1 and 4096"),
    CheckConstraint("public.vector_dims(embedding) = dimension"),
    # WHY: a search reads the vectors of its dimension alone.
    Index("plugin_vector_of_dimension", "host_id", "bank_id", "dimension"),
)

# The event log -------------------------------------------------------------------------------------------------------

EVENT_STORE = Table(
    "event_store_t",
    METADATA,
    Column("id", Uuid, nullable=False),
    Column("host_id", Uuid, primary_key=True),
    Column("user_id", Uuid, nullable=False),
    #: of the aggregate's id what follows host and bank; empty: the bank itself
    Column("aggregate_key", String(255), nullable=False),
    Column("aggregate_version", BigInteger, nullable=False, server_default=text("1")),
    Column("aggregate_type", String(255), nullable=False),
    Column("event_type", String(255), nullable=False),
    Column("event_ts", TIME, nullable=False),
    #: extension attributes of the envelope, and its source where that is not this service
    Column("metadata", JSONB),
    Column("bank_id", Uuid, nullable=False),
    Column("position", BigInteger, primary_key=True),
    Column("xid", Xid8, nullable=False, server_default=text("pg_current_xact_id()")),
    #: of the envelope, without what is a column: host, bank and versions
    Column("data", JSONB, nullable=False),
    #: an event offered twice is one event
    UniqueConstraint("host_id", "id"),
    #: optimistic concurrency
    UniqueConstraint("host_id", "bank_id", "aggregate_key", "aggregate_version"),
    # WHY: what a user wrote is found by the user, in the order of the log.
    Index("log_by_user", "host_id", "user_id", "position"),
    # WHY: readers follow the order of commits, which positions alone do not show.
    Index("log_by_commit", "host_id", "xid", "position"),
)

#: How far a subscription has read; written in the transaction of what it made of it.
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
    #: from then on nothing of it is in any answer
    Column("expires_at", TIME),
    # WHY: maintenance looks for banks that have ended; few ever do.
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
    #: sha256 of the text, hexadecimal; not unique, as in the seed
    Column("content_hash", Text),
    *_make_tail(),
    Column("title", Text),
    Column("metadata", JSONB, nullable=False, server_default="{}"),
    Column("occurred_at", TIME),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("host_id", "bank_id", "doc_id"),
    _belongs_to(BANK, "host_id", "bank_id"),
    # WHY: the same file ingested again is found by its hash.
    Index("doc_by_hash", "host_id", "bank_id", "content_hash"),
    # WHY: the documents of a bank are listed page by page, those written last first.
    Index(
        "doc_by_time",
        "host_id",
        "bank_id",
        text("update_ts desc"),
        text("doc_id desc"),
        postgresql_where=text("active"),
    ),
)

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
    #: of the event that retained it
    Column("position", BigInteger, nullable=False),
    *_make_tail(),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    #: from then on it is in no answer
    Column("expires_at", TIME),
    PrimaryKeyConstraint("host_id", "bank_id", "unit_id"),
    CheckConstraint("fact_type in ('world', 'experience', 'opinion', 'observation', 'mental_model')"),
    CheckConstraint("origin in ('message', 'extraction', 'document', 'memory')"),
    _belongs_to(BANK, "host_id", "bank_id"),
    _belongs_to(DOC, "host_id", "bank_id", "doc_id"),
    # WHY: a hit's neighbours in its session, and the newest messages of a session.
    Index("unit_by_session", "host_id", "bank_id", "session_id", "seq", postgresql_where=text("seq is not null")),
    # WHY: the stages read the units of a turn.
    Index("unit_by_turn", "host_id", "bank_id", "turn_id"),
    # WHY: a question that names a time looks for what was said then.
    Index(
        "unit_by_time",
        "host_id",
        "bank_id",
        func.coalesce(column("occurred_start"), column("event_date")),
        postgresql_where=text("active"),
    ),
    # A unit belongs to its document, when it has one. WHY: forgetting a document forgets its units.
    Index("unit_by_doc", "host_id", "bank_id", "doc_id", postgresql_where=text("doc_id is not null")),
    # WHY: the facts of a user's turns are found across all banks. Partial: messages cost nothing.
    Index("unit_of_user", "host_id", "user_id", postgresql_where=text("origin = 'extraction' and active")),
    # WHY: users of a tenant are listed from one to the next; equal entries of a user are kept once.
    Index("unit_by_user", "host_id", "user_id", "bank_id", postgresql_where=text("active")),
    # WHY the position: each turn's facts are linked to the last one before them, which would otherwise be looked for
    # among all facts of the session, again at every turn.
    Index(
        "unit_other_by_session", "host_id", "bank_id", "session_id", "position", postgresql_where=text("seq is null")
    ),
    # WHY: every recall asks what is pinned; where nothing is, it is empty, and costs nothing.
    Index(
        "unit_pinned",
        "host_id",
        "bank_id",
        "position",
        postgresql_where=text("metadata->>'pinned' = 'true' and active"),
    ),
    # WHY: the memory plugin reads the memories of a bank beside very many facts, and lists a page of very many: the
    # pinned ones, then all, each in this order. WHY two: a pin within one index would be no condition of it, since a
    # policy of rows hides what a function of their columns tells.
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
    # WHY: a search for memories of a rare kind reads these alone. WHY one for each: as above.
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
    # WHY: a recall of what was known at a moment looks for what was changed since; few units ever are.
    Index("unit_changed", "host_id", "bank_id", "update_ts", postgresql_where=text("aggregate_version > 1 and active")),
    # WHY: every recall asks whether something of the bank has ended, and maintenance what has; where nothing has an end
    # they are empty, and cost nothing.
    Index(
        "unit_expiring",
        "host_id",
        "bank_id",
        "expires_at",
        postgresql_where=text("expires_at is not null and active"),
    ),
    # WHY: what ended long ago is erased.
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
    #: derived: the projection stage counts
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
    #: how often the unit names the entity
    Column("mentions", Integer, nullable=False, server_default=text("1")),
    #: the tombstone: a replayed Linked must not bring the link back
    Column("removed_at", TIME),
    #: derived: co-occurrence and mention counts hold this link. A bank has one writer of its counts, so this is set by
    #: a second write: with that of `unit_word_t.posted` 3.6 KB of the 55 KB of WAL that a worked-off turn takes. A
    #: queue beside the rows would write and delete a row of its own, about half of that.
    Column("counted", Boolean, nullable=False, server_default=text("false")),
    Column("aggregate_version", BigInteger, nullable=False, server_default=text("1")),
    Column("name", Text),
    Column("kind", Text),
    Column("place", Integer, nullable=False, server_default=text("0")),
    _belongs_to(UNIT, "host_id", "bank_id", "unit_id"),
    _belongs_to(ENTITY, "host_id", "bank_id", "entity_id"),
    # WHY: units of an entity, for recall and for counting.
    Index("unit_entity_by_entity", "host_id", "bank_id", "entity_id"),
    # WHY: the projection stage's to-do list is the links whose count does not hold; it is nearly always empty.
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
    # WHY: the pair's second member is looked up as often as its first.
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
    # WHY: links are followed from both ends, and forgetting a unit ends those that point at it.
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

#: A reflection's vectors stand in unit_vector_t under its own id: one kind of vector, one kind of search.
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

#: Messages of a history that no unit keeps: a compaction's summary, a restored history.
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

# Turns and work ------------------------------------------------------------------------------------------------------

#: The guard: a turn is accepted once, and the same turn with another body is a conflict.
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
    # WHY: the highest position of a bank that a read shows.
    Index("turn_by_bank", "host_id", "bank_id", "position"),
)

#: Positions of the log, of all tenants: a gap means nothing.
LOG_POSITION = Sequence("log_position_seq", metadata=METADATA, data_type=BigInteger)
#: Epochs of claims: none is given twice.
CLAIM_EPOCH = Sequence("claim_epoch_seq", metadata=METADATA, data_type=BigInteger)

#: The one form in which a traceparent is kept.
TRACEPARENT = "traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-01$'"

#: The ledger: what is still to be done, and how everything ended.
LEDGER = Table(
    "ledger_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("stage", Text, primary_key=True),
    #: the turn, or what a stage opened as a follow-up
    Column("item_id", Uuid, primary_key=True),
    #: what is claimed: session, bank, or the item itself
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
    #: what continues the trace of the turn's request (W3C); only where tracing was on
    Column("traceparent", Text),
    CheckConstraint(TRACEPARENT),
    CheckConstraint(
        "status in ('pending', 'running', 'done', 'skipped', 'unknown', 'dead', "
        "'adding', 'added', 'flushing', 'flushed', 'add_failed', 'add_unknown', 'flush_failed')"
    ),
    #: every upgrade makes it anew of the registry (`afterturn.set_stages`)
    CheckConstraint(column("stage").in_([stage.value for stage in STAGES])),
    # WHY: the head of one stream, what stands before a row in its stream, and a walk from stream to stream.
    Index(
        "ledger_stream",
        "stage",
        "host_id",
        "stream_id",
        "position",
        postgresql_where=text("undone and next_attempt_at < 'infinity'"),
    ),
    # WHY: freshness asks for the first undone position of a bank and stage.
    Index("ledger_bank", "host_id", "bank_id", "stage", "position", postgresql_where=text("undone")),
    # WHY: the status of one turn.
    Index("ledger_turn", "host_id", "turn_id"),
    # WHY: tenants take turns when work is claimed, so a worker asks for the oldest and the newest work of one tenant
    # and stage, and for the next tenant; what is done, or waits for another stage, is not in the index.
    Index(
        "ledger_ready_by_host",
        "stage",
        "host_id",
        "position",
        postgresql_where=text("undone and next_attempt_at < 'infinity'"),
    ),
    # A delivery's row is written five times, and no index says anything else of it until it ends. An update stays in
    # its page, and leaves the indexes alone, only when it changes no column that any index names: so the failures are
    # found by a moment of their own, which what goes well never sets. WHY: operators look at what failed; there
    # should be next to nothing.
    Index("ledger_failed", "stage", "failed_at", postgresql_where=text("failed_at is not null")),
    # WHY: what waits for one target, when that is unset or does not answer.
    Index("ledger_target", "host_id", "target_id", postgresql_where=text("undone and target_id is not null")),
    postgresql_with={"fillfactor": "70"},
)

#: What is in flight. An epoch comes from a sequence and is never given twice, so a claim can be dropped when its work
#: is done and a late finisher still finds that it is not its own any more.
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

#: How many turns were pruned, by how each stage of them ended: counts of the ledger stay what they were.
PRUNED_TURNS = Table(
    "pruned_turns_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("status", Text, primary_key=True),
    Column("turns", BigInteger, nullable=False),
    postgresql_with={"fillfactor": "50"},
)

#: Which version of an extractor has read which turn, beyond the rules' first reading. Written with what was found, so
#: that it is found once, although the ledger's rows are pruned and a model would say something else the next time.
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
    #: what continues the trace of the request that asked; only where tracing was on
    Column("traceparent", Text),
    CheckConstraint(TRACEPARENT),
    CheckConstraint("status in ('pending', 'running', 'done', 'failed')"),
    # WHY: the sweeper removes what expired and notifies workers of what waits.
    Index("recall_job_expiry", "expires_at"),
    # WHY: before a job is opened, those that its tenant still has are counted.
    Index("recall_job_of_host", "host_id", "expires_at"),
)

#: Turns that were prepared by memory_run_turn and wait for their output, for an hour. Outside the log: a turn is in it
#: when its output came.
OPEN_TURN = Table(
    "open_turn_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("token_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, nullable=False),
    #: signs this row's token alone
    Column("mac_key", LargeBinary, nullable=False),
    #: JSON of what was asked; its place alone once the turn is kept
    Column("request", Text, nullable=False),
    Column("kept", Boolean, nullable=False, server_default=text("false")),
    #: of the output that the token was first used with
    Column("output_mac", LargeBinary),
    Column("expires_at", TIME, nullable=False),
    # WHY: what expired is removed.
    Index("open_turn_expiry", "expires_at"),
    # WHY: before a turn is opened, those that its tenant still has are counted.
    Index("open_turn_of_host", "host_id", "expires_at"),
)

#: What was asked to be erased, how far that has come, and what came of it: ids, counts and names of gateway sessions.
ERASURE = Table(
    "erasure_t",
    METADATA,
    Column("host_id", Uuid, ForeignKey("afterturn.host_t.host_id", ondelete="CASCADE"), primary_key=True),
    Column("erasure_id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    #: null: a user, in all banks
    Column("bank_id", Uuid),
    Column("target_id", Uuid, nullable=False),
    #: what the log got later is not concerned; of kind `ended`: until when it ended, in microseconds since 1970
    Column("upto", BigInteger, nullable=False),
    #: how far the walk has come: a position
    Column("reached", BigInteger, nullable=False, server_default=text("0")),
    Column("status", Text, nullable=False, server_default="running"),
    Column("counts", JSONB, nullable=False, server_default="{}"),
    #: gateway sessions that were told erased turns, and how many
    Column("delivered", JSONB, nullable=False, server_default="{}"),
    Column("requested_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("finished_at", TIME),
    Column("parent_id", Uuid),
    CheckConstraint("status in ('running', 'done')"),
    CheckConstraint("kind in ('unit', 'session', 'user', 'bank', 'age', 'ended')"),
    # WHY: asked for again while it runs, an erasure goes on instead of beginning twice; the sweeper looks for these
    # alone.
    Index("erasure_running", "host_id", "target_id", "kind", unique=True, postgresql_where=text("status = 'running'")),
    # What was said can be erased by its age: `age` is of one bank, and `upto` where the log was young enough to be
    # kept. WHY: the next one begins where the last one ended; there are few beside them.
    Index("erasure_by_age", "host_id", "bank_id", "upto", postgresql_where=text("kind = 'age'")),
    # WHY: a user's erasure goes on with its banks one by one, and adds up what became of them.
    Index("erasure_parts", "host_id", "parent_id", postgresql_where=text("parent_id is not null")),
)

#: Calls of external services: what was called and how it ended, never what was said.
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
    # WHY: the story of one turn: what was asked of its gateway, what an operator did to it.
    Index("audit_by_turn", "host_id", "turn_id", postgresql_where=text("turn_id is not null")),
)

#: Which interface was called by whom, for what, how long it took and how it ended. Names, ids and codes: no content, no
#: names of sessions or banks. A call without a valid key belongs to no tenant (the nil uuid).
CALL_AUDIT = Table(
    "call_audit_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("call_id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", TIME, nullable=False),
    Column("door", Text, nullable=False),
    Column("key_id", Uuid),
    #: of an operator's command: the account that ran it
    Column("actor", Text),
    #: a route's template or a command's name, never what was put in it
    Column("operation", Text, nullable=False),
    #: HTTP's
    Column("status", Integer),
    #: how it was refused
    Column("code", Text),
    Column("took_ms", REAL, nullable=False),
    #: stands in the log too
    Column("request_id", Uuid),
    #: of an operator's command: how many rows it changed
    Column("rows", BigInteger),
    CheckConstraint("door in ('http', 'gateway', 'mcp', 'operator')"),
    # WHY: the newest first, and pruning by age.
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
    #: its words, stop words left out
    Column("length", Integer, nullable=False),
    #: {term: how often}
    Column("terms", JSONB, nullable=False),
    #: its postings are written and counted: set by a second write, as `agent_memory_unit_entity_t.counted` is
    Column("posted", Boolean, nullable=False, server_default=text("false")),
    # WHY: a recall reads what is not in posting_t yet here, and the projection stage finds its work.
    Index("unit_word_waiting", "host_id", "bank_id", postgresql_where=text("not posted")),
)

#: The words of a unit. WHY equality on a plain table: text search operators are not leakproof, so row-level security
#: would keep the planner from their index.
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

#: Derived by the projection stage: in how many units of a bank a term stands.
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

#: How the words of a bank are cut, where that is not the usual way. The language itself is an event of the bank; this
#: row says how far its words have followed. No row: all words are cut the usual way.
BANK_LANGUAGE = Table(
    "bank_language_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    #: of the words that are written now, and of questions
    Column("language", Text, nullable=False),
    #: of words that were not cut anew yet; null: there are none
    Column("former", Text),
    #: units up to this one were looked at
    Column("place", Uuid),
    Column("changed_at", TIME, nullable=False),
    # WHY: maintenance looks over all tenants for banks whose words are to be cut anew.
    Index("bank_language_undone", "changed_at", postgresql_where=text("former is not null")),
)

#: Vectors are inserted once and never updated: no dead tuples in an index, several models side by side.
UNIT_VECTOR = Table(
    "unit_vector_t",
    METADATA,
    Column("host_id", Uuid),
    Column("bank_id", Uuid),
    Column("unit_id", Uuid),
    Column("chunk", SmallInteger),
    Column("generation", SmallInteger),
    Column("embedding", HalfVector(384), nullable=False),
    PrimaryKeyConstraint("host_id", "bank_id", "generation", "unit_id", "chunk"),
    postgresql_partition_by="HASH (bank_id)",
)

#: How often an entity is called what, and taken for what; '' where the mention does not say.
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

#: What each mentioned entity is called, and which entity it is the same as (itself, unless it is an alias).
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
    #: its first word: only entities of one stem can be the same
    Column("stem", Text, nullable=False),
    Column("mentions", Integer, nullable=False),
    # WHY: a changed entity is compared with those of its stem, and with no others.
    Index("profile_by_stem", "host_id", "bank_id", "stem"),
    # WHY: what is said of an entity is said of its aliases.
    Index("profile_by_canonical", "host_id", "bank_id", "canonical_id"),
    postgresql_with={"fillfactor": "80"},
)

#: Facts that were drawn from turns. A fact holds until another value of the same subject and key is stated.
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
    # WHY: a new fact is put in line with those of its subject and key.
    Index("fact_by_identity", "host_id", "bank_id", "fact_id", "subject", "key"),
    # WHY: a person's facts in one bank are found by the person's name, and not by reading all facts of the bank.
    Index("fact_by_subject", "host_id", "bank_id", "subject"),
    # WHY: every turn that is prepared reads the newest facts that hold, of very many.
    Index(
        "fact_holding",
        "host_id",
        "bank_id",
        text("valid_from desc"),
        text("position desc"),
        postgresql_where=text("valid_to is null"),
    ),
)

#: Units that ended, or whose words did, since the projection stage last looked: what is to be taken out of its
#: counts.
FORGOTTEN_UNIT = Table(
    "forgotten_unit_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("nth", BigInteger, Identity(always=True), primary_key=True),
    Column("unit_id", Uuid, nullable=False),
    Column("terms", ARRAY(Text), nullable=False),
    #: 1: the unit ended; 0: its text is another now
    Column("units", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)

#: Entities whose names changed without a mention coming or going.
STALE_ENTITY = Table(
    "stale_entity_t",
    METADATA,
    Column("host_id", Uuid, primary_key=True),
    Column("bank_id", Uuid, primary_key=True),
    Column("entity_id", Uuid, primary_key=True),
)

# Of no tenant --------------------------------------------------------------------------------------------------------

#: Which cluster gave the log its xids: they mean nothing in another one, where a dump was restored. One row of the
#: whole database, so it stands beside the schema's version and holds no tenant's rows.
CLUSTER = Table(
    "afterturn_cluster",
    METADATA,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("system_identifier", BigInteger, nullable=False),
    CheckConstraint("one"),
    schema="public",
)

#: Keys of operators: they have no tenant, and are found by their hash as tenants' keys are.
OPERATOR_KEY = Table(
    "afterturn_operator_key",
    METADATA,
    Column("key_id", Uuid, primary_key=True),
    Column("key_hash", LargeBinary, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=func.now()),
    Column("expires_at", TIME),
    Column("revoked_at", TIME),
    UniqueConstraint("key_hash"),
    schema="public",
)

#: Which worker processes there are: each says so itself, again and again.
WORKER = Table(
    "afterturn_worker",
    METADATA,
    Column("worker", Text, primary_key=True),
    Column("version", Text, nullable=False),
    Column("stages", ARRAY(Text), nullable=False),
    Column("started_at", TIME, nullable=False, server_default=func.now()),
    Column("seen_at", TIME, nullable=False, server_default=func.now()),
    Column("state", Text, nullable=False, server_default="working"),
    CheckConstraint("state in ('working', 'draining', 'drained')"),
    schema="public",
    postgresql_with={"fillfactor": "50"},
)

#: When each task of maintenance runs next, and who runs it now. Of all tenants at once, so it stands in `public`.
MAINTENANCE = Table(
    "afterturn_maintenance",
    METADATA,
    Column("task", Text, primary_key=True),
    #: the fencing token: a later run has a higher one
    Column("run", BigInteger, nullable=False, server_default=text("0")),
    Column("next_run", TIME, nullable=False, server_default="-infinity"),
    Column("lease_until", TIME),
    Column("worker", Text),
    #: where a run that was cut short goes on
    Column("place", Text),
    Column("started_at", TIME),
    Column("ended_at", TIME),
    Column("outcome", Text),
    #: of all runs
    Column("removed", BigInteger, nullable=False, server_default=text("0")),
    schema="public",
    postgresql_with={"fillfactor": "50"},
)

#: The circuit breaker and rate limit of each external service, which is called for all tenants.
GATE = Table(
    "afterturn_gate",
    METADATA,
    #: the kind of service and a digest of where and as whom
    Column("gate", Text, primary_key=True),
    #: calls that failed in a row
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("shut_until", TIME, nullable=False, server_default="-infinity"),
    #: null: not called yet, the bucket is full
    Column("tokens", Double),
    Column("filled_at", TIME, nullable=False, server_default=func.now()),
    schema="public",
    postgresql_with={"fillfactor": "50"},
)

#: External models, and at which machine each was called: what an erasure cannot reach. Written when a process starts
#: that may call one; holds no tenant and nothing of what was said.
OUTSIDE_MODEL = Table(
    "afterturn_outside_model",
    METADATA,
    #: embedding, extraction
    Column("purpose", Text, primary_key=True),
    #: a generation of vectors; a version of an extractor
    Column("name", Text, primary_key=True),
    #: the machine's name
    Column("endpoint", Text, primary_key=True),
    Column("first_used", TIME, nullable=False, server_default=func.now()),
    schema="public",
)

#: The sentence model the service embeds with now, by its generation of vectors: one row, written by each process that
#: starts. Empty until one did. WHY: direct readers of the schema hindsight must not compare vectors of another model.
LIVE_MODEL = Table(
    "afterturn_live_model",
    METADATA,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("generation", SmallInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("since", TIME, nullable=False, server_default=func.now()),
    CheckConstraint("one"),
    schema="public",
)


def in_bank(rows: FromClause) -> ColumnElement[bool]:
    """Say that rows of a table, or an alias of it, are of the bank `bank` of `host`."""
    return and_(rows.c.host_id == bindparam("host"), rows.c.bank_id == bindparam("bank"))


def same_bank(one: FromClause, other: FromClause, *names: str) -> ColumnElement[bool]:
    """Say that two rows are of one bank, and equal in these columns."""
    return and_(*(one.c[name] == other.c[name] for name in ("host_id", "bank_id", *names)))
