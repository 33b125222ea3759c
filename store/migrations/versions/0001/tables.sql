-- The tables as store/schema.py declared them when this revision was written; rendered by SQLAlchemy.
create schema afterturn;
create schema hindsight;

CREATE SEQUENCE afterturn.log_position_seq AS BIGINT;
CREATE SEQUENCE afterturn.claim_epoch_seq AS BIGINT;

CREATE TABLE afterturn.host_t (
    host_id UUID NOT NULL,
    name TEXT NOT NULL,
    digest_key BYTEA DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex') NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (host_id),
    UNIQUE (name)
);

CREATE TABLE afterturn.api_key_t (
    key_id UUID NOT NULL,
    host_id UUID NOT NULL,
    key_hash BYTEA NOT NULL,
    label TEXT NOT NULL,
    banks TEXT[],
    can_write BOOLEAN DEFAULT true NOT NULL,
    gateway_user TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    revoked_at TIMESTAMP WITH TIME ZONE,
    user_name TEXT,
    agent TEXT,
    expires_at TIMESTAMP WITH TIME ZONE,
    rotated_from UUID,
    can_curate BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (key_id),
    UNIQUE (key_hash),
    FOREIGN KEY(host_id) REFERENCES afterturn.host_t (host_id) ON DELETE CASCADE,
    FOREIGN KEY(rotated_from) REFERENCES afterturn.api_key_t (key_id) ON DELETE SET NULL
);

CREATE TABLE afterturn.quota_t (
    host_id UUID NOT NULL,
    scope_id UUID NOT NULL,
    bank_name TEXT,
    max_turns BIGINT,
    max_bytes BIGINT,
    max_banks BIGINT,
    turns_per_minute BIGINT,
    turns BIGINT DEFAULT 0 NOT NULL,
    bytes BIGINT DEFAULT 0 NOT NULL,
    banks BIGINT DEFAULT 0 NOT NULL,
    minute TIMESTAMP WITH TIME ZONE DEFAULT '-infinity' NOT NULL,
    minute_turns BIGINT DEFAULT 0 NOT NULL,
    counted_at TIMESTAMP WITH TIME ZONE DEFAULT '-infinity' NOT NULL,
    PRIMARY KEY (host_id, scope_id),
    CHECK (max_turns >= 0),
    CHECK (max_bytes >= 0),
    CHECK (max_banks is null or (max_banks >= 0 and bank_name is null)),
    CHECK (turns_per_minute >= 0),
    FOREIGN KEY(host_id) REFERENCES afterturn.host_t (host_id) ON DELETE CASCADE
)
 WITH (fillfactor = 50);

CREATE TABLE afterturn.gateway_target_t (
    host_id UUID NOT NULL,
    target_id UUID NOT NULL,
    bank_id UUID,
    base_url TEXT,
    user_id TEXT NOT NULL,
    app_id TEXT NOT NULL,
    project_id TEXT NOT NULL,
    scope TEXT[] NOT NULL,
    sealed_key TEXT,
    of_settings BOOLEAN DEFAULT false NOT NULL,
    set_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    replaced_at TIMESTAMP WITH TIME ZONE,
    unset_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (host_id, target_id),
    FOREIGN KEY(host_id) REFERENCES afterturn.host_t (host_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX gateway_target_identity ON afterturn.gateway_target_t (base_url, user_id, app_id, project_id) WHERE base_url is not null;
CREATE UNIQUE INDEX gateway_target_in_force ON afterturn.gateway_target_t (host_id, coalesce(bank_id, host_id)) WHERE replaced_at is null and unset_at is null;

CREATE TABLE afterturn.event_store_t (
    id UUID NOT NULL,
    host_id UUID NOT NULL,
    user_id UUID NOT NULL,
    nonce BIGINT NOT NULL,
    aggregate_id VARCHAR(255) NOT NULL,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    aggregate_type VARCHAR(255) NOT NULL,
    event_type VARCHAR(255) NOT NULL,
    event_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    payload JSONB NOT NULL,
    metadata JSONB,
    bank_id UUID NOT NULL,
    position BIGINT NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    PRIMARY KEY (host_id, position),
    UNIQUE (host_id, id),
    UNIQUE (host_id, aggregate_id, aggregate_version),
    UNIQUE (host_id, user_id, nonce)
);
CREATE INDEX log_by_commit ON afterturn.event_store_t (host_id, xid, position);

CREATE TABLE afterturn.subscription_t (
    host_id UUID NOT NULL,
    name TEXT NOT NULL,
    xid xid8 NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (host_id, name)
)
 WITH (fillfactor = 50);

CREATE TABLE afterturn.agent_memory_bank_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    agent_def_id UUID,
    user_id UUID,
    bank_name VARCHAR(256) NOT NULL,
    disposition JSONB DEFAULT '{"empathy": 3, "literalism": 3, "skepticism": 3}' NOT NULL,
    background TEXT,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    active BOOLEAN DEFAULT true NOT NULL,
    update_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    update_user VARCHAR(126) NOT NULL,
    PRIMARY KEY (host_id, bank_id),
    FOREIGN KEY(host_id) REFERENCES afterturn.host_t (host_id)
);

CREATE TABLE afterturn.agent_memory_doc_t (
    host_id UUID NOT NULL,
    doc_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    original_text TEXT,
    content_hash TEXT,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    active BOOLEAN DEFAULT true NOT NULL,
    update_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    update_user VARCHAR(126) NOT NULL,
    title TEXT,
    metadata JSONB DEFAULT '{}' NOT NULL,
    occurred_at TIMESTAMP WITH TIME ZONE,
    bytes BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, bank_id, doc_id),
    FOREIGN KEY(host_id, bank_id) REFERENCES afterturn.agent_memory_bank_t (host_id, bank_id) ON DELETE CASCADE
);
CREATE INDEX doc_by_hash ON afterturn.agent_memory_doc_t (host_id, bank_id, content_hash);
CREATE INDEX doc_by_time ON afterturn.agent_memory_doc_t (host_id, bank_id, update_ts desc, doc_id desc) WHERE active;

