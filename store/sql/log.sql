-- The log: how events are appended, by every writer. Completed turns go their own way (turns.sql).
--
-- A table is probed through scalar subqueries and laterals with OFFSET 0: the planner cannot know how short the
-- lists are, and must not be free to read a whole table instead of a few rows of its key.

create or replace function afterturn.lock_key(p_kind text, p_id uuid) returns bigint
language sql immutable parallel safe
return hashtextextended(p_kind || p_id::text, 0);

-- Every writer of the log holds this shared for its transaction; a swap after a replay takes it alone.
create or replace function afterturn.log_lock() returns bigint
language sql immutable parallel safe
return 4713650204827::bigint;

-- What every writer of the log takes first (store/SCHEMA.md, "Locks"): the log's lock, and that of its tenant, both shared.
-- What must see all that a tenant has under way takes the tenant's alone; that keeps no other tenant waiting.
create or replace function afterturn.enter_log(p_host uuid default afterturn.current_host()) returns void
language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(afterturn.log_lock());
    perform pg_advisory_xact_lock_shared(afterturn.lock_key('host', p_host));
end $$;

-- The version an aggregate has in the log, null when the log does not know it.
create or replace function afterturn.logged_version(p_host uuid, p_subject text) returns bigint
language plpgsql stable as $$
begin
    return (select max(s.aggregate_version) from afterturn.event_store_t s
             where s.host_id = p_host and s.aggregate_id = p_subject);
end $$;

-- Offers events ({id, type, aggregate, subject, bank, user, ts, version, data, metadata}) to the log, in the order
-- given, and projects those that are new. Returns the highest position written, null when nothing was new.
--
-- An id the log knows is the same event again and changes nothing. A version that another event took or passed is refused
-- (ZA003), or skipped with p_if_absent: stages offer what exists at most once, and the first writer has it.
-- p_expected ({subject: version, 0 for none}) is what the caller saw: an aggregate that moved since refuses what is
-- new of it (ZA003). An event that is no beginning follows its predecessor in the log, or is refused (ZA001).
create or replace function afterturn.append_events(p_host uuid, p_events jsonb, p_expected jsonb default '{}',
                                                   p_if_absent boolean default false) returns bigint
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_new afterturn.event_store_t[];
begin
    perform afterturn.enter_log();
    -- A bank ends alone: whatever is being accepted for it is there before, and ends with it.
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('bank', o.bank) as key
               from jsonb_to_recordset(p_events) as o(type text, bank uuid)
              where o.type = 'AgentMemoryBankDeletedEvent' order by 1) k;
    v_new := afterturn.number_events(p_host, p_events);
    perform afterturn.check_versions(p_host, v_new, p_expected);
    with written as (
        -- As one value: rows of columns would be gathered as records, and become events again by way of text.
        insert into afterturn.event_store_t as s select e.* from unnest(v_new) e on conflict do nothing returning s as event
    )
    select array_agg(w.event order by (w.event).position) into v_new from written w;
    if not p_if_absent then
        -- Whoever wrote between our look and our insert has committed by now: the insert waited for it.
        perform afterturn.refuse('ZA003', o.aggregate, o.version - 1, afterturn.logged_version(p_host, o.subject))
           from jsonb_to_recordset(p_events) as o(id uuid, aggregate text, subject text, version bigint)
          where (select true from afterturn.event_store_t s where s.host_id = p_host and s.id = o.id) is null;
    end if;
    perform afterturn.project(v_new), afterturn.account_banks(p_host, v_new);
    return (select max(e.position) from unnest(v_new) e);
end $$;

-- Numbers the events that are new: their id is unknown, and their aggregate has not come to their version yet.
create or replace function afterturn.number_events(p_host uuid, p_events jsonb) returns afterturn.event_store_t[]
language plpgsql as $$
begin
    return (
    with offered as (
        select o.*
          from rows from (jsonb_to_recordset(p_events) as (
                   id uuid, type text, aggregate text, subject text, bank uuid, "user" uuid, ts timestamptz,
                   version bigint, data jsonb, metadata jsonb)) with ordinality
               as o(id, type, aggregate, subject, bank, "user", ts, version, data, metadata, ord)
         where (select true from afterturn.event_store_t s where s.host_id = p_host and s.id = o.id) is null
           and coalesce((select max(s.aggregate_version) from afterturn.event_store_t s
                          where s.host_id = p_host and s.aggregate_id = o.subject), 0) < o.version
         order by o.ord offset 0
    ), numbered as (
        select nextval('afterturn.log_position_seq') as position, o.* from offered o
    )
    select array_agg(row (
               id, p_host, "user", subject, version, aggregate, type, ts, metadata, bank, position, pg_current_xact_id(),
               data)::afterturn.event_store_t
           order by position)
      from numbered
    );
end $$;

-- Refuses new events of aggregates that moved since the caller looked, and those whose predecessor is missing.
create or replace function afterturn.check_versions(p_host uuid, p_new afterturn.event_store_t[], p_expected jsonb) returns void
language plpgsql as $$
begin
    if p_expected <> '{}' then
        perform afterturn.refuse('ZA003', n.aggregate_type, n.expected, n.actual)
           from (select e.aggregate_type, (p_expected->>e.aggregate_id)::bigint as expected,
                        coalesce(afterturn.logged_version(p_host, e.aggregate_id), 0) as actual
                   from unnest(p_new) e where p_expected ? e.aggregate_id) n
          where n.expected <> n.actual;
    end if;
    perform afterturn.refuse('ZA003', e.aggregate_type, e.before + 1, e.aggregate_version)
       from (select e.aggregate_type, e.aggregate_version,
                    lag(e.aggregate_version) over (partition by e.aggregate_id order by e.position) as before
               from unnest(p_new) e) e
      where e.before >= e.aggregate_version;
    perform afterturn.refuse('ZA001', e.aggregate_type, coalesce(afterturn.logged_version(p_host, e.aggregate_id), 0) + 1,
                             e.aggregate_version)
       from (select e.aggregate_type, e.aggregate_id, e.aggregate_version, e.event_type,
                    lag(e.aggregate_version) over (partition by e.aggregate_id order by e.position) as before
               from unnest(p_new) e) e
      where e.before is distinct from e.aggregate_version - 1 and not afterturn.begins(e.event_type)
        and (select true from afterturn.event_store_t s where s.host_id = p_host and s.aggregate_id = e.aggregate_id
                and s.aggregate_version = e.aggregate_version - 1) is null;
end $$;
