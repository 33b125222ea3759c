-- The write path: what a door accepted becomes events, projections, words and ledger rows in one call.
--
-- A table is probed through laterals with OFFSET 0: see 20_append.sql.

-- A turn as it is offered, beside what the log knows of it, its bank and its session. `known`: whether a turn of this
-- name was accepted with the same body, null for a new one; `version` and `messages` are the session's; `position` is
-- the turn's as soon as it has one; `quota`: whether the host has any.
drop function if exists afterturn.number_turn_events(uuid, jsonb, int[]);
drop function if exists afterturn.open_turns(uuid, jsonb, int[], afterturn.event_store_t[]);
drop function if exists afterturn.append_turns(uuid, jsonb);
drop type if exists afterturn.offered_turn cascade;
create type afterturn.offered_turn as (
    ord int, turn uuid, bank uuid, session uuid, "user" uuid, digest bytea, gateway boolean, accepted_at timestamptz,
    beginning jsonb, events jsonb, postings jsonb, known boolean, "position" bigint, bank_version bigint,
    bank_lives boolean, version bigint, messages int, lives boolean, quota boolean);

-- Accepts turns. Each element of p_turns: {turn, bank, session, user, digest, gateway, accepted_at, bytes,
-- begin: [...], events: [...], postings: [{unit, terms: {term: tf}, length}]}; events are envelopes,
-- not numbered yet; `begin` makes the bank and the session where they do not live. Answers each, in
-- order: accepted, duplicate (with the first position), conflict, busy (another request is writing it right now),
-- unborn (bank or session do not live, and nothing was brought to make them), held (somebody else writes to its bank or
-- session, and p_wait does not say to wait for that), or `over ...` (a quota is used up; see 21_quota.sql).
create or replace function afterturn.append_turns(p_host uuid, p_turns jsonb, p_wait boolean,
                                                  out outcomes text[], out positions bigint[])
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_locked record;
    v_turns afterturn.offered_turn[];
    v_turn afterturn.offered_turn;
    v_accepted afterturn.offered_turn[] := '{}';
    v_numbered record;
    v_seen uuid[] := '{}';
    v_priced jsonb;
    v_over jsonb := '{}';
    v_living boolean := true;
    v_quota boolean := false;
begin
    v_locked := afterturn.lock_turns(p_host, p_turns, p_wait);
    v_turns := afterturn.look_at_turns(p_host, p_turns);
    foreach v_turn in array coalesce(v_turns, '{}') loop
        positions := positions || v_turn.position;
        outcomes := outcomes || case
            when v_turn.ord = any (v_locked.busy) then 'busy'
            when v_turn.ord = any (v_locked.held) then 'held'
            when v_turn.known then 'duplicate'
            when not v_turn.known then 'conflict'
            when v_turn.turn = any (v_seen) then 'repeated'
            when v_turn.beginning is null and not (v_turn.bank_lives and v_turn.lives) then 'unborn'
            else 'accepted' end;
        if outcomes[v_turn.ord + 1] = 'accepted' then
            v_seen := v_seen || v_turn.turn;
            v_accepted := array_append(v_accepted, v_turn);
            v_living := v_living and v_turn.bank_lives and v_turn.lives;
            v_quota := v_turn.quota;
        end if;
    end loop;

    if not v_living then
        v_accepted := afterturn.lock_new_banks(p_host, v_accepted);
    end if;
    if v_quota then
        v_priced := afterturn.priced(p_host, p_turns, array(select a.ord from unnest(v_accepted) a));
        v_over := afterturn.over_quota(p_host, v_priced);
        v_accepted := array(select a from unnest(v_accepted) a where not v_over ? a.ord::text order by a.ord);
    end if;
    if v_accepted <> '{}' then
        v_numbered := afterturn.number_turns(p_host, v_accepted);
        v_accepted := v_numbered.p_turns;
        insert into afterturn.event_store_t select e.* from unnest(v_numbered.events) e;
        if v_living then  -- what such turns bring commutes (10_project.sql)
            perform afterturn.project_unit_retained(v_numbered.events);
            perform afterturn.project_session_appended(v_numbered.events);
        else
            perform afterturn.project(v_numbered.events);
        end if;
        perform afterturn.open_turns(p_host, v_accepted);
    end if;
    if v_priced is not null then
        perform afterturn.charge_quota(p_host, v_priced, array(select a.ord from unnest(v_accepted) a));
    end if;

    foreach v_turn in array v_accepted loop
        positions[v_turn.ord + 1] := v_turn.position;
    end loop;
    if v_over <> '{}' or 'repeated' = any (outcomes) then
        -- The same turn twice in one call: the second is what it would have been a moment later.
        select array_agg(case when t.outcome <> 'repeated' then coalesce(v_over->>t.ord::text, t.outcome)
                              when g.digest = t.digest then 'duplicate' else 'conflict' end order by t.ord),
               array_agg(coalesce(t.position, g.position) order by t.ord)
          into outcomes, positions
          from (select t.ord, t.turn, t.digest, outcomes[t.ord + 1] as outcome, positions[t.ord + 1] as position
                  from unnest(v_turns) t) t
          left join lateral (select g.digest, g.position from afterturn.turn_t g
                              where g.host_id = p_host and g.turn_id = t.turn and t.outcome = 'repeated' offset 0) g on true;
    end if;