CREATE TABLE afterturn.agent_memory_unit_t (
    host_id UUID NOT NULL,
    unit_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    doc_id UUID,
    content TEXT NOT NULL,
    context TEXT,
    event_date TIMESTAMP WITH TIME ZONE NOT NULL,
    occurred_start TIMESTAMP WITH TIME ZONE,
    occurred_end TIMESTAMP WITH TIME ZONE,
    mentioned_at TIMESTAMP WITH TIME ZONE,
    fact_type VARCHAR(32) DEFAULT 'world' NOT NULL,
    metadata JSONB DEFAULT '{}' NOT NULL,
    proof_count INTEGER DEFAULT 1 NOT NULL,
    source_memory_ids UUID[] DEFAULT '{}' NOT NULL,
    user_id UUID NOT NULL,
    origin TEXT NOT NULL,
    session_id UUID,
    turn_id UUID,
    session_name TEXT,
    turn_name TEXT,
    ordinal INTEGER,
    seq INTEGER,
    role TEXT,
    name TEXT,
    position BIGINT NOT NULL,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    active BOOLEAN DEFAULT true NOT NULL,
    update_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    update_user VARCHAR(126) NOT NULL,
    bytes BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, bank_id, unit_id),
    CHECK (fact_type in ('world', 'experience', 'opinion', 'observation', 'mental_model')),
    CHECK (origin in ('message', 'extraction', 'document')),
    FOREIGN KEY(host_id, bank_id) REFERENCES afterturn.agent_memory_bank_t (host_id, bank_id) ON DELETE CASCADE,
    FOREIGN KEY(host_id, bank_id, doc_id) REFERENCES afterturn.agent_memory_doc_t (host_id, bank_id, doc_id) ON DELETE CASCADE
);
CREATE INDEX unit_by_doc ON afterturn.agent_memory_unit_t (host_id, bank_id, doc_id) WHERE doc_id is not null;
CREATE INDEX unit_by_session ON afterturn.agent_memory_unit_t (host_id, bank_id, session_id, seq) WHERE seq is not null;
CREATE INDEX unit_by_turn ON afterturn.agent_memory_unit_t (host_id, bank_id, turn_id);
CREATE INDEX unit_changed ON afterturn.agent_memory_unit_t (host_id, bank_id, update_ts) WHERE aggregate_version > 1 and active;
CREATE INDEX unit_of_user ON afterturn.agent_memory_unit_t (host_id, user_id) WHERE origin = 'extraction' and active;
CREATE INDEX unit_other_by_session ON afterturn.agent_memory_unit_t (host_id, bank_id, session_id, position) WHERE seq is null;
CREATE INDEX unit_pinned ON afterturn.agent_memory_unit_t (host_id, bank_id, position) WHERE metadata->>'pinned' = 'true' and active;

