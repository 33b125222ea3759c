-- Who of the service may do what (store/ROLES.md): two roles, a policy for each table, grants. That the owner of the tables
-- is held by policies as well is said by every upgrade, for all tables (store/sql).

do $$ begin
    if not exists (select from pg_roles where rolname = 'afterturn_app') then
        create role afterturn_app nologin;
    end if;
    if not exists (select from pg_roles where rolname = 'afterturn_operator') then
        create role afterturn_operator nologin;
    end if;
end $$;

grant usage on schema afterturn, hindsight to afterturn_app;
grant usage on schema afterturn to afterturn_operator;

-- The tenant of the running transaction. Unset is an error; empty selects no rows.
create function afterturn.current_host() returns uuid
    language sql stable parallel safe
    return nullif(current_setting('afterturn.host'), '')::uuid;
-- A bank's user and agent narrow the tenant's policy (`scope`, below).
create function afterturn.current_user_scope() returns uuid
    language sql stable parallel safe
    return nullif(current_setting('afterturn.user', true), '')::uuid;
create function afterturn.current_agent_scope() returns uuid
    language sql stable parallel safe
    return nullif(current_setting('afterturn.agent', true), '')::uuid;
-- Banks that a key names by their whole names, of any owner.
create function afterturn.granted_scope() returns uuid[]
    language sql stable parallel safe
    return nullif(current_setting('afterturn.granted', true), '')::uuid[];
-- Whether the owner's session works on every tenant's rows at once: migrations, replays, measurements. Without it, the
-- owner and the functions that run with its rights see the tenant of the transaction alone.
create function afterturn.every_host() returns boolean
    language sql stable parallel safe
    return current_setting('afterturn.every_host', true) = 'on';

-- The application: rows of its transaction's tenant ---------------------------------------------------------------------

do $$
declare
    v_table text;
begin
    for v_table in
        select c.relname from pg_class c
         where c.relnamespace = 'afterturn'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
           and c.relname not in ('call_audit_t', 'posting_t', 'term_t')
    loop
        execute format('create policy tenant on afterturn.%I to afterturn_app '
                       'using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host())', v_table);
    end loop;
    for v_table in
        select c.oid::regclass::text from pg_class c
         where c.relkind in ('r', 'p') and not c.relispartition
           and (c.relnamespace = 'afterturn'::regnamespace
                or c.relnamespace = 'public'::regnamespace and c.relname like 'afterturn\_%' and c.relname <> 'afterturn_version')
    loop
        execute format('alter table %s enable row level security', v_table);
    end loop;
end $$;
-- A transaction without a user and an agent sees every bank of its tenant. A bank of a user with an agent is the user's.
create policy scope on afterturn.agent_memory_bank_t as restrictive to afterturn_app using (
    afterturn.current_user_scope() is null and afterturn.current_agent_scope() is null
    or bank_id = any (afterturn.granted_scope())
    or ((user_id is null or user_id = afterturn.current_user_scope())
        and (agent_def_id is null or agent_def_id = afterturn.current_agent_scope()
             or (user_id is not null and afterturn.current_agent_scope() is null))));
-- WHY no more: a tenant may read what was done with its keys, and no role rewrites it.
create policy tenant on afterturn.call_audit_t to afterturn_app using (host_id = afterturn.current_host());
-- Words are written by the hundred: whose they are is asked once a statement, not again for each row.
create policy tenant on afterturn.posting_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = (select afterturn.current_host()));
create policy tenant on afterturn.term_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = (select afterturn.current_host()));

grant select, insert, update, delete on
    afterturn.agent_memory_bank_t, afterturn.agent_memory_doc_t, afterturn.agent_memory_unit_t,
    afterturn.agent_memory_entity_t, afterturn.agent_memory_unit_entity_t, afterturn.agent_memory_entity_cooccur_t,
    afterturn.agent_memory_link_t, afterturn.agent_memory_directive_t, afterturn.agent_memory_reflection_t,
    afterturn.agent_session_history_t, afterturn.session_message_t, afterturn.subscription_t, afterturn.ledger_t,
    afterturn.claim_t, afterturn.recall_job_t, afterturn.unit_word_t, afterturn.posting_t, afterturn.term_t,
    afterturn.bank_statistics_t, afterturn.bank_language_t, afterturn.unit_vector_t, afterturn.entity_name_t,
    afterturn.entity_profile_t, afterturn.fact_t, afterturn.forgotten_unit_t, afterturn.stale_entity_t,
    afterturn.open_turn_t, afterturn.plugin_namespace_t, afterturn.plugin_vector_t
    to afterturn_app;
