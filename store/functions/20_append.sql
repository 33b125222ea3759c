-- The write path: what a door accepted becomes events, projections, words and ledger rows in one call.
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

-- Whether an event begins an aggregate's life, or begins it again.
create or replace function afterturn.begins(p_type text) returns boolean
language sql immutable parallel safe
return p_type like '%CreatedEvent' or p_type in ('AgentMemoryUnitRetainedEvent', 'AgentMemoryUnitEntityLinkedEvent');

-- The version an aggregate has in the log, null when the log does not know it.
create or replace function afterturn.logged_version(p_host uuid, p_subject text) returns bigint
language plpgsql stable as $$
begin
    return (select max(s.aggregate_version) from afterturn.event_store_t s
             where s.host_id = p_host and s.aggregate_id = p_subject);
end $$;

-- Offers events ({id, type, aggregate, subject, bank, user, ts, version, payload, metadata}) to the log, in the order
-- given, and projects those that are new. Returns the highest position written, null when nothing was new.
--
-- An id the log knows is the same event again and changes nothing. A version that another event took or passed is refused
-- (ZA003), or skipped with p_if_absent: stages offer what exists at most once, whoever says it first.
-- p_expected ({subject: version, 0 for none}) is what the caller saw: an aggregate that moved since refuses what is
-- new of it (ZA003). Whatever is no beginning follows its predecessor in the log, or is refused (ZA001).
drop function if exists afterturn.append_events(uuid, jsonb);
create or replace function afterturn.append_events(p_host uuid, p_events jsonb, p_expected jsonb default '{}',
                                                   p_if_absent boolean default false) returns bigint
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_new afterturn.event_store_t[];
begin
    perform pg_advisory_xact_lock_shared(afterturn.log_lock());
    -- A bank ends alone: whatever is being accepted for it is there before, and ends with it.
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('bank', o.bank) as key
               from jsonb_to_recordset(p_events) as o(type text, bank uuid)
              where o.type = 'AgentMemoryBankDeletedEvent' order by 1) k;
    v_new := afterturn.number_events(p_host, p_events);
    perform afterturn.check_versions(p_host, v_new, p_expected);
    with written as (
        insert into afterturn.event_store_t select e.* from unnest(v_new) e on conflict do nothing returning *
    )
    select array_agg(w order by w.position) into v_new from written w;
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
                   version bigint, payload jsonb, metadata jsonb)) with ordinality
               as o(id, type, aggregate, subject, bank, "user", ts, version, payload, metadata, ord)
         where (select true from afterturn.event_store_t s where s.host_id = p_host and s.id = o.id) is null
           and coalesce((select max(s.aggregate_version) from afterturn.event_store_t s
                          where s.host_id = p_host and s.aggregate_id = o.subject), 0) < o.version
         order by o.ord offset 0
    ), numbered as (
        select nextval('afterturn.log_position_seq') as position, o.* from offered o
    )
    select array_agg(row (
               id, p_host, "user", position, subject, version, aggregate, type, ts,
               payload || jsonb_build_object('nonce', position, 'aggregateversion', version),
               metadata, bank, position, pg_current_xact_id())::afterturn.event_store_t
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

-- Accepts turns. Each element of p_turns: {ord, turn, bank, session, user, digest, gateway, accepted_at, bytes,
-- events: [...], postings: [{unit, terms: {term: tf}, length}]}. One row comes back for each, in order of ord:
-- accepted, duplicate (with the first position), conflict, busy (another request is writing it right now), or
-- `over ...` (a quota is used up; see 21_quota.sql).
create or replace function afterturn.append_turns(p_host uuid, p_turns jsonb)
returns table (ord int, outcome text, "position" bigint)
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
#variable_conflict use_column
declare
    v_busy int[];
    v_accepted int[];
    v_events afterturn.event_store_t[];
    v_quota boolean;
    v_priced jsonb;
    v_over jsonb;
begin
    perform set_config('afterturn.host', p_host::text, true), pg_advisory_xact_lock_shared(afterturn.log_lock());

    select coalesce(array_agg(t.ord), '{}') into v_busy
      from jsonb_to_recordset(p_turns) as t(ord int, turn uuid)
     where not pg_try_advisory_xact_lock(afterturn.lock_key('turn', t.turn));

    -- Locks come before anything is written: a writer that waited after writing would commit later under a
    -- smaller xid, and readers of the log would see its events in the wrong order. Sorted, so batches cannot deadlock.
    perform pg_advisory_xact_lock_shared(k.key)
       from (select distinct afterturn.lock_key('bank', t.bank) as key
               from jsonb_to_recordset(p_turns) as t(ord int, bank uuid)
              where t.ord <> all (v_busy) order by 1) k;
    -- A new bank is made by one writer; the others wait here, and then see it.
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('new bank', t.bank) as key
               from jsonb_to_recordset(p_turns) as t(ord int, bank uuid)
              where t.ord <> all (v_busy)
                and (select true from afterturn.agent_memory_bank_t b
                      where b.host_id = p_host and b.bank_id = t.bank and b.active) is null order by 1) k;
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('session', t.session) as key
               from jsonb_to_recordset(p_turns) as t(ord int, session uuid)
              where t.ord <> all (v_busy) order by 1) k;

    select coalesce(array_agg(t.ord), '{}') into v_accepted
      from (select t.ord, t.turn, row_number() over (partition by t.turn order by t.ord) as nth
              from jsonb_to_recordset(p_turns) as t(ord int, turn uuid) where t.ord <> all (v_busy)) t
     where t.nth = 1
       and (select true from afterturn.turn_t g where g.host_id = p_host and g.turn_id = t.turn) is null;

    v_quota := afterturn.has_quota(p_host);
    if v_quota then
        v_priced := afterturn.priced(p_host, p_turns, v_accepted);
        v_over := afterturn.over_quota(p_host, v_priced);
        v_accepted := array(select a from unnest(v_accepted) a where not v_over ? a::text);
    end if;

    v_events := afterturn.number_turn_events(p_host, p_turns, v_accepted);
    insert into afterturn.event_store_t select e.* from unnest(v_events) e;
    perform afterturn.project(v_events);
    perform afterturn.open_turns(p_host, p_turns, v_accepted, v_events);

    return query
    select t.ord,
           case when t.ord = any (v_busy) then 'busy'
                when v_over ? t.ord::text then v_over->>t.ord::text
                when t.ord = any (v_accepted) then 'accepted'
                when g.digest = decode(t.digest, 'hex') then 'duplicate'
                else 'conflict' end,
           g.position
      from jsonb_to_recordset(p_turns) as t(ord int, turn uuid, digest text)
      left join lateral (select g.digest, g.position from afterturn.turn_t g
                          where g.host_id = p_host and g.turn_id = t.turn offset 0) g on true
     order by t.ord;
    if v_quota then
        perform afterturn.charge_quota(p_host, v_priced, v_accepted);
    end if;