end $$;

-- Locks come before anything is written: a writer that waited after writing would commit later under a smaller xid,
-- and readers of the log would see its events in the wrong order. Sorted, so batches cannot deadlock. The quota's lock is
-- held shared so that counting anew sees whole transactions. `busy` are the turns (ord) that somebody else is writing:
-- they are not waited for, nor their banks and sessions; `held` those of banks and sessions that were not to be waited for.
drop function if exists afterturn.lock_turns(uuid, jsonb);
create or replace function afterturn.lock_turns(p_host uuid, p_turns jsonb, p_wait boolean, out busy int[], out held int[])
language plpgsql as $$
declare
    v_banks bigint[] := '{}';
    v_sessions bigint[] := '{}';
    v_turn jsonb;
    v_bank bigint;
    v_session bigint;
    v_key bigint;
    v_done boolean;     -- what is assigned is an expression: a statement costs many times that, and here are many
begin
    busy := '{}';
    held := '{}';
    v_done := set_config('afterturn.host', p_host::text, true) is null;
    v_done := pg_advisory_xact_lock_shared(afterturn.log_lock()) is null;
    v_done := pg_advisory_xact_lock_shared(afterturn.lock_key('quota', p_host)) is null;
    for v_nth in 0..jsonb_array_length(p_turns) - 1 loop
        v_turn := p_turns->v_nth;
        v_bank := afterturn.lock_key('bank', (v_turn->>'bank')::uuid);
        v_session := afterturn.lock_key('session', (v_turn->>'session')::uuid);
        if not pg_try_advisory_xact_lock(afterturn.lock_key('turn', (v_turn->>'turn')::uuid)) then
            busy := busy || v_nth;
        elsif p_wait then
            v_banks := v_banks || v_bank;
            v_sessions := v_sessions || v_session;
        elsif not (pg_try_advisory_xact_lock_shared(v_bank) and pg_try_advisory_xact_lock(v_session)) then
            held := held || v_nth;
        end if;
    end loop;
    foreach v_key in array afterturn.sorted(v_banks) loop
        v_done := pg_advisory_xact_lock_shared(v_key) is null;
    end loop;
    foreach v_key in array afterturn.sorted(v_sessions) loop
        v_done := pg_advisory_xact_lock(v_key) is null;
    end loop;
end $$;

create or replace function afterturn.sorted(p_keys bigint[]) returns bigint[]
language plpgsql immutable as $$
begin
    if cardinality(p_keys) < 2 then
        return p_keys;
    end if;
    return array(select distinct k from unnest(p_keys) k order by k);
