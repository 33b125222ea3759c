-- Schema of the first release. Host comes first in every key: a cell of hosts can move to another server whole.

create schema afterturn;
create schema hindsight;

-- The tenant of the running transaction. Unset is an error; empty is nobody's rows.
create function afterturn.current_host() returns uuid
    language sql stable parallel safe
    return nullif(current_setting('afterturn.host'), '')::uuid;

-- Who -----------------------------------------------------------------------------------------------------

create table afterturn.host_t (
    host_id     uuid primary key,
    name        text not null unique,
    digest_key  bytea not null default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'),
    created_at  timestamptz not null default now()
);

create table afterturn.api_key_t (
    key_id        uuid primary key,
    host_id       uuid not null references afterturn.host_t on delete cascade,
    key_hash      bytea not null unique,              -- WHY: a key is looked up by its hash, in one probe
    label         text not null,
    banks         text[],                             -- null: every bank of the host; empty: none
    can_write     boolean not null default true,
    gateway_user  text,                               -- set: a user key of the /memories/* door, nothing else
    created_at    timestamptz not null default now(),
    revoked_at    timestamptz
);

-- What happened -------------------------------------------------------------------------------------------

create sequence afterturn.log_position_seq;

create table afterturn.event_store_t (
    id                 uuid not null,
    host_id            uuid not null,
    user_id            uuid not null,
    nonce              bigint not null,
    aggregate_id       varchar(255) not null,
    aggregate_version  bigint not null default 1,
    aggregate_type     varchar(255) not null,
    event_type         varchar(255) not null,
    event_ts           timestamptz not null,
    payload            jsonb not null,                -- the whole CloudEvent
    metadata           jsonb,
    bank_id            uuid not null,
    position           bigint not null,
    xid                xid8 not null default pg_current_xact_id(),
    primary key (host_id, position),
    unique (host_id, id),                                 -- WHY: an event offered twice is one event
    unique (host_id, aggregate_id, aggregate_version),    -- WHY: optimistic concurrency
    unique (host_id, user_id, nonce)                      -- WHY: the seed's key; the nonce is the position
);

-- What is true now: the seed's tables ---------------------------------------------------------------------

create table afterturn.agent_memory_bank_t (
    host_id uuid not null references afterturn.host_t,
    bank_id uuid not null,
    agent_def_id uuid,
    user_id uuid,
    bank_name varchar(256) not null,
    disposition jsonb not null default '{"skepticism": 3, "literalism": 3, "empathy": 3}',
    background text,
    aggregate_version bigint not null default 1,
    active boolean not null default true,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id)
);

create table afterturn.agent_session_history_t (
    host_id uuid not null,
    session_id uuid not null,
    bank_id uuid not null,
    metadata jsonb not null default '{}',
    session_name text not null,
    message_count int not null default 0,
    turn_count int not null default 0,
    last_position bigint not null,
    aggregate_version bigint not null default 1,
    active boolean not null default true,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, session_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t on delete cascade
);

create table afterturn.agent_memory_unit_t (
    host_id uuid not null,
    unit_id uuid not null,
    bank_id uuid not null,
    doc_id uuid,
    content text not null,
    context text,
    event_date timestamptz not null,
    occurred_start timestamptz,
    occurred_end timestamptz,
    mentioned_at timestamptz,
    fact_type varchar(32) not null default 'world'
        check (fact_type in ('world', 'experience', 'opinion', 'observation', 'mental_model')),
    metadata jsonb not null default '{}',
    proof_count int not null default 1,
    source_memory_ids uuid[] not null default '{}',
    user_id uuid not null,
    origin text not null check (origin in ('message', 'extraction')),
    session_id uuid,
    turn_id uuid,
    session_name text,
    turn_name text,
    ordinal int,                                   -- the message's number within its turn
    seq int,                                       -- the message's number within its session
    role text,
    name text,
    position bigint not null,                      -- of the event that retained it
    aggregate_version bigint not null default 1,
    active boolean not null default true,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, unit_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t on delete cascade
);
-- WHY: a hit's neighbours in its session, and the newest messages of a session.
create index unit_by_session on afterturn.agent_memory_unit_t (host_id, bank_id, session_id, seq) where seq is not null;
-- WHY: the stages read the units of a turn.
create index unit_by_turn on afterturn.agent_memory_unit_t (host_id, bank_id, turn_id);

create table afterturn.agent_memory_entity_t (
    host_id uuid not null,
    entity_id uuid not null,
    bank_id uuid not null,
    user_id uuid,
    canonical_name text not null,
    mention_count int not null default 0,          -- derived: the projection stage counts
    metadata jsonb not null default '{}',
    aggregate_version bigint not null default 1,
    active boolean not null default true,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, entity_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t on delete cascade
);

create table afterturn.agent_memory_unit_entity_t (
    host_id uuid not null,
    bank_id uuid not null,
    unit_id uuid not null,
    entity_id uuid not null,
    mentions int not null default 1,               -- how often the unit names the entity
    removed_at timestamptz,                        -- the tombstone: a replayed Linked must not bring the link back
    counted boolean not null default false,        -- derived: co-occurrence and mention counts hold this link
    primary key (host_id, bank_id, unit_id, entity_id),
    foreign key (host_id, bank_id, unit_id) references afterturn.agent_memory_unit_t on delete cascade,
    foreign key (host_id, bank_id, entity_id) references afterturn.agent_memory_entity_t on delete cascade
);
-- WHY: units of an entity, for recall and for counting.
create index unit_entity_by_entity on afterturn.agent_memory_unit_entity_t (host_id, bank_id, entity_id);
-- WHY: the projection stage's to-do list is the links whose count does not hold; it is nearly always empty.
create index unit_entity_uncounted on afterturn.agent_memory_unit_entity_t (host_id, bank_id)
    where counted <> (removed_at is null);

create table afterturn.agent_memory_entity_cooccur_t (
    host_id uuid not null,
    bank_id uuid not null,
    entity_id_1 uuid not null,
    entity_id_2 uuid not null,
    cooccur_count int not null default 1,
    last_cooccurred timestamptz not null,
    primary key (host_id, bank_id, entity_id_1, entity_id_2),
    check (entity_id_1 < entity_id_2),
    foreign key (host_id, bank_id, entity_id_1) references afterturn.agent_memory_entity_t on delete cascade,
    foreign key (host_id, bank_id, entity_id_2) references afterturn.agent_memory_entity_t on delete cascade
);
-- WHY: the pair's second member is looked up as often as its first.
create index cooccur_by_second on afterturn.agent_memory_entity_cooccur_t (host_id, bank_id, entity_id_2);

create table afterturn.agent_memory_link_t (
    host_id uuid not null,
    bank_id uuid not null,
    from_unit_id uuid not null,
    to_unit_id uuid not null,
    link_type varchar(32) not null
        check (link_type in ('temporal', 'semantic', 'entity', 'causes', 'caused_by', 'enables', 'prevents')),
    weight double precision not null default 1.0,
    aggregate_version bigint not null default 1,
    active boolean not null default true,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, from_unit_id, to_unit_id, link_type),
    foreign key (host_id, bank_id, from_unit_id) references afterturn.agent_memory_unit_t on delete cascade,
    foreign key (host_id, bank_id, to_unit_id) references afterturn.agent_memory_unit_t on delete cascade
);

-- Side tables of the pipeline -----------------------------------------------------------------------------

-- The guard: a turn is accepted once, and the same turn with another body is a conflict.
create table afterturn.turn_t (
    host_id uuid not null,
    turn_id uuid not null,
    bank_id uuid not null,
    session_id uuid not null,
    user_id uuid not null,
    digest bytea not null,                         -- HMAC of the body with the host's key
    position bigint not null,
    accepted_at timestamptz not null,
    primary key (host_id, turn_id)
);
-- WHY: the highest position of a bank that a read shows.
create index turn_by_bank on afterturn.turn_t (host_id, bank_id, position);

-- The words of a unit. WHY equality on a plain table: text search operators are not leakproof, so row-level
-- security would keep the planner from their index.
create table afterturn.posting_t (
    host_id uuid not null,
    bank_id uuid not null,
    term text not null,
    unit_id uuid not null,
    session_id uuid,
    seq int,
    tf int not null,
    length int not null,
    primary key (host_id, bank_id, term, unit_id)
);
-- WHY: forgetting a unit removes its words.
create index posting_by_unit on afterturn.posting_t (host_id, bank_id, unit_id);

-- Derived by the projection stage: in how many units of a bank a term stands.
create table afterturn.term_t (
    host_id uuid not null,
    bank_id uuid not null,
    term text not null,
    df bigint not null,
    primary key (host_id, bank_id, term)
) with (fillfactor = 80);

create table afterturn.bank_statistics_t (
    host_id uuid not null,
    bank_id uuid not null,
    units bigint not null,
    tokens bigint not null,
    primary key (host_id, bank_id)
);

-- Vectors are inserted once and never updated: no dead tuples in an index, several models side by side.
create table afterturn.unit_vector_t (
    host_id uuid not null,
    bank_id uuid not null,
    unit_id uuid not null,
    chunk smallint not null,
    generation smallint not null,
    embedding public.halfvec(384) not null,
    primary key (host_id, bank_id, generation, unit_id, chunk)
) partition by hash (bank_id);
do $$ begin
    for i in 0..15 loop
        execute format('create table afterturn.unit_vector_%s partition of afterturn.unit_vector_t '
                       'for values with (modulus 16, remainder %s)', i, i);
    end loop;
end $$;

-- The ledger: what is still to be done, and how everything ended.
create table afterturn.ledger_t (
    host_id uuid not null,
    stage text not null check (stage in ('gateway', 'extraction', 'embedding', 'projection')),
    item_id uuid not null,                         -- the turn, or what a stage opened as a follow-up
    stream_id uuid not null,                       -- what is claimed: session, bank, or the item itself
    bank_id uuid not null,
    session_id uuid not null,
    turn_id uuid not null,
    position bigint not null,
    status text not null default 'pending' check (status in (
        'pending', 'running', 'done', 'skipped', 'unknown', 'dead',
        'adding', 'added', 'flushing', 'flushed', 'add_failed', 'add_unknown', 'flush_failed')),
    undone boolean not null generated always as
        (status in ('pending', 'running', 'adding', 'added', 'flushing')) stored,
    attempts int not null default 0,
    error_category text,
    error_reason text,
    next_attempt_at timestamptz not null default now(),
    accepted_at timestamptz not null,
    updated_at timestamptz not null default now(),
    primary key (host_id, stage, item_id)
) with (fillfactor = 70);
-- WHY: a worker asks for the oldest work of its stage; what is done, or waits for another stage, is not in the index.
create index ledger_ready on afterturn.ledger_t (stage, position) where undone and next_attempt_at < 'infinity';
-- WHY: the head of one stream, what stands before a row in its stream, and a walk from stream to stream.
create index ledger_stream on afterturn.ledger_t (stage, host_id, stream_id, position)
    where undone and next_attempt_at < 'infinity';
-- WHY: freshness asks for the first undone position of a bank and stage.
create index ledger_bank on afterturn.ledger_t (host_id, bank_id, stage, position) where undone;
-- WHY: operators look at what failed; there should be next to nothing.
create index ledger_failed on afterturn.ledger_t (stage, updated_at)
    where status in ('dead', 'unknown', 'add_failed', 'add_unknown', 'flush_failed');
-- WHY: the status of one turn.
create index ledger_turn on afterturn.ledger_t (host_id, turn_id);

-- What is in flight. An epoch comes from a sequence and is never given twice, so a claim can be dropped
-- when its work is done and a late finisher still finds that it is not its own any more.
create sequence afterturn.claim_epoch_seq;
create table afterturn.claim_t (
    host_id uuid not null,
    stage text not null,
    stream_id uuid not null,
    epoch bigint not null,
    lease_until timestamptz not null,
    worker text not null,
    primary key (host_id, stage, stream_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);

-- Outcomes at foreign doors: what was called and how it ended, never what was said.
create table afterturn.audit_event_t (
    host_id uuid not null,
    audit_id bigint generated always as identity,
    event text not null,
    bank_id uuid,
    session_id uuid,
    turn_id uuid,
    payload jsonb not null default '{}',
    at timestamptz not null default now(),
    primary key (host_id, audit_id)
);

create table afterturn.recall_job_t (
    host_id uuid not null,
    job_id uuid not null,
    request jsonb not null,
    status text not null default 'pending' check (status in ('pending', 'running', 'done', 'failed')),
    result jsonb,
    error_category text,
    attempts int not null default 0,
    lease_until timestamptz,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    primary key (host_id, job_id)
);
-- WHY: the sweeper removes what expired and rings for what waits.
create index recall_job_expiry on afterturn.recall_job_t (expires_at);

-- Walls ---------------------------------------------------------------------------------------------------

do $$
declare t text;
begin
    if not exists (select from pg_roles where rolname = 'afterturn_app') then
        create role afterturn_app nologin;
    end if;
    if not exists (select from pg_roles where rolname = 'afterturn_operator') then
        create role afterturn_operator nologin;
    end if;
    foreach t in array array['host_t', 'api_key_t', 'event_store_t', 'agent_memory_bank_t', 'agent_session_history_t',
            'agent_memory_unit_t', 'agent_memory_entity_t', 'agent_memory_unit_entity_t',
            'agent_memory_entity_cooccur_t', 'agent_memory_link_t', 'turn_t', 'posting_t', 'term_t',
            'bank_statistics_t', 'unit_vector_t', 'ledger_t', 'claim_t', 'audit_event_t', 'recall_job_t'] loop
        execute format('alter table afterturn.%I enable row level security', t);
        execute format('create policy tenant on afterturn.%I to afterturn_app '
                       'using (host_id = afterturn.current_host()) '
                       'with check (host_id = afterturn.current_host())', t);
    end loop;
    -- The operator passes the wall of these tables alone; of their columns it sees none that holds content.
    foreach t in array array['host_t', 'api_key_t', 'ledger_t', 'claim_t', 'recall_job_t', 'audit_event_t'] loop
        execute format('create policy operator on afterturn.%I to afterturn_operator using (true) with check (true)', t);
    end loop;
end $$;

grant usage on schema afterturn, hindsight to afterturn_app;
grant usage on schema afterturn to afterturn_operator;

grant select on afterturn.host_t to afterturn_app;
grant select, insert on afterturn.event_store_t, afterturn.turn_t, afterturn.audit_event_t to afterturn_app;
grant select, insert, update, delete on
    afterturn.agent_memory_bank_t, afterturn.agent_session_history_t, afterturn.agent_memory_unit_t,
    afterturn.agent_memory_entity_t, afterturn.agent_memory_unit_entity_t, afterturn.agent_memory_entity_cooccur_t,
    afterturn.agent_memory_link_t, afterturn.posting_t, afterturn.term_t, afterturn.bank_statistics_t,
    afterturn.unit_vector_t, afterturn.ledger_t, afterturn.claim_t, afterturn.recall_job_t to afterturn_app;
grant usage, select on all sequences in schema afterturn to afterturn_app;

grant select (host_id, name, created_at), insert (host_id, name) on afterturn.host_t to afterturn_operator;
grant select, insert, update on afterturn.api_key_t to afterturn_operator;
grant select, update on afterturn.ledger_t to afterturn_operator;
grant select, insert, update, delete on afterturn.claim_t to afterturn_operator;
grant select (host_id, job_id, status, attempts, lease_until, created_at, expires_at), delete
    on afterturn.recall_job_t to afterturn_operator;
grant select on afterturn.audit_event_t to afterturn_operator;
grant usage, select on sequence afterturn.claim_epoch_seq, afterturn.log_position_seq to afterturn_operator;

-- The seed's exact tables, for direct readers -------------------------------------------------------------

create view hindsight.agent_memory_bank_t with (security_invoker) as
    select host_id, bank_id, agent_def_id, user_id, bank_name, disposition, background,
           aggregate_version, active, update_ts, update_user from afterturn.agent_memory_bank_t;

create view hindsight.agent_memory_unit_t with (security_invoker) as
    select u.host_id, u.unit_id, u.bank_id, u.doc_id, u.content,
           (select v.embedding::public.vector(384) from afterturn.unit_vector_t v
             where v.host_id = u.host_id and v.bank_id = u.bank_id and v.unit_id = u.unit_id and v.chunk = 0
             order by v.generation desc limit 1) as embedding,
           u.context, u.event_date, u.occurred_start, u.occurred_end, u.mentioned_at, u.fact_type, u.metadata,
           u.proof_count, u.source_memory_ids, u.aggregate_version, u.active, u.update_ts, u.update_user
      from afterturn.agent_memory_unit_t u;

create view hindsight.agent_memory_entity_t with (security_invoker) as
    select host_id, entity_id, bank_id, user_id, canonical_name, mention_count, metadata,
           aggregate_version, active, update_ts, update_user from afterturn.agent_memory_entity_t;

create view hindsight.agent_memory_unit_entity_t with (security_invoker) as
    select host_id, bank_id, unit_id, entity_id from afterturn.agent_memory_unit_entity_t where removed_at is null;

create view hindsight.agent_memory_entity_cooccur_t with (security_invoker) as
    select host_id, bank_id, entity_id_1, entity_id_2, cooccur_count, last_cooccurred
      from afterturn.agent_memory_entity_cooccur_t;

create view hindsight.agent_memory_link_t with (security_invoker) as
    select host_id, bank_id, from_unit_id, to_unit_id, link_type, weight,
           aggregate_version, active, update_ts, update_user from afterturn.agent_memory_link_t;

create view hindsight.agent_session_history_t with (security_invoker) as
    select h.host_id, h.session_id, h.bank_id,
           coalesce((select jsonb_agg(jsonb_build_object('role', m.role, 'name', m.name, 'content', m.content,
                                                         'timestamp', m.event_date) order by m.seq)
                       from (select u.role, u.name, u.content, u.event_date, u.seq
                               from afterturn.agent_memory_unit_t u
                              where u.host_id = h.host_id and u.bank_id = h.bank_id and u.session_id = h.session_id
                                and u.seq is not null and u.active
                              order by u.seq desc limit 40) m), '[]'::jsonb) as messages,
           h.metadata, h.aggregate_version, h.active, h.update_ts, h.update_user
      from afterturn.agent_session_history_t h;

grant select on all tables in schema hindsight to afterturn_app;