end $$;

-- Numbers the events of accepted turns: position, version of the session's history, message number in the session.
-- Banks and sessions that live already are left out; deleted ones begin again, under an id of their own.
create or replace function afterturn.number_turn_events(p_host uuid, p_turns jsonb, p_accepted int[])
returns afterturn.event_store_t[]
language plpgsql as $$
begin
    return (
    with offered as (
        select t.ord, t.bank, t.session, o.*
          from jsonb_to_recordset(p_turns) as t(ord int, bank uuid, session uuid, events jsonb),
               lateral rows from (jsonb_to_recordset(t.events) as (
                   id uuid, type text, aggregate text, subject text, "user" uuid, ts timestamptz, payload jsonb))
                   with ordinality as o(id, type, aggregate, subject, "user", ts, payload, nth)
         where t.ord = any (p_accepted)
    ), fresh as (
        select o.*, row_number() over (partition by o.subject, o.type order by o.ord, o.nth) as same,
               count(*) filter (where o.type = 'AgentSessionHistoryAppendedEvent') over w as turn_in_session,
               count(*) filter (where o.type = 'AgentMemoryUnitRetainedEvent') over w as message_in_session
          from offered o
        window w as (partition by o.session order by o.ord, o.nth)
    ), numbered as (
        select nextval('afterturn.log_position_seq') as position, f.*
          from (select f.*,
                       case f.type
                       when 'AgentSessionHistoryAppendedEvent'
                            then coalesce(s.aggregate_version, 0) + (s.active is not true)::int + f.turn_in_session
                       when 'AgentSessionHistoryCreatedEvent' then coalesce(s.aggregate_version, 0) + 1
                       when 'AgentMemoryBankCreatedEvent' then 1 + coalesce((
                            select b.aggregate_version from afterturn.agent_memory_bank_t b
                             where b.host_id = p_host and b.bank_id = f.bank), 0)
                       else 1 end as version,
                       coalesce(s.message_count, 0) + f.message_in_session - 1 as sequence
                  from fresh f
                  left join lateral (select h.active, h.aggregate_version, h.message_count
                                       from afterturn.agent_session_history_t h
                                      where h.host_id = p_host and h.bank_id = f.bank and h.session_id = f.session
                                     offset 0) s on true
                 where case f.type
                       when 'AgentMemoryBankCreatedEvent' then f.same = 1 and (
                            select true from afterturn.agent_memory_bank_t b
                             where b.host_id = p_host and b.bank_id = f.bank and b.active) is null
                       when 'AgentSessionHistoryCreatedEvent' then f.same = 1 and s.active is not true
                       else true end
                 order by f.ord, f.nth offset 0) f
    )
    select array_agg(row (
               event_id, p_host, "user", position, subject, version, aggregate, type, ts,
               payload
                   || jsonb_build_object('id', event_id, 'nonce', position, 'aggregateversion', version)
                   || jsonb_build_object('data', payload->'data' || case
                        when type = 'AgentMemoryUnitRetainedEvent' then jsonb_build_object('sequence', sequence)
                        when version > 1
                            then jsonb_build_object('aggregateVersion', version - 1, 'newAggregateVersion', version)
                        else '{}'::jsonb end),
               null, bank, position, pg_current_xact_id())::afterturn.event_store_t
           order by position)
      from numbered n, lateral (
           select case when n.version > 1 and n.type like '%CreatedEvent'
                       then md5(n.id::text || '@' || n.version)::uuid else n.id end as event_id) i
    );