end $$;

-- What is offered, beside what is known of it by now, in order of ord.
create or replace function afterturn.look_at_turns(p_host uuid, p_turns jsonb) returns afterturn.offered_turn[]
language plpgsql as $$
begin
    return (
    select array_agg(row (t.nth - 1, t.turn, t.bank, t.session, t."user", decode(t.digest, 'hex'), t.gateway, t.accepted_at,
                          t.begin, t.events, t.postings, g.digest = decode(t.digest, 'hex'), g.position,
                          b.aggregate_version, b.active is true, coalesce(h.aggregate_version, 0),
                          coalesce(h.message_count, 0), h.active is true,
                          (select true from afterturn.quota_t q where q.host_id = p_host limit 1) is true)::afterturn.offered_turn order by t.nth)
      from rows from (jsonb_to_recordset(p_turns) as (
                          turn uuid, bank uuid, session uuid, "user" uuid, digest text, gateway boolean,
                          accepted_at timestamptz, begin jsonb, events jsonb, postings jsonb)) with ordinality
               as t(turn, bank, session, "user", digest, gateway, accepted_at, begin, events, postings, nth)
      left join lateral (select g.digest, g.position from afterturn.turn_t g
                          where g.host_id = p_host and g.turn_id = t.turn offset 0) g on true
      left join lateral (select b.active, b.aggregate_version from afterturn.agent_memory_bank_t b
                          where b.host_id = p_host and b.bank_id = t.bank offset 0) b on true
      left join lateral (select h.active, h.aggregate_version, h.message_count from afterturn.agent_session_history_t h
                          where h.host_id = p_host and h.bank_id = t.bank and h.session_id = t.session offset 0) h on true);
end $$;

-- A new bank is made by one writer; the others wait here, and then see it. Returns the turns with their banks as they
-- are by then.
create or replace function afterturn.lock_new_banks(p_host uuid, p_turns afterturn.offered_turn[])
returns afterturn.offered_turn[]
language plpgsql as $$
declare
    v_turn afterturn.offered_turn;
    v_looked afterturn.offered_turn[] := '{}';
begin
    perform pg_advisory_xact_lock(k.key)
       from (select distinct afterturn.lock_key('new bank', t.bank) as key
               from unnest(p_turns) t where not t.bank_lives order by 1) k;
    foreach v_turn in array p_turns loop
        if not v_turn.bank_lives then
            v_turn.bank_version := (select b.aggregate_version from afterturn.agent_memory_bank_t b
                                     where b.host_id = p_host and b.bank_id = v_turn.bank);
            v_turn.bank_lives := (select b.active from afterturn.agent_memory_bank_t b
                                   where b.host_id = p_host and b.bank_id = v_turn.bank) is true;
        end if;
        v_looked := array_append(v_looked, v_turn);
    end loop;
    return v_looked;
end $$;

-- Numbers the events of accepted turns: position, version of the session's history, message number in the session.
-- Of beginnings, those of banks and sessions that live already are left out; deleted ones begin again, under an id of
-- their own. Afterwards a turn's `position` is that of its last event, and `messages` the number of its first message.
create or replace function afterturn.number_turns(p_host uuid, inout p_turns afterturn.offered_turn[],
                                                  out events afterturn.event_store_t[])
language plpgsql as $$
declare
    v_made uuid[] := '{}';
    v_sessions uuid[] := '{}';
    v_versions bigint[] := '{}';
    v_messages int[] := '{}';
    v_turn afterturn.offered_turn;
    v_event jsonb;
    v_type text;
    v_at int;
    v_version bigint;
    v_more jsonb;
    v_id uuid;
