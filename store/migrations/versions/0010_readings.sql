-- Which version of an extractor has read which turn, beyond the rules' first reading. Written with what was found, so
-- that it is found once, although the ledger's rows are pruned and a model would say something else the next time.
create table afterturn.reading_t (
    host_id uuid not null,
    turn_id uuid not null,
    version text not null,
    bank_id uuid not null,
    read_at timestamptz not null default now(),
    primary key (host_id, turn_id, version)
);
alter table afterturn.reading_t enable row level security;
create policy tenant on afterturn.reading_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
grant select, insert, delete on afterturn.reading_t to afterturn_app;
