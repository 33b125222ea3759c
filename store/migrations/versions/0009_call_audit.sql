-- Who called which door, for what, how long it took and how it ended. Names, ids and codes: no content, no names of
-- sessions or banks. A call nobody showed a good key for belongs to no host (the nil uuid).
create table afterturn.call_audit_t (
    host_id uuid not null,
    call_id bigint generated always as identity,
    at timestamptz not null,
    door text not null check (door in ('http', 'gateway', 'mcp', 'operator')),
    key_id uuid,
    actor text,                                    -- at the operator's door: who was logged in
    operation text not null,                       -- a route's template or a command's name, never what was put in it
    status int,                                    -- HTTP's
    code text,                                     -- how it was refused
    took_ms real not null,
    request_id uuid,                               -- stands in the log too
    rows bigint,                                   -- at the operator's door: how many rows were changed
    primary key (host_id, call_id)
);
-- WHY: the newest first, and pruning by age.
create index call_audit_by_time on afterturn.call_audit_t (at);
-- WHY: the story of one turn: what was asked of its gateway, what an operator did to it.
create index audit_by_turn on afterturn.audit_event_t (host_id, turn_id) where turn_id is not null;

alter table afterturn.call_audit_t enable row level security;
create policy tenant on afterturn.call_audit_t to afterturn_app using (host_id = afterturn.current_host());
create policy operator on afterturn.call_audit_t to afterturn_operator using (true) with check (true);
-- WHY these alone: a tenant may read what was done with its keys, and nobody rewrites it.
grant select on afterturn.call_audit_t to afterturn_app;
grant select, insert, delete on afterturn.call_audit_t to afterturn_operator;
