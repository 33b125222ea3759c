-- Turns that were prepared by memory_run_turn and wait for their output, for an hour. Outside the log: a turn is in it
-- when its output came.
create table afterturn.open_turn_t (
    host_id       uuid not null references afterturn.host_t on delete cascade,
    token_id      uuid not null,
    bank_id       uuid not null,
    mac_key       bytea not null,               -- signs this row's token alone
    request       text not null,                -- JSON of what was asked; its place alone once the turn is kept
    kept          boolean not null default false,
    output_mac    bytea,                        -- of the output that the token was first used with
    expires_at    timestamptz not null,
    primary key (host_id, token_id)
);
-- The planner asks nothing of them, and samples would outlive their rows.
alter table afterturn.open_turn_t
    alter column mac_key set statistics 0, alter column request set statistics 0,
    alter column output_mac set statistics 0;
-- WHY: what expired is removed, and what a tenant has open is counted.
create index open_turn_expiry on afterturn.open_turn_t (expires_at);
create index open_turn_of_host on afterturn.open_turn_t (host_id, expires_at);

alter table afterturn.open_turn_t enable row level security;
create policy tenant on afterturn.open_turn_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
create policy operator on afterturn.open_turn_t to afterturn_operator using (true);
grant select, insert, update, delete on afterturn.open_turn_t to afterturn_app;
grant select (host_id, token_id, expires_at), delete on afterturn.open_turn_t to afterturn_operator;
