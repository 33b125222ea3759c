-- Whether the owner's session works on every tenant's rows at once: migrations, replays, measurements. Without it, the
-- owner and the functions that run with his rights see the tenant of the transaction alone.
create function afterturn.every_host() returns boolean
    language sql stable parallel safe
    return current_setting('afterturn.every_host', true) = 'on';

-- WHY: workers look over all hosts for banks in which words wait. Of the columns the operator may read three.
create policy operator on afterturn.unit_word_t for select to afterturn_operator using (true);

-- Hashes of keys are compared by afterturn.find_key alone; the operator writes them and reads none.
revoke select, insert, update on afterturn.api_key_t from afterturn_operator;
grant select (key_id, host_id, label, banks, can_write, gateway_user, user_name, agent, can_curate, created_at,
              revoked_at, expires_at, rotated_from),
      insert (key_id, host_id, key_hash, label, banks, can_write, gateway_user, user_name, agent, can_curate, expires_at,
              rotated_from),
      update (revoked_at, expires_at)
   on afterturn.api_key_t to afterturn_operator;

-- Tables that belong to no tenant: which statements a role may use is said by its grants.
create policy service on public.afterturn_cluster for select to afterturn_app, afterturn_operator using (true);
create policy service on public.afterturn_maintenance to afterturn_operator using (true) with check (true);
create policy service on public.afterturn_gate to afterturn_app, afterturn_operator using (true) with check (true);
create policy service on public.afterturn_outside_model to afterturn_app, afterturn_operator using (true) with check (true);
