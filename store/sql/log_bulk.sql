-- Bulk writing and the stamps that readers of the log go by.

-- Appends what was copied into pg_temp.bulk_event, in order of ord, as write_events does. Returns how many events were new.
-- Without p_wait the commit does not wait for the disk: one that does must follow.
create or replace function afterturn.append_bulk(p_host uuid, p_if_absent boolean, p_project boolean, p_wait boolean)
returns bigint
language plpgsql set plan_cache_mode to force_generic_plan set enable_seqscan to off
    set search_path to afterturn, public as $$
declare
    v_offered afterturn.event_store_t[];
begin
    perform set_config('afterturn.host', p_host::text, true);
    if not p_wait then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    perform afterturn.enter_log();
    perform afterturn.lock_quota(p_host)
      where (select true from bulk_event o where o.aggregate = 'AgentMemoryBank' limit 1);
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('bank', o.bank) as key from bulk_event o order by 1) k;
    v_offered := array(
        select row (o.id, p_host, o."user", afterturn.key_of(o.subject), o.version, o.aggregate, o.type, o.ts,
                    o.metadata, o.bank, null, null, o.data)::afterturn.event_store_t
          from bulk_event o order by o.ord);
    -- Nearly always no other transaction has written any of it.
    begin
        return cardinality(afterturn.write_events(p_host, v_offered, '{}', p_if_absent, p_project, false));
    exception when unique_violation then
        return cardinality(afterturn.write_events(p_host, v_offered, '{}', p_if_absent, p_project, true));
    end;
end $$;

-- Stamps a log for the cluster it stands in now. Stored xids come from where it was written; after a restore they lie
-- above or among this cluster's own, and readers would stall, or miss what is written next.
--
-- Everything restored is committed, so position alone may order it, except that no subscription may see an event
-- twice or never: the events of a host are stamped in classes, cut where its checkpoints stand. What was written here
-- before this was run comes after all of them: the last events whose rows are as old as the transaction they name, and
-- younger than the restored row that names their cluster. Returns how many events were stamped, 0 when the log is at
-- home. Run by the owner.
create or replace function afterturn.restamp() returns bigint
language plpgsql as $$
declare
    v_here bigint := (select system_identifier from pg_control_system());
    v_first constant int := 3;      -- the lowest xid that a transaction can have
    v_now constant bigint := pg_current_xact_id()::text::bigint;
    v_last bigint;                  -- position of the last event that was restored
    v_count bigint;
begin
    perform pg_advisory_xact_lock(afterturn.log_lock());
    if (select c.system_identifier from public.afterturn_cluster c) = v_here then
        return 0;
    end if;
    create temp table checkpoint on commit drop as
        select s.host_id, s.name, s.xid, s.position,
               dense_rank() over (partition by s.host_id order by s.xid, s.position) as nth
          from afterturn.subscription_t s;
    if (select max(k.nth) from pg_temp.checkpoint k) + v_first >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint then
        raise exception 'more checkpoints than this cluster has seen transactions';
    end if;
    v_last := (select max(e.position) from afterturn.event_store_t e, public.afterturn_cluster c
                where not (e.xid::text::bigint > v_now - age(c.xmin) and v_now - age(e.xmin) >= e.xid::text::bigint));
    update afterturn.event_store_t e
       set xid = (v_first + (select count(distinct k.nth) from pg_temp.checkpoint k
                              where k.host_id = e.host_id
                                and (e.position > v_last or (k.xid, k.position) < (e.xid, e.position))))::text::xid8;
    get diagnostics v_count = row_count;
    update afterturn.subscription_t s
       set xid = (v_first + k.nth - 1)::text::xid8, position = 9223372036854775807
      from pg_temp.checkpoint k
     where s.host_id = k.host_id and s.name = k.name;
    update public.afterturn_cluster set system_identifier = v_here;
    return v_count;
end $$;
