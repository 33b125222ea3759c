-- What maintenance needs: its schedule, and how turns ended whose ledger rows were pruned.

-- How each stage ended, once the turn's ledger rows are pruned: {stage: {status, attempts, at, category, reason}}. WHY here: the guard
-- stays for ever, so the turn's status is told to the letter without a row more.
alter table afterturn.turn_t add column ended jsonb;

-- How many turns were pruned, by how each stage of them ended: counts of the ledger stay what they were.
create table afterturn.pruned_turns_t (
    host_id uuid not null references afterturn.host_t on delete cascade,
    stage text not null,
    status text not null,
    turns bigint not null,
    primary key (host_id, stage, status)
) with (fillfactor = 50);
alter table afterturn.pruned_turns_t enable row level security;
create policy tenant on afterturn.pruned_turns_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
create policy operator on afterturn.pruned_turns_t to afterturn_operator using (true);
grant select on afterturn.pruned_turns_t to afterturn_app, afterturn_operator;

-- WHY: what was asked of foreign doors is thrown away after a time, where somebody chose one.
grant delete on afterturn.audit_event_t to afterturn_operator;

-- When each task of maintenance runs next, and who runs it now. Of all hosts at once, so it stands in `public`.
create table public.afterturn_maintenance (
    task text primary key,
    run bigint not null default 0,                 -- the fence: whoever took the task later has a higher one
    next_run timestamptz not null default '-infinity',
    lease_until timestamptz,
    worker text,
    place text,                                    -- where a run that was cut short goes on
    started_at timestamptz,
    ended_at timestamptz,
    outcome text,
    removed bigint not null default 0              -- of all runs
) with (fillfactor = 50);
grant select, insert, update on public.afterturn_maintenance to afterturn_operator;
