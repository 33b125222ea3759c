-- The only lookup from a key's hash to what the key allows, across all tenants. Run as the owner: no other role reads
-- hashes, and no other function of the owner reads keys of a tenant that is not the transaction's.
create or replace function afterturn.find_key(p_hash bytea)
returns table (key_id uuid, host_id uuid, banks text[], can_write boolean, gateway_user text, user_name text, agent text,
               can_curate boolean)
language plpgsql stable security definer set search_path to pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    -- Whose key it is, is not known before it is found.
    perform set_config('afterturn.every_host', 'on', true);
    return query
    select k.key_id, k.host_id, k.banks, k.can_write, k.gateway_user, k.user_name, k.agent, k.can_curate
      from afterturn.api_key_t k
     where k.key_hash = p_hash and k.revoked_at is null and coalesce(k.expires_at > now(), true);
    perform set_config('afterturn.every_host', 'off', true);
end $$;
revoke all on function afterturn.find_key(bytea) from public;
grant execute on function afterturn.find_key(bytea) to afterturn_operator;

-- The same for an operator's key, which has no tenant; makes_keys: it may make tenants' keys.
create or replace function afterturn.find_operator(p_hash bytea) returns table (key_id uuid, makes_keys boolean)
language plpgsql stable security definer set search_path to pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select k.key_id, k.makes_keys from public.afterturn_operator_key k
     where k.key_hash = p_hash and k.revoked_at is null and coalesce(k.expires_at > now(), true);
end $$;
revoke all on function afterturn.find_operator(bytea) from public;
grant execute on function afterturn.find_operator(bytea) to afterturn_operator;

-- Sessions of the console. No role reads the table: each call shows the hash that it asks about.
-- Open one for the holder of these keys; false: one of the hashes is of no valid key, or of one of the gateway's users.
create or replace function afterturn.open_console_session(p_secret_hash bytea, p_is_link boolean, p_key_hashes bytea[])
returns boolean
language plpgsql volatile security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_key uuid;
    v_operator uuid;
    v_found uuid;
    v_hash bytea;
begin
    foreach v_hash in array p_key_hashes loop
        v_found := (select k.key_id from afterturn.find_key(v_hash) k where k.gateway_user is null);
        if v_found is not null then
            v_key := v_found;
            continue;
        end if;
        v_found := (select k.key_id from afterturn.find_operator(v_hash) k);
        if v_found is null then
            return false;
        end if;
        v_operator := v_found;
    end loop;
    delete from public.afterturn_console_session s where s.seen_at < now() - interval '12 hours';
    insert into public.afterturn_console_session (secret_hash, is_link, key_id, operator_key_id)
    values (p_secret_hash, p_is_link, v_key, v_operator);
    return true;
end $$;
revoke all on function afterturn.open_console_session(bytea, boolean, bytea[]) from public;
grant execute on function afterturn.open_console_session(bytea, boolean, bytea[]) to afterturn_operator;

-- Turn a link of the last hour into a session; false: there is no such link (any more).
create or replace function afterturn.follow_console_link(p_link_hash bytea, p_secret_hash bytea) returns boolean
language plpgsql volatile security definer set search_path to pg_catalog, pg_temp as $$
begin
    with link as (
        delete from public.afterturn_console_session s
         where s.secret_hash = p_link_hash and s.is_link and s.created_at > now() - interval '1 hour'
        returning s.key_id, s.operator_key_id
    )
    insert into public.afterturn_console_session (secret_hash, is_link, key_id, operator_key_id)
    select p_secret_hash, false, link.key_id, link.operator_key_id from link;
    return found;
end $$;
revoke all on function afterturn.follow_console_link(bytea, bytea) from public;
grant execute on function afterturn.follow_console_link(bytea, bytea) to afterturn_operator;

-- The keys of a session that was used within 12 hours, and a note that it is used now (to the minute: most calls only
-- read). A database that takes no writes keeps the old note.
create or replace function afterturn.use_console_session(p_secret_hash bytea, out key_id uuid, out operator_key_id uuid)
language plpgsql volatile security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_seen timestamptz;
begin
    select s.key_id, s.operator_key_id, s.seen_at into key_id, operator_key_id, v_seen
      from public.afterturn_console_session s
     where s.secret_hash = p_secret_hash and not s.is_link and s.seen_at > now() - interval '12 hours';
    if v_seen < now() - interval '1 minute' and current_setting('transaction_read_only') = 'off' then
        update public.afterturn_console_session s set seen_at = now() where s.secret_hash = p_secret_hash;
    end if;
end $$;
revoke all on function afterturn.use_console_session(bytea) from public;

-- What a session's key of a tenant allows; nothing where the session or the key has ended.
create or replace function afterturn.find_key_of_session(p_secret_hash bytea)
returns table (key_id uuid, host_id uuid, banks text[], can_write boolean, gateway_user text, user_name text, agent text,
               can_curate boolean)
language plpgsql volatile security definer set search_path to pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_key uuid := (select u.key_id from afterturn.use_console_session(p_secret_hash) u);
    v_hash bytea;
begin
    perform set_config('afterturn.every_host', 'on', true);
    v_hash := (select k.key_hash from afterturn.api_key_t k where k.key_id = v_key);
    perform set_config('afterturn.every_host', 'off', true);
    return query select * from afterturn.find_key(v_hash);
end $$;
revoke all on function afterturn.find_key_of_session(bytea) from public;
grant execute on function afterturn.find_key_of_session(bytea) to afterturn_operator;

-- The same of its operator's key.
create or replace function afterturn.find_operator_of_session(p_secret_hash bytea)
returns table (key_id uuid, makes_keys boolean)
language plpgsql volatile security definer set search_path to pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select o.* from afterturn.use_console_session(p_secret_hash) u
      join public.afterturn_operator_key k on k.key_id = u.operator_key_id
     cross join lateral afterturn.find_operator(k.key_hash) o;
end $$;
revoke all on function afterturn.find_operator_of_session(bytea) from public;
grant execute on function afterturn.find_operator_of_session(bytea) to afterturn_operator;

create or replace function afterturn.close_console_session(p_secret_hash bytea) returns void
language sql volatile security definer set search_path to pg_catalog, pg_temp
begin atomic
    delete from public.afterturn_console_session s where s.secret_hash = p_secret_hash;
end;
revoke all on function afterturn.close_console_session(bytea) from public;
grant execute on function afterturn.close_console_session(bytea) to afterturn_operator;

-- Open a session with the keys of another one and one key more, in the place of that of its kind; the other one ends.
-- False: the session or the key has ended.
create or replace function afterturn.widen_console_session(p_secret_hash bytea, p_old_hash bytea, p_key_hash bytea)
returns boolean
language plpgsql volatile security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_key uuid;
    v_operator uuid;
begin
    select u.key_id, u.operator_key_id into v_key, v_operator from afterturn.use_console_session(p_old_hash) u;
    if coalesce(v_key, v_operator) is null
       or not afterturn.open_console_session(p_secret_hash, false, array[p_key_hash]) then
        return false;
    end if;
    update public.afterturn_console_session s
       set key_id = coalesce(s.key_id, v_key), operator_key_id = coalesce(s.operator_key_id, v_operator)
     where s.secret_hash = p_secret_hash;
    delete from public.afterturn_console_session s where s.secret_hash = p_old_hash;
    return true;
end $$;
revoke all on function afterturn.widen_console_session(bytea, bytea, bytea) from public;
grant execute on function afterturn.widen_console_session(bytea, bytea, bytea) to afterturn_operator;
