-- Tenants with their keys, quotas, gateway targets and namespaces of the memory plugin; the schemas and sequences.
-- Here and in the other files of tables: what store/schema.py declares, which says why each index is there.

create schema afterturn;
create schema hindsight;

create sequence afterturn.log_position_seq as bigint;
create sequence afterturn.claim_epoch_seq as bigint;

create table afterturn.host_t (
    host_id uuid not null,
    name text not null,
    digest_key bytea default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex') not null,
    created_at timestamptz default now() not null,
    primary key (host_id),
    unique (name)
);

create table afterturn.api_key_t (
    key_id uuid not null,
    host_id uuid not null,
    key_hash bytea not null,
    label text not null,
    banks text[],
    can_write boolean default true not null,
    gateway_user text,
    created_at timestamptz default now() not null,
    revoked_at timestamptz,
    user_name text,
    agent text,
    expires_at timestamptz,
    rotated_from uuid,
    can_curate boolean default false not null,
    primary key (key_id),
    unique (key_hash),
    foreign key (host_id) references afterturn.host_t (host_id) on delete cascade,
    foreign key (rotated_from) references afterturn.api_key_t (key_id) on delete set null
);

create table afterturn.quota_t (
    host_id uuid not null,
    scope_id uuid not null,
    bank_name text,
    max_turns bigint,
    max_bytes bigint,
    max_banks bigint,
    turns_per_minute bigint,
    turns bigint default 0 not null,
    bytes bigint default 0 not null,
    banks bigint default 0 not null,
    minute timestamptz default '-infinity' not null,
    minute_turns bigint default 0 not null,
    counted_at timestamptz default '-infinity' not null,
    primary key (host_id, scope_id),
    check (max_turns >= 0),
    check (max_bytes >= 0),
    check (max_banks is null or (max_banks >= 0 and bank_name is null)),
    check (turns_per_minute >= 0),
    foreign key (host_id) references afterturn.host_t (host_id) on delete cascade
) with (fillfactor = 50);

create table afterturn.gateway_target_t (
    host_id uuid not null,
    target_id uuid not null,
    bank_id uuid,
    base_url text,
    user_id text not null,
    app_id text not null,
    project_id text not null,
    scope text[] not null,
    sealed_key text,
    of_settings boolean default false not null,
    set_at timestamptz default now() not null,
    replaced_at timestamptz,
    unset_at timestamptz,
    primary key (host_id, target_id),
    foreign key (host_id) references afterturn.host_t (host_id) on delete cascade
);
create unique index gateway_target_identity on afterturn.gateway_target_t (base_url, user_id, app_id, project_id)
    where base_url is not null;
create unique index gateway_target_in_force on afterturn.gateway_target_t (host_id, coalesce(bank_id, host_id))
    where replaced_at is null and unset_at is null;

create table afterturn.plugin_namespace_t (
    host_id uuid not null,
    bank_id uuid not null,
    name text not null,
    kind text not null,
    expires_at timestamptz,
    metadata text,
    created_at timestamptz not null,
    ending boolean default false not null,
    primary key (host_id, bank_id),
    check (kind in ('workspace', 'team', 'org', 'custom')),
    foreign key (host_id) references afterturn.host_t (host_id) on delete cascade
);

create table afterturn.plugin_vector_t (
    host_id uuid not null,
    bank_id uuid not null,
    session_id uuid not null,
    digest text not null,
    dimension int not null,
    norm float8 not null,
    embedding vector not null,
    written_at timestamptz not null,
    primary key (host_id, bank_id, session_id, digest),
    check (dimension between 1 and 4096),
    check (public.vector_dims(embedding) = dimension),
    foreign key (host_id) references afterturn.host_t (host_id) on delete cascade
);
create index plugin_vector_of_dimension on afterturn.plugin_vector_t (host_id, bank_id, dimension);
