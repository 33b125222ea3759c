-- The event log, and how far each reader of it came.

create table afterturn.event_store_t (
    id uuid not null,
    host_id uuid not null,
    user_id uuid not null,
    aggregate_key varchar(255) not null,
    aggregate_version bigint default 1 not null,
    aggregate_type varchar(255) not null,
    event_type varchar(255) not null,
    event_ts timestamptz not null,
    metadata jsonb,
    bank_id uuid not null,
    position bigint not null,
    xid xid8 default pg_current_xact_id() not null,
    data jsonb not null,
    primary key (host_id, position),
    unique (host_id, id),
    unique (host_id, bank_id, aggregate_key, aggregate_version)
);
create index log_by_commit on afterturn.event_store_t (host_id, xid, position);
create index log_by_user on afterturn.event_store_t (host_id, user_id, position);

create table afterturn.subscription_t (
    host_id uuid not null,
    name text not null,
    xid xid8 not null,
    position bigint not null,
    primary key (host_id, name)
) with (fillfactor = 50);