begin
    events := '{}';
    for v_nth in 1..cardinality(p_turns) loop
        v_turn := p_turns[v_nth];
        v_at := array_position(v_sessions, v_turn.session);
        if v_at is null then
            v_at := cardinality(v_sessions) + 1;
            v_sessions[v_at] := v_turn.session;
            v_versions[v_at] := v_turn.version;
            v_messages[v_at] := v_turn.messages;
        else
            v_turn.lives := true;
        end if;
        if not (v_turn.lives and v_turn.bank_lives) then
            v_turn.events := coalesce(v_turn.beginning, '[]') || v_turn.events;
        end if;
        v_turn.messages := v_messages[v_at];
        for v_place in 0..jsonb_array_length(v_turn.events) - 1 loop
            v_event := v_turn.events->v_place;
            v_type := v_event->>'type';
            v_id := (v_event->>'id')::uuid;
            v_version := 1;
            v_more := '{}';
            if v_type = 'AgentMemoryUnitRetainedEvent' then
                v_more := jsonb_build_object('sequence', v_messages[v_at]);
                v_messages[v_at] := v_messages[v_at] + 1;
            elsif v_type in ('AgentSessionHistoryAppendedEvent', 'AgentSessionHistoryCreatedEvent') then
                continue when v_type = 'AgentSessionHistoryCreatedEvent' and v_turn.lives;
                v_version := v_versions[v_at] + 1;
                v_versions[v_at] := v_version;
            elsif v_type = 'AgentMemoryBankCreatedEvent' then
                continue when v_turn.bank_lives or v_turn.bank = any (v_made);
                v_made := v_made || v_turn.bank;
                v_version := coalesce(v_turn.bank_version, 0) + 1;
            end if;
            if v_version > 1 then
                v_more := jsonb_build_object('aggregateVersion', v_version - 1, 'newAggregateVersion', v_version);
                if v_type like '%CreatedEvent' then
                    v_id := md5(v_id::text || '@' || v_version)::uuid;
                end if;
            end if;
            v_turn.position := nextval('afterturn.log_position_seq');
            events := array_append(events, row (
                v_id, p_host, v_turn."user", v_turn.position, v_event->>'subject', v_version, v_event->>'aggregatetype',
                v_type, v_turn.accepted_at,
                v_event || jsonb_build_object('id', v_id, 'nonce', v_turn.position, 'aggregateversion', v_version,
                                              'data', v_event->'data' || v_more),
                null, v_turn.bank, v_turn.position, pg_current_xact_id())::afterturn.event_store_t);
        end loop;
        p_turns[v_nth] := v_turn;
    end loop;
end $$;

-- What stands beside the projections of an accepted turn: its guard, its words, and a ledger row for each stage.
-- `messages` is the number of the turn's first message in its session.
create or replace function afterturn.open_turns(p_host uuid, p_turns afterturn.offered_turn[]) returns void
language plpgsql as $$
begin
    with guarded as (
        insert into afterturn.turn_t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
        select p_host, a.turn, a.bank, a.session, a."user", a.digest, a.position, a.accepted_at
          from unnest(p_turns) a
    ), worded as (
        insert into afterturn.unit_word_t (host_id, bank_id, unit_id, session_id, seq, length, terms)
        select p_host, a.bank, w.unit, a.session, a.messages + w.nth - 1, w.length, w.terms
          from unnest(p_turns) a,
               rows from (jsonb_to_recordset(a.postings) as (unit uuid, terms jsonb, length int))
                   with ordinality as w(unit, terms, length, nth)
    )
    -- The projection row waits (infinity) until extraction has said what the turn names.
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position,
                                    status, next_attempt_at, accepted_at, updated_at)
    select p_host, s.stage, a.turn, s.stream, a.bank, a.session, a.turn, a.position,
           s.status, s.ready, a.accepted_at, a.accepted_at
      from unnest(p_turns) a,
           lateral (values ('gateway', a.session, case when a.gateway then 'pending' else 'skipped' end, now()),
                           ('extraction', a.session, 'pending', now()),
                           ('embedding', a.turn, 'pending', now()),
                           ('projection', a.bank, 'pending', 'infinity'))
                as s(stage, stream, status, ready);
end $$;