CREATE TABLE afterturn.agent_memory_entity_t (
    host_id UUID NOT NULL,
    entity_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    user_id UUID,
    canonical_name TEXT NOT NULL,
    mention_count INTEGER DEFAULT 0 NOT NULL,
    metadata JSONB DEFAULT '{}' NOT NULL,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    active BOOLEAN DEFAULT true NOT NULL,
    update_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    update_user VARCHAR(126) NOT NULL,
    PRIMARY KEY (host_id, bank_id, entity_id),
    FOREIGN KEY(host_id, bank_id) REFERENCES afterturn.agent_memory_bank_t (host_id, bank_id) ON DELETE CASCADE
);

CREATE TABLE afterturn.agent_memory_unit_entity_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    unit_id UUID NOT NULL,
    entity_id UUID NOT NULL,
    mentions INTEGER DEFAULT 1 NOT NULL,
    removed_at TIMESTAMP WITH TIME ZONE,
    counted BOOLEAN DEFAULT false NOT NULL,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    name TEXT,
    kind TEXT,
    place INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, bank_id, unit_id, entity_id),
    FOREIGN KEY(host_id, bank_id, unit_id) REFERENCES afterturn.agent_memory_unit_t (host_id, bank_id, unit_id) ON DELETE CASCADE,
    FOREIGN KEY(host_id, bank_id, entity_id) REFERENCES afterturn.agent_memory_entity_t (host_id, bank_id, entity_id) ON DELETE CASCADE
);
CREATE INDEX unit_entity_by_entity ON afterturn.agent_memory_unit_entity_t (host_id, bank_id, entity_id);
CREATE INDEX unit_entity_uncounted ON afterturn.agent_memory_unit_entity_t (host_id, bank_id) WHERE counted <> (removed_at is null);

CREATE TABLE afterturn.agent_memory_entity_cooccur_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    entity_id_1 UUID NOT NULL,
    entity_id_2 UUID NOT NULL,
    cooccur_count INTEGER DEFAULT 1 NOT NULL,
    last_cooccurred TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (host_id, bank_id, entity_id_1, entity_id_2),
    CHECK (entity_id_1 < entity_id_2)
);
CREATE INDEX cooccur_by_second ON afterturn.agent_memory_entity_cooccur_t (host_id, bank_id, entity_id_2);

CREATE TABLE afterturn.agent_memory_link_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    from_unit_id UUID NOT NULL,
    to_unit_id UUID NOT NULL,
    link_type VARCHAR(32) NOT NULL,
    weight DOUBLE PRECISION DEFAULT 1.0 NOT NULL,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    active BOOLEAN DEFAULT true NOT NULL,
    update_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    update_user VARCHAR(126) NOT NULL,
    bytes BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, bank_id, from_unit_id, to_unit_id, link_type),
    CHECK (link_type in ('temporal', 'semantic', 'entity', 'causes', 'caused_by', 'enables', 'prevents')),
    FOREIGN KEY(host_id, bank_id, from_unit_id) REFERENCES afterturn.agent_memory_unit_t (host_id, bank_id, unit_id) ON DELETE CASCADE,
    FOREIGN KEY(host_id, bank_id, to_unit_id) REFERENCES afterturn.agent_memory_unit_t (host_id, bank_id, unit_id) ON DELETE CASCADE
);
CREATE INDEX link_by_target ON afterturn.agent_memory_link_t (host_id, bank_id, to_unit_id);

CREATE TABLE afterturn.agent_memory_directive_t (
    host_id UUID NOT NULL,
    directive_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    name VARCHAR(256) NOT NULL,
    content TEXT NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    active BOOLEAN DEFAULT true NOT NULL,
    update_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    update_user VARCHAR(126) NOT NULL,
    bytes BIGINT DEFAULT 0 NOT NULL,
    laid_down_by TEXT,
    PRIMARY KEY (host_id, bank_id, directive_id),
    FOREIGN KEY(host_id, bank_id) REFERENCES afterturn.agent_memory_bank_t (host_id, bank_id) ON DELETE CASCADE
);

CREATE TABLE afterturn.agent_memory_reflection_t (
    host_id UUID NOT NULL,
    reflection_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    content TEXT NOT NULL,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    active BOOLEAN DEFAULT true NOT NULL,
    update_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    update_user VARCHAR(126) NOT NULL,
    PRIMARY KEY (host_id, bank_id, reflection_id),
    FOREIGN KEY(host_id, bank_id) REFERENCES afterturn.agent_memory_bank_t (host_id, bank_id) ON DELETE CASCADE
);

