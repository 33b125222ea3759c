-- Bulk writing and the stamps that readers of the log go by.

-- Appends events, given by their columns, in this order, as write_events does. Returns the places (from 1) of those that were
-- not new; null with p_unerased, and nothing is appended, where the tenant has erased anything by itself.
-- Without p_wait the commit does not wait for the disk: one that does must follow.
create or replace function afterturn.append_columns(
    p_host uuid, p_ids uuid[], p_types text[], p_aggregates text[], p_subjects text[], p_banks uuid[], p_users uuid[],
    p_times timestamptz[], p_versions bigint[], p_data text[], p_metadata text[],
    p_if_absent boolean, p_project boolean, p_wait boolean, p_unerased boolean)
returns int[]
language plpgsql set plan_cache_mode to force_generic_plan set enable_seqscan to off
    set search_path to afterturn, public as $$
declare
    v_offered afterturn.event_store_t[];
    v_new afterturn.event_store_t[];
begin
    perform set_config('afterturn.host', p_host::text, true);
    if not p_wait then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    perform afterturn.enter_log();
    perform afterturn.lock_quota(p_host) where 'AgentMemoryBank' = any (p_aggregates);
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('bank', b.bank) as key from unnest(p_banks) b(bank) order by 1) k;
    -- An erasure is requested under a lock of its bank, so none begins from here on.
    if p_unerased and exists (select from erasure_t e where e.host_id = p_host and e.kind not in ('age', 'ended')) then
        return null;
    end if;
    v_offered := array(
        select row (o.id, p_host, o."user", afterturn.key_of(o.subject), o.version, o.aggregate, o.type, o.ts,
                    o.metadata::jsonb, o.bank, null, null, o.data::jsonb)::afterturn.event_store_t
          from unnest(p_ids, p_types, p_aggregates, p_subjects, p_banks, p_users, p_times, p_versions, p_data, p_metadata)
               with ordinality as o(id, type, aggregate, subject, bank, "user", ts, version, data, metadata, nth)
         order by o.nth);
    -- Nearly always no other transaction has written any of it.
    begin
        v_new := afterturn.write_events(p_host, v_offered, '{}', p_if_absent, p_project, false);
    exception when unique_violation then
        v_new := afterturn.write_events(p_host, v_offered, '{}', p_if_absent, p_project, true);
    end;
    if cardinality(v_new) = cardinality(v_offered) then
        return '{}';
    end if;
    return array(select o.nth from unnest(p_ids) with ordinality as o(id, nth)
                  where o.id not in (select n.id from unnest(v_new) n) order by o.nth);
end $$;

-- Appends what was copied into pg_temp.bulk_event, in order of ord; returns how many events were new. Of earlier code.
create or replace function afterturn.append_bulk(p_host uuid, p_if_absent boolean, p_project boolean, p_wait boolean)
returns bigint
language plpgsql as $$
begin
    return (select count(o.id) - cardinality(afterturn.append_columns(
                       p_host, coalesce(array_agg(o.id order by o.ord), '{}'), array_agg(o.type order by o.ord),
                       coalesce(array_agg(o.aggregate order by o.ord), '{}'), array_agg(o.subject order by o.ord),
                       array_agg(o.bank order by o.ord), array_agg(o."user" order by o.ord), array_agg(o.ts order by o.ord),
                       array_agg(o.version order by o.ord), array_agg(o.data::text order by o.ord),
                       array_agg(o.metadata::text order by o.ord), p_if_absent, p_project, p_wait, false))
              from pg_temp.bulk_event o);
end $$;

-- Stamps a log for the cluster it stands in now. Stored xids come from where it was written; after a restore they lie
-- above or among this cluster's own, and readers would stall, or miss what is written next. Everything restored is
-- committed, so position alone orders it. Returns how many events were stamped, 0 when the log is at home. Run by the
-- owner.
create or replace function afterturn.restamp() returns bigint
language plpgsql as $$
declare
    v_here bigint := (select system_identifier from pg_control_system());
    v_count bigint;
begin
    perform pg_advisory_xact_lock(afterturn.log_lock());
    if (select c.system_identifier from public.afterturn_cluster c) = v_here then
        return 0;
    end if;
    update afterturn.event_store_t set xid = '3';  -- the lowest xid that a transaction can have
    get diagnostics v_count = row_count;
    update public.afterturn_cluster set system_identifier = v_here;
    return v_count;
end $$;
