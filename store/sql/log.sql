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

-- The id of an aggregate is `host|bank|key`, that of a bank `host|bank`. The log has host and bank as columns, and keeps the key
-- alone; a bank's is empty.
create or replace function afterturn.bank_of(p_aggregate text) returns uuid
language sql immutable parallel safe
return nullif(split_part(p_aggregate, '|', 2), '')::uuid;

create or replace function afterturn.key_of(p_aggregate text) returns text
language sql immutable parallel safe
return substr(p_aggregate, length(split_part(p_aggregate, '|', 1)) + length(split_part(p_aggregate, '|', 2)) + 3);

create or replace function afterturn.aggregate_id(p_host uuid, p_bank uuid, p_key text) returns text
language sql stable parallel safe
return concat_ws('|', p_host, p_bank, nullif(p_key, ''));

-- The version an aggregate has in the log, null when the log does not know it.
create or replace function afterturn.logged_version(p_host uuid, p_subject text) returns bigint
language plpgsql stable as $$
declare
    v_bank uuid := afterturn.bank_of(p_subject);
    v_key text := afterturn.key_of(p_subject);
begin
    return (select max(s.aggregate_version) from afterturn.event_store_t s
             where s.host_id = p_host and s.bank_id = v_bank and s.aggregate_key = v_key);
end $$;

-- Offers events ({id, type, aggregate, subject, bank, user, ts, version, data, metadata}) to the log, in the order
-- given. Returns the highest position written, null when nothing was new. Otherwise as write_events.
create or replace function afterturn.append_events(p_host uuid, p_events jsonb, p_expected jsonb default '{}',
                                                   p_if_absent boolean default false) returns bigint
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_new afterturn.event_store_t[];
begin
    perform afterturn.enter_log();
    -- A bank ends under an exclusive lock: turns that are being accepted for it commit before, and end with it.
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('bank', o.bank) as key
               from jsonb_to_recordset(p_events) as o(type text, bank uuid)
              where o.type = 'AgentMemoryBankDeletedEvent' order by 1) k;
    v_new := afterturn.write_events(p_host, array(
        select row (o.id, p_host, o."user", afterturn.key_of(o.subject), o.version, o.aggregate, o.type, o.ts,
                    o.metadata, o.bank, null, null, o.data)::afterturn.event_store_t
          from rows from (jsonb_to_recordset(p_events) as (
                   id uuid, type text, aggregate text, subject text, bank uuid, "user" uuid, ts timestamptz,
                   version bigint, data jsonb, metadata jsonb)) with ordinality
               as o(id, type, aggregate, subject, bank, "user", ts, version, data, metadata, nth)
         order by o.nth), p_expected, p_if_absent, true, true);
    return v_new[cardinality(v_new)].position;
end $$;

-- Writes the new ones of offered events, in the order given, and projects them unless told not to; banks that they begin or
-- end are charged. Returns what was written.
--
-- An id the log knows is the same event again and changes nothing. A version that another event took or passed is refused
-- (ZA003), or skipped with p_if_absent: stages offer what exists at most once, and the first writer has it.
-- p_expected ({subject: version, 0 for none}) is what the caller saw: an aggregate that moved since refuses what is
-- new of it (ZA003). An event that is no beginning follows its predecessor in the log, or is refused (ZA001).
-- Without p_contested an id that the log knows under another version, and a writer of the same events just now, raise
-- unique_violation: a fifth of the time that a large batch takes is looking for them.
create or replace function afterturn.write_events(p_host uuid, p_offered afterturn.event_store_t[], p_expected jsonb,
                                                  p_if_absent boolean, p_project boolean, p_contested boolean)
returns afterturn.event_store_t[]
language plpgsql as $$
declare
    v_new afterturn.event_store_t[] := array(
        select e from unnest(p_offered) e
         where (not p_contested
                or (select true from afterturn.event_store_t s where s.host_id = p_host and s.id = e.id) is null)
           and coalesce((select max(s.aggregate_version) from afterturn.event_store_t s
                          where s.host_id = p_host and s.bank_id = e.bank_id and s.aggregate_key = e.aggregate_key), 0)
               < e.aggregate_version);
