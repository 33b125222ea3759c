-- What an erasure changes in the log and in the guards of turns, which no other function may change: events become
-- markers, digests become random. Run as the owner, for the transaction's tenant alone, and only while it has an
-- erasure running.

-- A message of a history keeps its place and the id of the unit that stored its words.
create or replace function afterturn.marked_message(p_message jsonb) returns jsonb
language sql immutable parallel safe
return '{"erased": true}'::jsonb
    || case when p_message ? 'unitId' then jsonb_build_object('unitId', p_message->'unitId') else '{}' end;

-- A marker keeps the ids and places of an event's data: its projection is an erased row.
create or replace function afterturn.marker(p_data jsonb) returns jsonb
language sql immutable parallel safe
return '{"erased": true}'::jsonb
    || coalesce((select jsonb_object_agg(d.key, d.value) from jsonb_each(p_data) d
                  where d.key = any (afterturn.kept_fields())), '{}')
    || case when p_data ? 'messages' then jsonb_build_object('messages',
                 coalesce((select jsonb_agg(afterturn.marked_message(m.value) order by m.nth)
                             from jsonb_array_elements(p_data->'messages') with ordinality m(value, nth)), '[]'))
            else '{}' end;

-- The origin of an event stays; the other attributes beside its data go.
create or replace function afterturn.kept_metadata(p_metadata jsonb) returns jsonb
language sql immutable parallel safe
return case when p_metadata ? 'source' then jsonb_build_object('source', p_metadata->'source') end;

-- The data of a history's event without the messages of some units and, with p_words, without words of its own. The
-- rest has the digest of no body. When no message is left, the whole event is erased.
create or replace function afterturn.without_messages(p_data jsonb, p_units uuid[], p_words boolean) returns jsonb
language plpgsql immutable parallel safe as $$
declare
    v_messages jsonb;
begin
    select jsonb_agg(case when (m.value->>'unitId')::uuid = any (p_units) or (p_words and m.value ? 'content')
                          then afterturn.marked_message(m.value) else m.value end order by m.nth)
      into v_messages
      from jsonb_array_elements(p_data->'messages') with ordinality m(value, nth);
    if (select bool_and(m.value ? 'erased') from jsonb_array_elements(v_messages) m) then
        return afterturn.marker(p_data);
    end if;
    return jsonb_set(p_data, '{messages}', v_messages) - 'bodyDigest';
end $$;

-- The tenant, while it has this erasure running. Policies restrict the following statements to its rows.
create or replace function afterturn.erasing(p_erasure uuid) returns uuid
language plpgsql as $$
begin
    perform set_config('afterturn.every_host', 'off', true);
    if (select true from afterturn.erasure_t e where e.host_id = afterturn.current_host()
           and e.erasure_id = p_erasure and e.status = 'running') is null then
        raise exception using errcode = 'ZA004', message = 'no such erasure runs';
    end if;
    return afterturn.current_host();
end $$;

-- Rewrites whole aggregates up to p_upto (null: all events). Returns the number of rewritten events.
create or replace function afterturn.erase_events(p_erasure uuid, p_subjects text[], p_upto bigint) returns bigint
language plpgsql security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_host uuid := afterturn.erasing(p_erasure);
    v_count bigint;
begin
    update afterturn.event_store_t e set data = afterturn.marker(e.data), metadata = afterturn.kept_metadata(e.metadata)
      from (select afterturn.bank_of(s) as bank, afterturn.key_of(s) as key from unnest(p_subjects) s offset 0) k
     where e.host_id = v_host and e.bank_id = k.bank and e.aggregate_key = k.key
       and (p_upto is null or e.position <= p_upto)
       and not e.data ? 'erased';
    get diagnostics v_count = row_count;
    return v_count;
end $$;

-- Rewrites single events: of data derived from several units, only what repeats an erased one.
create or replace function afterturn.erase_at(p_erasure uuid, p_positions bigint[]) returns bigint
language plpgsql security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_host uuid := afterturn.erasing(p_erasure);
    v_count bigint;
begin
    update afterturn.event_store_t e set data = afterturn.marker(e.data), metadata = afterturn.kept_metadata(e.metadata)
     where e.host_id = v_host and e.position = any (p_positions) and not e.data ? 'erased';
    get diagnostics v_count = row_count;
    return v_count;
end $$;

-- Removes units from the histories that name them. A compaction after such a unit may repeat it, so its words go, too.
-- Returns the number of rewritten events.
create or replace function afterturn.erase_messages(p_erasure uuid, p_bank uuid, p_units uuid[]) returns bigint
language plpgsql security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_host uuid := afterturn.erasing(p_erasure);
    v_count bigint;
begin
    with said as (
        select u.session_id::text as key, min(f.position) as first
          from afterturn.agent_memory_unit_t u,
               -- Not the row's own position: a unit that lives again was said before.
               lateral (select min(e.position) as position from afterturn.event_store_t e
                         where e.host_id = v_host and e.bank_id = p_bank and e.aggregate_key = u.unit_id::text) f
         where u.host_id = v_host and u.bank_id = p_bank and u.unit_id = any (p_units) and u.session_id is not null
         group by 1
    ), concerned as (
        select e.position, e.event_type = 'AgentSessionHistoryCompactedEvent' and e.position > s.first as compacted
          from said s join afterturn.event_store_t e on e.host_id = v_host and e.bank_id = p_bank and e.aggregate_key = s.key
         where not e.data ? 'erased' and jsonb_typeof(e.data->'messages') = 'array'
           and exists (select from jsonb_array_elements(e.data->'messages') m
                        where not m ? 'erased'
                          and ((m->>'unitId')::uuid = any (p_units)
                               or (m ? 'content' and e.event_type = 'AgentSessionHistoryCompactedEvent'
                                   and e.position > s.first)))
    )
    update afterturn.event_store_t e
       set data = afterturn.without_messages(e.data, p_units, c.compacted)
      from concerned c
     where e.host_id = v_host and e.position = c.position;
    get diagnostics v_count = row_count;
    return v_count;
