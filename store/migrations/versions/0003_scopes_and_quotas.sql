-- Scopes of keys and banks, and quotas.

alter table afterturn.api_key_t
    add column user_name    text,                  -- set: writes as this user alone, reaches no other user's banks
    add column agent        text,                  -- set: reaches no other agent's banks
    add column expires_at   timestamptz,
    add column rotated_from uuid references afterturn.api_key_t on delete set null;

-- A bank's user and agent are a wall inside the tenant's: whoever is named sees what is theirs or nobody's. A
-- transaction that names neither sees every bank of its host. WHY restrictive: it narrows the tenant's policy.
create function afterturn.current_user_scope() returns uuid
    language sql stable parallel safe
    return nullif(current_setting('afterturn.user', true), '')::uuid;
create function afterturn.current_agent_scope() returns uuid
    language sql stable parallel safe
    return nullif(current_setting('afterturn.agent', true), '')::uuid;
create policy scope on afterturn.agent_memory_bank_t as restrictive to afterturn_app
    using ((user_id is null or afterturn.current_user_scope() is null or user_id = afterturn.current_user_scope())
       and (agent_def_id is null or afterturn.current_agent_scope() is null or agent_def_id = afterturn.current_agent_scope()));

-- What the operator allows a host, or one of its banks, and how much of it is used. A limit that is null is none.
create table afterturn.quota_t (
    host_id          uuid not null references afterturn.host_t on delete cascade,
    scope_id         uuid not null,                -- the host itself, or a bank
    bank_name        text,                         -- null: the host
    max_turns        bigint check (max_turns >= 0),
    max_bytes        bigint check (max_bytes >= 0),
    max_banks        bigint check (max_banks is null or (max_banks >= 0 and bank_name is null)),
    turns_per_minute bigint check (turns_per_minute >= 0),
    turns            bigint not null default 0,
    bytes            bigint not null default 0,    -- of messages, UTF-8
    banks            bigint not null default 0,
    minute           timestamptz not null default '-infinity',
    minute_turns     bigint not null default 0,
    counted_at       timestamptz not null default '-infinity',
    primary key (host_id, scope_id)
) with (fillfactor = 50);
alter table afterturn.quota_t enable row level security;
create policy tenant on afterturn.quota_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
create policy operator on afterturn.quota_t to afterturn_operator using (true);
-- WHY these columns alone: a tenant uses up its quota and cannot raise it.
grant select, update (turns, bytes, banks, minute, minute_turns, counted_at) on afterturn.quota_t to afterturn_app;
grant select on afterturn.quota_t to afterturn_operator;
