-- What was asked to be erased, how far that has come, and what came of it: ids, counts and names of gateway sessions.
create table afterturn.erasure_t (
    host_id uuid not null references afterturn.host_t on delete cascade,
    erasure_id uuid not null,
    kind text not null check (kind in ('unit', 'session', 'user', 'bank')),
    bank_id uuid,                                  -- null: a user, in all banks
    target_id uuid not null,
    upto bigint not null,                          -- what the log got later is not concerned
    reached bigint not null default 0,             -- how far the walk has come: a position
    status text not null default 'running' check (status in ('running', 'done')),
    counts jsonb not null default '{}',
    delivered jsonb not null default '{}',         -- gateway sessions that were told erased turns, and how many
    requested_at timestamptz not null,
    updated_at timestamptz not null,
    finished_at timestamptz,
    primary key (host_id, erasure_id)
);
-- WHY: asked for again while it runs, an erasure goes on instead of beginning twice; the sweeper looks for these alone.
create unique index erasure_running on afterturn.erasure_t (host_id, target_id, kind) where status = 'running';

alter table afterturn.erasure_t enable row level security;
create policy tenant on afterturn.erasure_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
create policy operator on afterturn.erasure_t to afterturn_operator using (true);
grant select, insert, update on afterturn.erasure_t to afterturn_app;
grant select (host_id, erasure_id, status, updated_at) on afterturn.erasure_t to afterturn_operator;
