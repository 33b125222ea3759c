-- Snapshots that were made or taken in. Ids and counts; the key of an export's marks goes when the export is done.
create table afterturn.snapshot_t (
    host_id     uuid not null references afterturn.host_t on delete cascade,
    snapshot_id uuid not null,
    kind        text not null check (kind in ('export', 'import')),
    status      text not null default 'running' check (status in ('running', 'deriving', 'done')),
    parts       text[] not null,
    banks       uuid[],
    masked      boolean not null default false,
    overridden  boolean not null default false,
    dry_run     boolean not null default false,
    source_id   uuid,
    source_host uuid,
    keeps_digests boolean not null default false,
    xid         xid8,
    head        bigint not null default 0,
    place       bigint not null default 0,
    counts      jsonb not null default '{}',
    mark_key    bytea,
    made_by     text not null,
    started_at  timestamptz not null,
    updated_at  timestamptz not null,
    finished_at timestamptz,
    primary key (host_id, snapshot_id)
);
-- The planner asks nothing of it, and samples would outlive the key.
alter table afterturn.snapshot_t alter column mark_key set statistics 0;

alter table afterturn.snapshot_t enable row level security;
create policy tenant on afterturn.snapshot_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
grant select, insert, update on afterturn.snapshot_t to afterturn_app;
-- A tenant that an import creates may get the key of its digests from the snapshot; no key is ever replaced.
grant insert (digest_key) on afterturn.host_t to afterturn_operator;
