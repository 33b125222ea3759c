-- To which Memory Gateway the turns of a tenant, or of one bank of it, are handed: what an operator set. A delivery keeps
-- the target it was opened for, so what is under way is never sent anywhere else.
create table afterturn.gateway_target_t (
    host_id     uuid not null references afterturn.host_t on delete cascade,
    target_id   uuid not null,
    bank_id     uuid,                              -- null: every bank of the tenant without a target of its own
    base_url    text,                              -- null: this service itself (`--gateway self`)
    user_id     text not null,                     -- the gateway's user, application and project
    app_id      text not null,
    project_id  text not null,
    scope       text[] not null,                   -- where a recall through the gateway looks
    sealed_key  text,                              -- the user's key, sealed (store/tenancy/sealing.py); null: the settings hold it
    of_settings boolean not null default false,
    set_at      timestamptz not null default now(),
    replaced_at timestamptz,                       -- another took its place; what was opened for it still goes to it
    unset_at    timestamptz,                       -- nothing goes to it any more, and its key is forgotten
    primary key (host_id, target_id)
);
-- WHY: one target is in force for a tenant, and one for each bank; every append looks here.
create unique index gateway_target_in_force on afterturn.gateway_target_t (host_id, coalesce(bank_id, host_id))
    where replaced_at is null and unset_at is null;
-- WHY: a gateway's user holds the memory of one tenant or bank, for good: sessions of two would merge there, and a
-- recall of one would find what the other said. Over all tenants, so it does not begin with the host.
create unique index gateway_target_identity on afterturn.gateway_target_t (base_url, user_id, app_id, project_id)
    where base_url is not null;

alter table afterturn.gateway_target_t enable row level security;
create policy tenant on afterturn.gateway_target_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
create policy operator on afterturn.gateway_target_t to afterturn_operator using (true) with check (true);
grant select on afterturn.gateway_target_t to afterturn_app;
grant select, insert, update on afterturn.gateway_target_t to afterturn_operator;

alter table afterturn.ledger_t add column target_id uuid;    -- of the gateway's stage: where the turn is handed to
-- WHY: what waits for one target, when that is unset or does not answer.
create index ledger_target on afterturn.ledger_t (host_id, target_id) where undone and target_id is not null;