CREATE TABLE afterturn.agent_session_history_t (
    host_id UUID NOT NULL,
    session_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    metadata JSONB DEFAULT '{}' NOT NULL,
    session_name TEXT,
    message_count INTEGER DEFAULT 0 NOT NULL,
    turn_count INTEGER DEFAULT 0 NOT NULL,
    last_position BIGINT NOT NULL,
    aggregate_version BIGINT DEFAULT 1 NOT NULL,
    active BOOLEAN DEFAULT true NOT NULL,
    update_ts TIMESTAMP WITH TIME ZONE NOT NULL,
    update_user VARCHAR(126) NOT NULL,
    first_seq INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, bank_id, session_id),
    FOREIGN KEY(host_id, bank_id) REFERENCES afterturn.agent_memory_bank_t (host_id, bank_id) ON DELETE CASCADE
);

CREATE TABLE afterturn.session_message_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    session_id UUID NOT NULL,
    seq INTEGER NOT NULL,
    message JSONB NOT NULL,
    PRIMARY KEY (host_id, bank_id, session_id, seq),
    FOREIGN KEY(host_id, bank_id, session_id) REFERENCES afterturn.agent_session_history_t (host_id, bank_id, session_id) ON DELETE CASCADE
);

CREATE TABLE afterturn.turn_t (
    host_id UUID NOT NULL,
    turn_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    session_id UUID NOT NULL,
    user_id UUID NOT NULL,
    digest BYTEA NOT NULL,
    position BIGINT NOT NULL,
    accepted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ended JSONB,
    PRIMARY KEY (host_id, turn_id)
);
CREATE INDEX turn_by_bank ON afterturn.turn_t (host_id, bank_id, position);

CREATE TABLE afterturn.ledger_t (
    host_id UUID NOT NULL,
    stage TEXT NOT NULL,
    item_id UUID NOT NULL,
    stream_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    session_id UUID NOT NULL,
    turn_id UUID NOT NULL,
    position BIGINT NOT NULL,
    status TEXT DEFAULT 'pending' NOT NULL,
    undone BOOLEAN GENERATED ALWAYS AS (status in ('pending', 'running', 'adding', 'added', 'flushing')) STORED NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    error_category TEXT,
    error_reason TEXT,
    next_attempt_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    accepted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    failed_at TIMESTAMP WITH TIME ZONE GENERATED ALWAYS AS (case when status in ('dead', 'unknown', 'add_failed', 'add_unknown', 'flush_failed') then updated_at end) STORED,
    target_id UUID,
    bytes BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, stage, item_id),
    CHECK (status in ('pending', 'running', 'done', 'skipped', 'unknown', 'dead', 'adding', 'added', 'flushing', 'flushed', 'add_failed', 'add_unknown', 'flush_failed')),
    CHECK (stage in ('gateway', 'extraction', 'enrichment', 'embedding', 'projection'))
)
 WITH (fillfactor = 70);
CREATE INDEX ledger_bank ON afterturn.ledger_t (host_id, bank_id, stage, position) WHERE undone;
CREATE INDEX ledger_failed ON afterturn.ledger_t (stage, failed_at) WHERE failed_at is not null;
CREATE INDEX ledger_ready_by_host ON afterturn.ledger_t (stage, host_id, position) WHERE undone and next_attempt_at < 'infinity';
CREATE INDEX ledger_stream ON afterturn.ledger_t (stage, host_id, stream_id, position) WHERE undone and next_attempt_at < 'infinity';
CREATE INDEX ledger_target ON afterturn.ledger_t (host_id, target_id) WHERE undone and target_id is not null;
CREATE INDEX ledger_turn ON afterturn.ledger_t (host_id, turn_id);

CREATE TABLE afterturn.claim_t (
    host_id UUID NOT NULL,
    stage TEXT NOT NULL,
    stream_id UUID NOT NULL,
    epoch BIGINT NOT NULL,
    lease_until TIMESTAMP WITH TIME ZONE NOT NULL,
    worker TEXT NOT NULL,
    PRIMARY KEY (host_id, stage, stream_id)
)
 WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);