end $$;

-- What stands beside the projections of an accepted turn: its guard, its words, and a ledger row for each stage.
create or replace function afterturn.open_turns(p_host uuid, p_turns jsonb, p_accepted int[],
                                                p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into afterturn.turn_t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
    select p_host, t.turn, t.bank, t.session, t."user", decode(t.digest, 'hex'), e.position, t.accepted_at
      from jsonb_to_recordset(p_turns) as t(ord int, turn uuid, bank uuid, session uuid, "user" uuid, digest text,
                                            accepted_at timestamptz)
      join (select (e.payload->'data'->>'turnId')::uuid as turn, max(e.position) as position from unnest(p_events) e group by 1) e
        on e.turn = t.turn
     where t.ord = any (p_accepted);

    insert into afterturn.unit_word_t (host_id, bank_id, unit_id, session_id, seq, length, terms)
    select p_host, t.bank, p.unit, t.session, u.sequence, p.length, p.terms
      from jsonb_to_recordset(p_turns) as t(ord int, bank uuid, session uuid, postings jsonb),
           jsonb_to_recordset(t.postings) as p(unit uuid, terms jsonb, length int),
           (select (d->>'unitId')::uuid as unit, (d->>'sequence')::int as sequence
              from unnest(p_events) e, lateral (select e.payload->'data') x(d)
             where e.event_type = 'AgentMemoryUnitRetainedEvent') u
     where t.ord = any (p_accepted) and u.unit = p.unit;

    -- The projection row waits (infinity) until extraction has said what the turn names.
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position,
                                    status, next_attempt_at, accepted_at, updated_at)
    select p_host, s.stage, t.turn, s.stream, t.bank, t.session, t.turn, g.position,
           s.status, s.ready, t.accepted_at, t.accepted_at
      from jsonb_to_recordset(p_turns) as t(ord int, turn uuid, bank uuid, session uuid, gateway boolean,
                                            accepted_at timestamptz)
      join lateral (select g.position from afterturn.turn_t g
                     where g.host_id = p_host and g.turn_id = t.turn offset 0) g on true,
           lateral (values ('gateway', t.session, case when t.gateway then 'pending' else 'skipped' end, now()),
                           ('extraction', t.session, 'pending', now()),
                           ('embedding', t.turn, 'pending', now()),
                           ('projection', t.bank, 'pending', 'infinity'))
                as s(stage, stream, status, ready)
     where t.ord = any (p_accepted);
end $$;