-- The log and the guards of turns are written once; what an erasure changes of them, functions of the owner change.
grant select, insert on afterturn.event_store_t, afterturn.turn_t, afterturn.audit_event_t to afterturn_app;
grant select, insert, delete on afterturn.reading_t to afterturn_app;
grant select, insert, update on afterturn.erasure_t to afterturn_app;
grant select on afterturn.host_t, afterturn.gateway_target_t, afterturn.pruned_turns_t, afterturn.call_audit_t to afterturn_app;
-- WHY these columns alone: a tenant uses up its quota and cannot raise it.
grant select, update (turns, bytes, banks, minute, minute_turns, counted_at) on afterturn.quota_t to afterturn_app;
grant usage, select on sequence afterturn.log_position_seq, afterturn.claim_epoch_seq,
    afterturn.audit_event_t_audit_id_seq, afterturn.forgotten_unit_t_nth_seq to afterturn_app;

-- The operator: every tenant's rows of these tables alone, and of their columns none that holds content -------------------

do $$
declare
    v_table text;
begin
    foreach v_table in array array['host_t', 'api_key_t', 'ledger_t', 'claim_t', 'recall_job_t', 'audit_event_t',
                                   'call_audit_t', 'gateway_target_t'] loop
        execute format('create policy operator on afterturn.%I to afterturn_operator using (true) with check (true)', v_table);
    end loop;
    foreach v_table in array array['quota_t', 'erasure_t', 'pruned_turns_t', 'bank_language_t', 'open_turn_t'] loop
        execute format('create policy operator on afterturn.%I to afterturn_operator using (true)', v_table);
    end loop;
end $$;
-- WHY: workers look over all tenants for banks in which words wait.
create policy operator on afterturn.unit_word_t for select to afterturn_operator using (true);

grant select (host_id, name, created_at), insert (host_id, name) on afterturn.host_t to afterturn_operator;
-- Hashes of keys are compared by afterturn.find_key alone; the operator writes them and reads none.
grant select (key_id, host_id, label, banks, can_write, gateway_user, user_name, agent, can_curate, created_at,
              revoked_at, expires_at, rotated_from),
      insert (key_id, host_id, key_hash, label, banks, can_write, gateway_user, user_name, agent, can_curate, expires_at,
              rotated_from),
      update (revoked_at, expires_at)
   on afterturn.api_key_t to afterturn_operator;
-- WHY these columns alone: a tenant's transaction sees whether its own key still holds.
grant select (host_id, key_id, revoked_at, expires_at) on afterturn.api_key_t to afterturn_app;
grant select, update on afterturn.ledger_t to afterturn_operator;
grant select, insert, update, delete on afterturn.claim_t to afterturn_operator;
grant select (host_id, job_id, status, attempts, lease_until, created_at, expires_at), delete
    on afterturn.recall_job_t to afterturn_operator;
grant select (host_id, token_id, expires_at), delete on afterturn.open_turn_t to afterturn_operator;
grant select, insert, delete on afterturn.audit_event_t, afterturn.call_audit_t to afterturn_operator;
grant select, insert, update on afterturn.gateway_target_t to afterturn_operator;
grant select on afterturn.quota_t, afterturn.pruned_turns_t, afterturn.bank_language_t to afterturn_operator;
grant select (host_id, erasure_id, status, updated_at, parent_id) on afterturn.erasure_t to afterturn_operator;
grant select (host_id, bank_id, posted) on afterturn.unit_word_t to afterturn_operator;
grant usage, select on sequence afterturn.log_position_seq, afterturn.claim_epoch_seq to afterturn_operator;

-- Tables of no tenant: which statements a role may use is said by its grants ---------------------------------------------

create policy service on public.afterturn_cluster for select to afterturn_app, afterturn_operator using (true);
create policy service on public.afterturn_maintenance to afterturn_operator using (true) with check (true);
create policy service on public.afterturn_gate to afterturn_app, afterturn_operator using (true) with check (true);
create policy service on public.afterturn_outside_model to afterturn_app, afterturn_operator using (true) with check (true);
create policy service on public.afterturn_live_model to afterturn_app, afterturn_operator using (true) with check (true);
create policy service on public.afterturn_operator_key to afterturn_operator using (true) with check (true);
create policy service on public.afterturn_worker to afterturn_operator using (true) with check (true);
-- public.afterturn_console_session has no policy: functions of the owner alone read and write it.

grant select on public.afterturn_cluster to afterturn_app, afterturn_operator;
grant select, insert, update on public.afterturn_maintenance to afterturn_operator;
grant select, insert, update on public.afterturn_gate to afterturn_app;
grant select on public.afterturn_gate to afterturn_operator;
grant select on public.afterturn_outside_model, public.afterturn_live_model to afterturn_app;
grant select, insert on public.afterturn_outside_model to afterturn_operator;
grant select, insert, update on public.afterturn_live_model to afterturn_operator;
-- Hashes are compared by the owner's functions alone; the operator writes them and reads none.
grant select (key_id, label, created_at, expires_at, revoked_at, makes_keys),
      insert (key_id, key_hash, label, expires_at, makes_keys),
      update (revoked_at)
   on public.afterturn_operator_key to afterturn_operator;
grant select, insert, update, delete on public.afterturn_worker to afterturn_operator;