CREATE TABLE afterturn.pruned_turns_t (
    host_id UUID NOT NULL,
    stage TEXT NOT NULL,
    status TEXT NOT NULL,
    turns BIGINT NOT NULL,
    PRIMARY KEY (host_id, stage, status),
    FOREIGN KEY(host_id) REFERENCES afterturn.host_t (host_id) ON DELETE CASCADE
)
 WITH (fillfactor = 50);

CREATE TABLE afterturn.reading_t (
    host_id UUID NOT NULL,
    turn_id UUID NOT NULL,
    version TEXT NOT NULL,
    bank_id UUID NOT NULL,
    read_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (host_id, turn_id, version)
);

CREATE TABLE afterturn.recall_job_t (
    host_id UUID NOT NULL,
    job_id UUID NOT NULL,
    request JSONB NOT NULL,
    status TEXT DEFAULT 'pending' NOT NULL,
    result JSONB,
    error_category TEXT,
    attempts INTEGER DEFAULT 0 NOT NULL,
    lease_until TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    bytes BIGINT GENERATED ALWAYS AS (case when error_category is distinct from 'expired' then octet_length(request::text) + coalesce(octet_length(result::text), 0) else 0 end) STORED NOT NULL,
    PRIMARY KEY (host_id, job_id),
    CHECK (status in ('pending', 'running', 'done', 'failed'))
);
CREATE INDEX recall_job_expiry ON afterturn.recall_job_t (expires_at);
CREATE INDEX recall_job_of_host ON afterturn.recall_job_t (host_id, expires_at);

CREATE TABLE afterturn.erasure_t (
    host_id UUID NOT NULL,
    erasure_id UUID NOT NULL,
    kind TEXT NOT NULL,
    bank_id UUID,
    target_id UUID NOT NULL,
    upto BIGINT NOT NULL,
    reached BIGINT DEFAULT 0 NOT NULL,
    status TEXT DEFAULT 'running' NOT NULL,
    counts JSONB DEFAULT '{}' NOT NULL,
    delivered JSONB DEFAULT '{}' NOT NULL,
    requested_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    parent_id UUID,
    PRIMARY KEY (host_id, erasure_id),
    CHECK (status in ('running', 'done')),
    CHECK (kind in ('unit', 'session', 'user', 'bank', 'age')),
    FOREIGN KEY(host_id) REFERENCES afterturn.host_t (host_id) ON DELETE CASCADE
);
CREATE INDEX erasure_by_age ON afterturn.erasure_t (host_id, bank_id, upto) WHERE kind = 'age';
CREATE INDEX erasure_parts ON afterturn.erasure_t (host_id, parent_id) WHERE parent_id is not null;
CREATE UNIQUE INDEX erasure_running ON afterturn.erasure_t (host_id, target_id, kind) WHERE status = 'running';

CREATE TABLE afterturn.audit_event_t (
    host_id UUID NOT NULL,
    audit_id BIGINT GENERATED ALWAYS AS IDENTITY,
    event TEXT NOT NULL,
    bank_id UUID,
    session_id UUID,
    turn_id UUID,
    payload JSONB DEFAULT '{}' NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (host_id, audit_id)
);
CREATE INDEX audit_by_turn ON afterturn.audit_event_t (host_id, turn_id) WHERE turn_id is not null;

CREATE TABLE afterturn.call_audit_t (
    host_id UUID NOT NULL,
    call_id BIGINT GENERATED ALWAYS AS IDENTITY,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    door TEXT NOT NULL,
    key_id UUID,
    actor TEXT,
    operation TEXT NOT NULL,
    status INTEGER,
    code TEXT,
    took_ms REAL NOT NULL,
    request_id UUID,
    rows BIGINT,
    PRIMARY KEY (host_id, call_id),
    CHECK (door in ('http', 'gateway', 'mcp', 'operator'))
);
CREATE INDEX call_audit_by_time ON afterturn.call_audit_t (at);

CREATE TABLE afterturn.unit_word_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    unit_id UUID NOT NULL,
    session_id UUID,
    seq INTEGER,
    length INTEGER NOT NULL,
    terms JSONB NOT NULL,
    posted BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (host_id, bank_id, unit_id)
);
CREATE INDEX unit_word_waiting ON afterturn.unit_word_t (host_id, bank_id) WHERE not posted;

CREATE TABLE afterturn.posting_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    term TEXT NOT NULL,
    unit_id UUID NOT NULL,
    session_id UUID,
    seq INTEGER,
    tf INTEGER NOT NULL,
    length INTEGER NOT NULL,
    PRIMARY KEY (host_id, bank_id, term, unit_id)
);

