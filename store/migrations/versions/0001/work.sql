-- Turns and the work on them: ledger, claims, recall jobs, open turns, erasures and audit.

create table afterturn.turn_t (
    host_id uuid not null,
    turn_id uuid not null,
    bank_id uuid not null,
    session_id uuid not null,
    user_id uuid not null,
    digest bytea not null,
    position bigint not null,
    accepted_at timestamptz not null,
    ended jsonb,
    primary key (host_id, turn_id)
);
create index turn_by_bank on afterturn.turn_t (host_id, bank_id, position);

create table afterturn.ledger_t (
    host_id uuid not null,
    stage text not null,
    item_id uuid not null,
    stream_id uuid not null,
    bank_id uuid not null,
    session_id uuid not null,
    turn_id uuid not null,
    position bigint not null,
    status text default 'pending' not null,
    undone boolean generated always as (status in ('pending', 'running', 'adding', 'added', 'flushing')) stored not null,
    attempts int default 0 not null,
    error_category text,
    error_reason text,
    next_attempt_at timestamptz default now() not null,
    accepted_at timestamptz not null,
    updated_at timestamptz default now() not null,
    failed_at timestamptz generated always as
        (case when status in ('dead', 'unknown', 'add_failed', 'add_unknown', 'flush_failed') then updated_at end) stored,
    target_id uuid,
    bytes bigint default 0 not null,
    traceparent text,
    primary key (host_id, stage, item_id),
    check (traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-01$'),
    check (status in ('pending', 'running', 'done', 'skipped', 'unknown', 'dead', 'adding', 'added', 'flushing', 'flushed',
        'add_failed', 'add_unknown', 'flush_failed')),
    check (stage in ('gateway', 'extraction', 'enrichment', 'embedding', 'projection'))
) with (fillfactor = 70);
create index ledger_bank on afterturn.ledger_t (host_id, bank_id, stage, position) where undone;
create index ledger_failed on afterturn.ledger_t (stage, failed_at) where failed_at is not null;
create index ledger_ready_by_host on afterturn.ledger_t (stage, host_id, position) where undone and next_attempt_at < 'infinity';
create index ledger_stream on afterturn.ledger_t (stage, host_id, stream_id, position)
    where undone and next_attempt_at < 'infinity';
create index ledger_target on afterturn.ledger_t (host_id, target_id) where undone and target_id is not null;
create index ledger_turn on afterturn.ledger_t (host_id, turn_id);

create table afterturn.claim_t (
    host_id uuid not null,
    stage text not null,
    stream_id uuid not null,
    epoch bigint not null,
    lease_until timestamptz not null,
    worker text not null,
    primary key (host_id, stage, stream_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);

create table afterturn.pruned_turns_t (
    host_id uuid not null,
    stage text not null,
    status text not null,
    turns bigint not null,
    primary key (host_id, stage, status),
    foreign key (host_id) references afterturn.host_t (host_id) on delete cascade
) with (fillfactor = 50);

create table afterturn.reading_t (
    host_id uuid not null,
    turn_id uuid not null,
    version text not null,
    bank_id uuid not null,
    read_at timestamptz default now() not null,
    primary key (host_id, turn_id, version)
);

create table afterturn.recall_job_t (
    host_id uuid not null,
    job_id uuid not null,
    request jsonb not null,
    status text default 'pending' not null,
    result jsonb,
    error_category text,
    attempts int default 0 not null,
    lease_until timestamptz,
    created_at timestamptz default now() not null,
    expires_at timestamptz not null,
    bytes bigint generated always as
        (case when error_category is distinct from 'expired'
              then octet_length(request::text) + coalesce(octet_length(result::text), 0) else 0 end) stored not null,
    traceparent text,
    primary key (host_id, job_id),
    check (traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-01$'),
    check (status in ('pending', 'running', 'done', 'failed'))
);
create index recall_job_expiry on afterturn.recall_job_t (expires_at);
create index recall_job_of_host on afterturn.recall_job_t (host_id, expires_at);

create table afterturn.open_turn_t (
    host_id uuid not null,
    token_id uuid not null,
    bank_id uuid not null,
    mac_key bytea not null,
    request text not null,
    kept boolean default false not null,
    output_mac bytea,
    expires_at timestamptz not null,
    user_id uuid,
    primary key (host_id, token_id),
    foreign key (host_id) references afterturn.host_t (host_id) on delete cascade
);
create index open_turn_expiry on afterturn.open_turn_t (expires_at);
create index open_turn_of_host on afterturn.open_turn_t (host_id, expires_at);

create table afterturn.erasure_t (
    host_id uuid not null,
    erasure_id uuid not null,
    kind text not null,
    bank_id uuid,
    target_id uuid not null,
    upto bigint not null,
    reached bigint default 0 not null,
    status text default 'running' not null,
    counts jsonb default '{}' not null,
    delivered jsonb default '{}' not null,
    requested_at timestamptz not null,
    updated_at timestamptz not null,
    finished_at timestamptz,
    parent_id uuid,
    primary key (host_id, erasure_id),
    check (status in ('running', 'done')),
    check (kind in ('unit', 'session', 'user', 'bank', 'age', 'ended', 'document', 'directive', 'memory')),
    foreign key (host_id) references afterturn.host_t (host_id) on delete cascade
);
create index erasure_by_age on afterturn.erasure_t (host_id, bank_id, upto) where kind = 'age';
create index erasure_marks on afterturn.erasure_t (host_id, target_id)
    where kind in ('user', 'session', 'bank', 'document', 'memory');
create index erasure_parts on afterturn.erasure_t (host_id, parent_id) where parent_id is not null;
create unique index erasure_running on afterturn.erasure_t (host_id, target_id, kind) where status = 'running';

create table afterturn.audit_event_t (
    host_id uuid not null,
    audit_id bigint generated always as identity,
    event text not null,
    bank_id uuid,
    session_id uuid,
    turn_id uuid,
    payload jsonb default '{}' not null,
    at timestamptz default now() not null,
    primary key (host_id, audit_id)
);
create index audit_by_turn on afterturn.audit_event_t (host_id, turn_id) where turn_id is not null;

create table afterturn.call_audit_t (
    host_id uuid not null,
    call_id bigint generated always as identity,
    at timestamptz not null,
    door text not null,
    key_id uuid,
    actor text,
    operation text not null,
    status int,
    code text,
    took_ms real not null,
    request_id uuid,
    rows bigint,
    primary key (host_id, call_id),
    check (door in ('http', 'gateway', 'mcp', 'operator', 'console'))
);
create index call_audit_by_time on afterturn.call_audit_t (at);