begin
    perform afterturn.check_versions(p_host, v_new, p_expected);
    v_new := afterturn.insert_events(v_new, p_contested);
    if not p_if_absent and cardinality(v_new) < cardinality(p_offered) then
        -- A writer that came between our check and our insert has committed by now: the insert waited for it.
        perform afterturn.refuse('ZA003', o.aggregate_type, o.aggregate_version - 1,
                                 afterturn.logged_version(p_host, afterturn.aggregate_id(p_host, o.bank_id, o.aggregate_key)))
           from unnest(p_offered) o
          where (select true from afterturn.event_store_t s where s.host_id = p_host and s.id = o.id) is null;
    end if;
    if p_project and v_new <> '{}' then
        perform afterturn.project(v_new), afterturn.account_banks(p_host, v_new);
    end if;
    return v_new;
end $$;

-- Refuses new events of aggregates that moved since the caller looked, and those whose predecessor is missing.
create or replace function afterturn.check_versions(p_host uuid, p_new afterturn.event_store_t[], p_expected jsonb) returns void
language plpgsql as $$
begin
    if p_expected <> '{}' then
        perform afterturn.refuse('ZA003', n.aggregate_type, n.expected, n.actual)
           from (select e.aggregate_type, (p_expected->>s.subject)::bigint as expected,
                        coalesce(afterturn.logged_version(p_host, s.subject), 0) as actual
                   from unnest(p_new) e, afterturn.aggregate_id(p_host, e.bank_id, e.aggregate_key) s(subject)
                  where p_expected ? s.subject) n
          where n.expected <> n.actual;
    end if;
    perform afterturn.refuse(case when e.before >= e.version then 'ZA003' else 'ZA001' end, e.aggregate,
                             coalesce(e.before, afterturn.logged_version(
                                 p_host, afterturn.aggregate_id(p_host, e.bank_id, e.key)), 0) + 1, e.version)
       from (select n.aggregate_type as aggregate, n.bank_id, n.aggregate_key as key, n.aggregate_version as version,
                    n.event_type, lag(n.aggregate_version) over (partition by n.bank_id, n.aggregate_key order by n.nth) as before
               from unnest(p_new) with ordinality
                    as n(id, host_id, user_id, aggregate_key, aggregate_version, aggregate_type, event_type, event_ts, metadata,
                         bank_id, "position", xid, data, nth)) e
      where e.before >= e.version
         or (e.before is distinct from e.version - 1 and not afterturn.begins(e.event_type)
             and (select true from afterturn.event_store_t s where s.host_id = p_host and s.bank_id = e.bank_id
                     and s.aggregate_key = e.key
                     and s.aggregate_version = e.version - 1) is null);
end $$;

-- Inserts events in the order given, each at the next position, and returns them as the log has them. With p_contested those
-- whose id or version the log has by then are left out; without it they raise unique_violation.
-- Every event comes into the log by this function.
create or replace function afterturn.insert_events(p_events afterturn.event_store_t[], p_contested boolean)
returns afterturn.event_store_t[]
language plpgsql as $$
declare
    v_events afterturn.event_store_t[] := array(
        select row (e.id, e.host_id, e.user_id, e.aggregate_key, e.aggregate_version, e.aggregate_type, e.event_type, e.event_ts,
                    e.metadata, e.bank_id, nextval('afterturn.log_position_seq'), pg_current_xact_id(),
                    e.data)::afterturn.event_store_t
          from unnest(p_events) e);
begin
    if coalesce(current_setting('afterturn.authority', true), '') <> '' then
        -- A call writes on an authority that may have ended since it began; turns were judged before (accept_turns).
        perform afterturn.require_call(w.host_id, array_agg(distinct a.id))
           from unnest(v_events) w, 
                unnest(array[w.user_id, w.bank_id, (w.data->>'sessionId')::uuid, (w.data->>'userId')::uuid]) a(id) group by w.host_id;
    end if;
    if not p_contested then
        insert into afterturn.event_store_t select e.* from unnest(v_events) e;
        return v_events;
    end if;
    with written as (
        -- As one value: rows of columns would be gathered as records, and become events again by way of text.
        insert into afterturn.event_store_t as s select e.* from unnest(v_events) e on conflict do nothing returning s as event
    )
    select coalesce(array_agg(w.event order by (w.event).position), '{}') into v_events from written w;
    return v_events;
end $$;