CREATE TABLE afterturn.term_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    term TEXT NOT NULL,
    df BIGINT NOT NULL,
    PRIMARY KEY (host_id, bank_id, term)
)
 WITH (fillfactor = 80);

CREATE TABLE afterturn.bank_statistics_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    units BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (host_id, bank_id)
);

CREATE TABLE afterturn.bank_language_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    language TEXT NOT NULL,
    former TEXT,
    place UUID,
    changed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (host_id, bank_id)
);
CREATE INDEX bank_language_undone ON afterturn.bank_language_t (changed_at) WHERE former is not null;

CREATE TABLE afterturn.unit_vector_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    unit_id UUID NOT NULL,
    chunk SMALLINT NOT NULL,
    generation SMALLINT NOT NULL,
    embedding HALFVEC(384) NOT NULL,
    PRIMARY KEY (host_id, bank_id, generation, unit_id, chunk)
)
 PARTITION BY HASH (bank_id);

CREATE TABLE afterturn.entity_name_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    entity_id UUID NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    mentions INTEGER NOT NULL,
    PRIMARY KEY (host_id, bank_id, entity_id, name, kind)
)
 WITH (fillfactor = 80);

CREATE TABLE afterturn.entity_profile_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    entity_id UUID NOT NULL,
    canonical_id UUID NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    folded TEXT NOT NULL,
    stem TEXT NOT NULL,
    mentions INTEGER NOT NULL,
    PRIMARY KEY (host_id, bank_id, entity_id)
)
 WITH (fillfactor = 80);
CREATE INDEX profile_by_canonical ON afterturn.entity_profile_t (host_id, bank_id, canonical_id);
CREATE INDEX profile_by_stem ON afterturn.entity_profile_t (host_id, bank_id, stem);

CREATE TABLE afterturn.fact_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    unit_id UUID NOT NULL,
    subject TEXT NOT NULL,
    fact_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    position BIGINT NOT NULL,
    valid_from TIMESTAMP WITH TIME ZONE NOT NULL,
    valid_to TIMESTAMP WITH TIME ZONE,
    superseded_by UUID,
    said BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, bank_id, unit_id)
);
CREATE INDEX fact_by_identity ON afterturn.fact_t (host_id, bank_id, fact_id, subject, key);
CREATE INDEX fact_by_subject ON afterturn.fact_t (host_id, bank_id, subject);

CREATE TABLE afterturn.forgotten_unit_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    nth BIGINT GENERATED ALWAYS AS IDENTITY,
    unit_id UUID NOT NULL,
    terms TEXT[] NOT NULL,
    units INTEGER NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (host_id, bank_id, nth)
);

CREATE TABLE afterturn.stale_entity_t (
    host_id UUID NOT NULL,
    bank_id UUID NOT NULL,
    entity_id UUID NOT NULL,
    PRIMARY KEY (host_id, bank_id, entity_id)
);

CREATE TABLE public.afterturn_cluster (
    one BOOLEAN DEFAULT true NOT NULL,
    system_identifier BIGINT NOT NULL,
    PRIMARY KEY (one),
    CHECK (one)
);

CREATE TABLE public.afterturn_maintenance (
    task TEXT NOT NULL,
    run BIGINT DEFAULT 0 NOT NULL,
    next_run TIMESTAMP WITH TIME ZONE DEFAULT '-infinity' NOT NULL,
    lease_until TIMESTAMP WITH TIME ZONE,
    worker TEXT,
    place TEXT,
    started_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE,
    outcome TEXT,
    removed BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (task)
)
 WITH (fillfactor = 50);

CREATE TABLE public.afterturn_gate (
    gate TEXT NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    shut_until TIMESTAMP WITH TIME ZONE DEFAULT '-infinity' NOT NULL,
    tokens DOUBLE PRECISION,
    filled_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (gate)
)
 WITH (fillfactor = 50);

CREATE TABLE public.afterturn_outside_model (
    purpose TEXT NOT NULL,
    name TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    first_used TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (purpose, name, endpoint)
);

CREATE TABLE public.afterturn_live_model (
    one BOOLEAN DEFAULT true NOT NULL,
    generation SMALLINT NOT NULL,
    name TEXT NOT NULL,
    since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    PRIMARY KEY (one),
    CHECK (one)
);

insert into public.afterturn_cluster (system_identifier) select system_identifier from pg_control_system();
