-- The write path: what a door accepted becomes events, projections, words and ledger rows in one call.
--
-- A table is probed through scalar subqueries and laterals with OFFSET 0: the planner cannot know how short the
-- lists are, and must not be free to read a whole table instead of a few rows of its key.

create or replace function afterturn.lock_key(p_kind text, p_id uuid) returns bigint
language sql immutable parallel safe
return hashtextextended(p_kind || p_id::text, 0);

-- Offers events that exist at most once ({id, type, aggregate, subject, bank, user, ts, version, payload}) to the
-- log, in the order given, and projects those that were new. An event whose (aggregate, version) is taken is the
-- same fact offered again and changes nothing. Returns the highest position written, null when nothing was new.
create or replace function afterturn.append_events(p_host uuid, p_events jsonb) returns bigint
language plpgsql as $$
declare
    v_new afterturn.event_store_t[];
begin
    with offered as (
        select nextval('afterturn.log_position_seq') as position, o.*
          from (select o.*
                  from rows from (jsonb_to_recordset(p_events) as (
                           id uuid, type text, aggregate text, subject text, bank uuid, "user" uuid, ts timestamptz,
                           version bigint, payload jsonb)) with ordinality
                       as o(id, type, aggregate, subject, bank, "user", ts, version, payload, ord)
                 where (select true from afterturn.event_store_t s
                         where s.host_id = p_host and s.aggregate_id = o.subject
                           and s.aggregate_version = o.version) is null
                 order by o.ord offset 0) o
    ), written as (
        insert into afterturn.event_store_t (id, host_id, user_id, nonce, aggregate_id, aggregate_version,
               aggregate_type, event_type, event_ts, payload, bank_id, position)
        select id, p_host, "user", position, subject, version, aggregate, type, ts,
               payload || jsonb_build_object('nonce', position, 'aggregateversion', version), bank, position
          from offered
        on conflict do nothing
        returning *
    )
    select array_agg(w order by w.position) into v_new from written w;
    perform afterturn.project(v_new);
    return (select max(e.position) from unnest(v_new) e);
end $$;

-- Accepts turns. Each element of p_turns: {ord, turn, bank, session, user, digest, gateway, accepted_at,
-- events: [...], postings: [{unit, terms: {term: tf}, length}]}. One row comes back for each, in order of ord:
-- accepted, duplicate (with the first position), conflict, or busy (another request is writing it right now).
create or replace function afterturn.append_turns(p_host uuid, p_turns jsonb)
returns table (ord int, outcome text, "position" bigint)
language plpgsql set plan_cache_mode to force_generic_plan as $$
#variable_conflict use_column
declare
    v_busy int[];
    v_accepted int[];
    v_events afterturn.event_store_t[];
begin
    perform set_config('afterturn.host', p_host::text, true);

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
    perform pg_advisory_xact_lock(n.key)
       from (select distinct afterturn.lock_key('new bank', t.bank) as key
               from jsonb_to_recordset(p_turns) as t(ord int, bank uuid)
              where t.ord <> all (v_busy)
                and (select true from afterturn.agent_memory_bank_t b
                      where b.host_id = p_host and b.bank_id = t.bank) is null order by 1) n;
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('session', t.session) as key
               from jsonb_to_recordset(p_turns) as t(ord int, session uuid)
              where t.ord <> all (v_busy) order by 1) k;

    select coalesce(array_agg(t.ord), '{}') into v_accepted
      from (select t.ord, t.turn, row_number() over (partition by t.turn order by t.ord) as nth
              from jsonb_to_recordset(p_turns) as t(ord int, turn uuid) where t.ord <> all (v_busy)) t
     where t.nth = 1
       and (select true from afterturn.turn_t g where g.host_id = p_host and g.turn_id = t.turn) is null;

    v_events := afterturn.number_turn_events(p_host, p_turns, v_accepted);
    insert into afterturn.event_store_t select e.* from unnest(v_events) e;
    perform afterturn.project(v_events);
    perform afterturn.open_turns(p_host, p_turns, v_accepted, v_events);

    return query
    select t.ord,
           case when t.ord = any (v_busy) then 'busy'
                when t.ord = any (v_accepted) then 'accepted'
                when g.digest = decode(t.digest, 'hex') then 'duplicate'
                else 'conflict' end,
           g.position
      from jsonb_to_recordset(p_turns) as t(ord int, turn uuid, digest text)
      left join lateral (select g.digest, g.position from afterturn.turn_t g
                          where g.host_id = p_host and g.turn_id = t.turn offset 0) g on true
     order by t.ord;
end $$;

-- Numbers the events of accepted turns: position, version of the session's history, message number in the session.
-- Banks and sessions that exist already are left out.
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
                       case when f.type = 'AgentSessionHistoryAppendedEvent'
                            then coalesce(s.aggregate_version, 1) + f.turn_in_session else 1 end as version,
                       coalesce(s.message_count, 0) + f.message_in_session - 1 as sequence
                  from fresh f
                  left join lateral (select h.session_id, h.aggregate_version, h.message_count
                                       from afterturn.agent_session_history_t h
                                      where h.host_id = p_host and h.bank_id = f.bank and h.session_id = f.session
                                     offset 0) s on true
                 where case f.type
                       when 'AgentMemoryBankCreatedEvent' then f.same = 1 and (
                            select true from afterturn.agent_memory_bank_t b
                             where b.host_id = p_host and b.bank_id = f.bank) is null
                       when 'AgentSessionHistoryCreatedEvent' then f.same = 1 and s.session_id is null
                       else true end
                 order by f.ord, f.nth offset 0) f
    )
    select array_agg(row (
               id, p_host, "user", position, subject, version, aggregate, type, ts,
               payload
                   || jsonb_build_object('nonce', position, 'aggregateversion', version)
                   || jsonb_build_object('data', payload->'data' || case type
                        when 'AgentSessionHistoryAppendedEvent'
                            then jsonb_build_object('aggregateVersion', version - 1, 'newAggregateVersion', version)
                        when 'AgentMemoryUnitRetainedEvent' then jsonb_build_object('sequence', sequence)
                        else '{}'::jsonb end),
               null, bank, position, pg_current_xact_id())::afterturn.event_store_t
           order by position)
      from numbered
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

    insert into afterturn.posting_t (host_id, bank_id, term, unit_id, session_id, seq, tf, length)
    select p_host, t.bank, w.key, p.unit, t.session, u.sequence, w.value::int, p.length
      from jsonb_to_recordset(p_turns) as t(ord int, bank uuid, session uuid, postings jsonb),
           jsonb_to_recordset(t.postings) as p(unit uuid, terms jsonb, length int),
           jsonb_each_text(p.terms) w,
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