end $$;

-- Removes a user's own words from the histories that hold them (restored ones). Returns the number of events.
create or replace function afterturn.erase_words_of(p_erasure uuid, p_positions bigint[]) returns bigint
language plpgsql security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_host uuid := afterturn.erasing(p_erasure);
    v_count bigint;
begin
    update afterturn.event_store_t e set data = afterturn.without_messages(e.data, '{}', true)
     where e.host_id = v_host and e.position = any (p_positions)
       and e.aggregate_type = 'AgentSessionHistory' and not e.data ? 'erased'
       and e.data @? '$.messages[*].content';
    get diagnostics v_count = row_count;
    return v_count;
end $$;

-- Makes the guard of turns match no body: a caller that sends the same turn again
-- learns nothing of what it said, and is told that it was erased.
create or replace function afterturn.erase_guards(p_erasure uuid, p_turns uuid[]) returns bigint
language plpgsql security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_host uuid := afterturn.erasing(p_erasure);
    v_count bigint;
begin
    update afterturn.turn_t t
       set digest = decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
     where t.host_id = v_host and t.turn_id = any (p_turns);
    get diagnostics v_count = row_count;
    return v_count;
end $$;

-- Keys that name a user; no role of the service reads them otherwise.
create or replace function afterturn.named_keys(p_erasure uuid)
returns table (key_id uuid, user_name text, gateway_user text)
language plpgsql security definer set search_path to pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    v_host uuid := afterturn.erasing(p_erasure);
begin
    return query
    select k.key_id, k.user_name, k.gateway_user from afterturn.api_key_t k
     where k.host_id = v_host and (k.user_name <> '' or k.gateway_user <> '');
end $$;

-- Revokes keys for good and removes from them every value that a user chose; removes banks, and their quotas, from the
-- banks that other keys reach. WHY '' and not null: a key without a user acts for all users, one without a list reaches
-- all banks.
create or replace function afterturn.erase_keys(p_erasure uuid, p_keys uuid[], p_banks uuid[], p_names text[]) returns void
language plpgsql security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_host uuid := afterturn.erasing(p_erasure);
begin
    update afterturn.api_key_t k
       set revoked_at = coalesce(k.revoked_at, now()), label = '', banks = '{}',
           user_name = case when k.user_name is not null then '' end,
           gateway_user = case when k.gateway_user is not null then '' end
     where k.host_id = v_host and k.key_id = any (p_keys);
    update afterturn.api_key_t k set banks = array(select b from unnest(k.banks) b where b <> all (p_names))
     where k.host_id = v_host and k.banks && p_names;
    delete from afterturn.quota_t q where q.host_id = v_host and q.scope_id = any (p_banks);
end $$;

-- Whether a key of the tenant names this user.
create or replace function afterturn.has_key_of(p_user text) returns boolean
language sql stable security definer set search_path to pg_catalog, pg_temp
as $$
    select exists (select from afterturn.api_key_t k
                    where k.host_id = afterturn.current_host() and p_user <> ''
                      and p_user in (k.user_name, k.gateway_user))
$$;

-- The planner keeps samples of a column's values. Samples of words and vectors are removed and taken again, for every
-- table that was ever sampled; of a table that is empty now, ANALYZE alone would keep the old ones (before PostgreSQL
-- 18 it does).
-- WHY by the catalog: pg_stats shows nothing of a table whose policies restrict its reader.
create or replace function afterturn.erase_samples(p_erasure uuid) returns void
language plpgsql security definer set search_path to pg_catalog, pg_temp as $$
declare
    v_table record;
begin
    perform afterturn.erasing(p_erasure);
    for v_table in
        select c.relname as tablename, array_agg(a.attname) as columns
          from pg_class c
          join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          join pg_type t on t.oid = a.atttypid
         where c.relnamespace = 'afterturn'::regnamespace and c.relkind in ('r', 'p') and c.reltuples >= 0
           and c.relname not in ('host_t', 'api_key_t', 'ledger_t', 'claim_t')
           and t.typname in ('text', '_text', 'varchar', 'jsonb', 'bytea', 'halfvec')
           and a.attname not in ('aggregate_key', 'aggregate_type', 'event_type', 'fact_type', 'origin', 'role', 'kind',
                                 'update_user', 'status', 'link_type')
         group by 1
    loop
        if current_setting('server_version_num')::int >= 180000 then
            perform pg_clear_attribute_stats('afterturn', v_table.tablename::text, c::text, inherited)
               from unnest(v_table.columns) c, unnest(array[true, false]) inherited;
        end if;
        execute format('analyze afterturn.%I (%s)', v_table.tablename,
                       (select string_agg(format('%I', c), ', ') from unnest(v_table.columns) c));
    end loop;
end $$;

do $$
declare f text;
begin
    foreach f in array array['erase_events(uuid, text[], bigint)', 'erase_at(uuid, bigint[])', 'erase_messages(uuid, uuid, uuid[])',
                             'erase_words_of(uuid, bigint[])', 'erase_guards(uuid, uuid[])', 'erase_samples(uuid)',
                             'named_keys(uuid)', 'erase_keys(uuid, uuid[], uuid[], text[])', 'has_key_of(text)'] loop
        execute 'revoke all on function afterturn.' || f || ' from public';
        execute 'grant execute on function afterturn.' || f || ' to afterturn_app';
    end loop;
end $$;
