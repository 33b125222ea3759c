-- Tables of no tenant: keys and console sessions of operators, workers, maintenance and models.

create table public.afterturn_cluster (
    one boolean default true not null,
    system_identifier bigint not null,
    primary key (one),
    check (one)
);

create table public.afterturn_operator_key (
    key_id uuid not null,
    key_hash bytea not null,
    label text not null,
    created_at timestamptz default now() not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    makes_keys boolean default false not null,
    primary key (key_id),
    unique (key_hash)
);

create table public.afterturn_console_session (
    secret_hash bytea not null,
    is_link boolean not null,
    key_id uuid,
    operator_key_id uuid,
    created_at timestamptz default now() not null,
    seen_at timestamptz default now() not null,
    primary key (secret_hash),
    check (coalesce(key_id, operator_key_id) is not null)
);
create index console_sessions_by_time on public.afterturn_console_session (seen_at);

create table public.afterturn_worker (
    worker text not null,
    version text not null,
    stages text[] not null,
    started_at timestamptz default now() not null,
    seen_at timestamptz default now() not null,
    state text default 'working' not null,
    primary key (worker),
    check (state in ('working', 'draining', 'drained'))
) with (fillfactor = 50);

create table public.afterturn_maintenance (
    task text not null,
    run bigint default 0 not null,
    next_run timestamptz default '-infinity' not null,
    lease_until timestamptz,
    worker text,
    place text,
    started_at timestamptz,
    ended_at timestamptz,
    outcome text,
    removed bigint default 0 not null,
    primary key (task)
) with (fillfactor = 50);

create table public.afterturn_gate (
    gate text not null,
    failures int default 0 not null,
    shut_until timestamptz default '-infinity' not null,
    tokens float8,
    filled_at timestamptz default now() not null,
    primary key (gate)
) with (fillfactor = 50);

create table public.afterturn_outside_model (
    purpose text not null,
    name text not null,
    endpoint text not null,
    first_used timestamptz default now() not null,
    primary key (purpose, name, endpoint)
);

create table public.afterturn_live_model (
    one boolean default true not null,
    generation smallint not null,
    name text not null,
    since timestamptz default now() not null,
    primary key (one),
    check (one)
);

insert into public.afterturn_cluster (system_identifier) select system_identifier from pg_control_system();
