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

-- The same for an operator's key, which has no tenant.
create or replace function afterturn.find_operator_key(p_hash bytea) returns uuid
language plpgsql stable security definer set search_path to pg_catalog, pg_temp as $$
begin
    return (select k.key_id from public.afterturn_operator_key k
             where k.key_hash = p_hash and k.revoked_at is null and coalesce(k.expires_at > now(), true));
end $$;
revoke all on function afterturn.find_operator_key(bytea) from public;
grant execute on function afterturn.find_operator_key(bytea) to afterturn_operator;

-- The same with what the key may do.
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
