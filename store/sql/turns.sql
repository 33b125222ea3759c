-- The write path: accepted turns become events, projections, words and ledger rows in one call.
--
-- `v_done := f() is null` stands for PERFORM: plpgsql evaluates a simple expression without SPI, which costs many times less.

-- Accepts turns, none of them named twice (`afterturn.offered_turn`; its fields:
-- store/migrations/versions/0006_event_data.sql). Of each: its ids, a keyed digest of its body, whether a gateway may get
-- it, when it came, the bytes of its messages, whether it brings what makes its bank and session where they do not live
-- (`begins`), the number of the turn before it for the same session (`follows`, 0 for none), and its events, whole: what is
-- said comes with its terms and its length in words. Answers each turn: accepted, duplicate (with the first position),
-- conflict, ended (it is known, and its bank has ended since), busy (another request is writing it right now), unborn (bank or session do not live, and nothing was brought to
-- make them), held (another writer has its bank or session, and p_wait does not say to wait for that), or `over ...` (a
-- quota is used up). `delivers`: whether the turn, if it is accepted, is handed to a gateway.
create or replace function afterturn.append_turns(
    p_host uuid, p_turns afterturn.offered_turn[], p_wait boolean,
    out outcomes text[], out positions bigint[], out delivers boolean[])
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_targets uuid[];
    v_priced jsonb;
    v_over jsonb;
    v_new record;
    v_done boolean;
begin
    outcomes := afterturn.lock_turns(p_host, p_turns, p_wait);
    v_done := afterturn.lock_new_banks(p_host, p_turns, outcomes) is null;
    if exists (select from afterturn.quota_t q where q.host_id = p_host) then
        v_priced := afterturn.priced(p_host, p_turns, outcomes);
        v_over := afterturn.over_quota(p_host, v_priced);
        outcomes := array(select coalesce(o.outcome, v_over->>(o.nth - 1)::text)
                            from unnest(outcomes) with ordinality as o(outcome, nth) order by o.nth);
    end if;
    v_targets := afterturn.targets_of(p_host, p_turns);
    for t in 1..cardinality(p_turns) loop
        delivers[t] := v_targets[t] is not null;
    end loop;
    v_new := afterturn.write_turns(p_host, p_turns, outcomes, v_targets);
    outcomes := v_new.outcomes;
    positions := v_new.positions;
    if v_new.turns = '{}' then
        return;
    end if;
    if v_new.living then  -- what such turns bring commutes (projections.sql)
        v_done := afterturn.project_unit_retained(v_new.events, true) is null
               or afterturn.project_session_appended(v_new.events) is null;
    else
        v_done := afterturn.project(v_new.events) is null;
    end if;
    v_done := afterturn.open_turns(p_host, v_new.turns, v_new.said) is null;
    if v_priced is not null then
        perform afterturn.charge_quota(p_host, v_priced, array(
            select o.nth::int - 1 from unnest(outcomes) with ordinality as o(outcome, nth) where o.outcome = 'accepted'));
    end if;
end $$;

-- Accepts turns as append_turns does, and keeps the traceparent of each (null where there is none) in the ledger's rows that an
-- accepted one opens. Who traces nothing calls append_turns itself, and no row is written twice.
create or replace function afterturn.append_traced_turns(
    p_host uuid, p_turns afterturn.offered_turn[], p_wait boolean, p_traceparents text[],
    out outcomes text[], out positions bigint[], out delivers boolean[])
language plpgsql set plan_cache_mode to force_generic_plan set enable_seqscan to off set search_path to afterturn, public as $$
declare
    v_traced uuid[] := '{}';
    v_kept text[] := '{}';
begin
    select a.outcomes, a.positions, a.delivers into outcomes, positions, delivers
      from afterturn.append_turns(p_host, p_turns, p_wait) a;
    for t in 1..cardinality(p_turns) loop
        if outcomes[t] = 'accepted' and p_traceparents[t] is not null then
            v_traced := v_traced || p_turns[t].turn;
            v_kept := v_kept || p_traceparents[t];
        end if;
    end loop;
    update afterturn.ledger_t l set traceparent = w.traceparent
      from unnest(v_traced, v_kept) as w(turn, traceparent)
     where l.host_id = p_host and l.turn_id = w.turn;
end $$;

-- Accepts turns as append_traced_turns does, each on the authority of its call (authority.sql). Where one of these has ended,
-- nothing is written: it is answered with `revoked` or `erased`, and the others with `held`.
create or replace function afterturn.accept_turns(
    p_host uuid, p_turns afterturn.offered_turn[], p_wait boolean, p_traceparents text[], p_calls afterturn.call_authority[],
    out outcomes text[], out positions bigint[], out delivers boolean[])
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_done record;
begin
    outcomes := afterturn.judge_turns(p_host, p_turns, p_calls, p_wait);
    if outcomes is not null then
        positions := array_fill(null::bigint, array[cardinality(p_turns)]);
        delivers := array_fill(false, array[cardinality(p_turns)]);
        return;
    end if;
    if array_remove(p_traceparents, null) = '{}' then
        v_done := afterturn.append_turns(p_host, p_turns, p_wait);
    else
        v_done := afterturn.append_traced_turns(p_host, p_turns, p_wait, p_traceparents);
    end if;
    outcomes := v_done.outcomes;
    positions := v_done.positions;
    delivers := v_done.delivers;
end $$;

-- Locks come before anything is written: a writer that waited after writing would commit later under a smaller xid,
-- and readers of the log would see its events in the wrong order. Sorted, so batches cannot deadlock. The quota's lock is
-- held shared so that counting anew sees whole transactions. Returns `busy` for turns that another call is writing: they
-- are not waited for, nor their banks and sessions; `held` for those whose bank or session was not to be waited for.
create or replace function afterturn.lock_turns(p_host uuid, p_turns afterturn.offered_turn[], p_wait boolean)
returns text[] language plpgsql as $$
declare
    v_outcomes text[] := array_fill(null::text, array[cardinality(p_turns)]);
    v_banks bigint[] := '{}';
    v_sessions bigint[] := '{}';
    v_turn afterturn.offered_turn;
    v_nth int := 0;
    v_key bigint;
    v_done boolean;
begin
    v_done := set_config('afterturn.host', p_host::text, true) is null
           or afterturn.enter_log() is null
           or pg_advisory_xact_lock_shared(afterturn.lock_key('quota', p_host)) is null;
    foreach v_turn in array p_turns loop
        v_nth := v_nth + 1;
        if not pg_try_advisory_xact_lock(afterturn.lock_key('turn', v_turn.turn)) then
            v_outcomes[v_nth] := 'busy';
        elsif p_wait then
            v_banks := v_banks || afterturn.lock_key('bank', v_turn.bank);
            v_sessions := v_sessions || afterturn.lock_key('session', v_turn.session);
        elsif not (pg_try_advisory_xact_lock_shared(afterturn.lock_key('bank', v_turn.bank))
                   and pg_try_advisory_xact_lock(afterturn.lock_key('session', v_turn.session))) then
            v_outcomes[v_nth] := 'held';
        end if;
    end loop;
    if p_wait then
        foreach v_key in array array(select distinct k from unnest(v_banks) k order by k) loop
            v_done := pg_advisory_xact_lock_shared(v_key) is null;
        end loop;
        foreach v_key in array array(select distinct k from unnest(v_sessions) k order by k) loop
            v_done := pg_advisory_xact_lock(v_key) is null;
        end loop;
    end if;
    return v_outcomes;
end $$;

-- A new bank is made by one writer; the others wait here, and then see it.
create or replace function afterturn.lock_new_banks(p_host uuid, p_turns afterturn.offered_turn[], p_outcomes text[]) returns void
language plpgsql as $$
declare
    v_turn afterturn.offered_turn;
    v_nth int := 0;
    v_keys bigint[] := '{}';
begin
    foreach v_turn in array p_turns loop
        v_nth := v_nth + 1;
        if v_turn.begins and p_outcomes[v_nth] is null
           and (select b.active from afterturn.agent_memory_bank_t b
                 where b.host_id = p_host and b.bank_id = v_turn.bank) is not true then
            v_keys := v_keys || afterturn.lock_key('new bank', v_turn.bank);
        end if;
    end loop;
    if v_keys <> '{}' then
        perform pg_advisory_xact_lock(k.key) from (select distinct k as key from unnest(v_keys) k order by k) k;
    end if;
end $$;

-- Whether a bank has ended after a position of the log, even if it was begun anew since, or has expired by a time.
-- WHY plpgsql: a body that is bound to the tables would be dropped with them, when a replay swaps them.
create or replace function afterturn.bank_has_ended(p_host uuid, p_bank uuid, p_position bigint, p_at timestamptz) returns boolean
language plpgsql stable as $$
begin
    return exists (select from afterturn.event_store_t e
                    where e.host_id = p_host and e.bank_id = p_bank and e.aggregate_key = '' and e.position > p_position
                      and e.event_type = 'AgentMemoryBankDeletedEvent')
        or exists (select from afterturn.agent_memory_bank_t b
                    where b.host_id = p_host and b.bank_id = p_bank and b.expires_at <= p_at);
end $$;

-- Decides what becomes of turns that have no outcome yet, and writes the events of those that are accepted to the log, with
-- the version of the session's history and the number of each message in its session. Of beginnings, those of banks and sessions that
-- live already are left out; deleted ones begin again, under an id of their own. A message has the metadata of its turn's
-- history event, before it, unless it brings its own. A turn's position is that of its last event. `living`: whether all of it
-- is said in banks and sessions that lived before.
create or replace function afterturn.write_turns(
    p_host uuid, p_turns afterturn.offered_turn[], inout outcomes text[], p_targets uuid[], out positions bigint[],
    out living boolean, out events afterturn.event_store_t[], out turns afterturn.accepted_turn[],
    out said afterturn.said_unit[])
language plpgsql as $$
declare
    v_turn afterturn.offered_turn;
    v_event afterturn.turn_event;
    t int := 0;
    v_known record;
    v_lives boolean[];
    v_versions bigint[];
    v_messages int[];
    v_made uuid[] := '{}';
    v_version bigint;
    v_shared jsonb;
    v_lasts int[] := '{}';      -- of each accepted turn the number of its last event
begin
    living := true;
    events := '{}';
    turns := '{}';
    said := '{}';
    foreach v_turn in array p_turns loop
        t := t + 1;
        select g.digest, g.position, b.active as bank_lives, b.aggregate_version as bank_version, b.expires_at as bank_ends,
               h.active as lives, h.aggregate_version as version, h.message_count as messages
          into v_known
          from (values (p_host)) one(host_id)
          left join afterturn.turn_t g on g.host_id = p_host and g.turn_id = v_turn.turn
          left join afterturn.agent_memory_bank_t b on b.host_id = p_host and b.bank_id = v_turn.bank
          left join afterturn.agent_session_history_t h
            on h.host_id = p_host and h.bank_id = v_turn.bank and h.session_id = v_turn.session;
        if v_turn.follows > 0 then
            v_lives[t] := v_lives[v_turn.follows];
            v_versions[t] := v_versions[v_turn.follows];
            v_messages[t] := v_messages[v_turn.follows];
        else
            v_lives[t] := v_known.lives;
            v_versions[t] := coalesce(v_known.version, 0);
            v_messages[t] := coalesce(v_known.messages, 0);
        end if;
        positions[t] := v_known.position;
        outcomes[t] := coalesce(outcomes[t], case
            -- Nested, since `and` asks about the bank of a new turn as well.
            when v_known.digest = v_turn.digest then case
                when afterturn.bank_has_ended(p_host, v_turn.bank, v_known.position, v_turn.accepted_at) then 'ended'
                else 'duplicate' end
            when v_known.digest <> v_turn.digest then 'conflict'
            when v_known.bank_lives and v_known.bank_ends <= v_turn.accepted_at then 'expired'
            when v_turn.begins or (v_known.bank_lives and v_known.lives) then 'accepted'
            else 'unborn' end);
        continue when outcomes[t] <> 'accepted';
        v_shared := '{}';
        foreach v_event in array v_turn.events loop
            v_version := 1;
            if v_event.type = 'AgentMemoryUnitRetainedEvent' then
                v_event.data := v_shared || v_event.data || jsonb_build_object('sequence', v_messages[t]);
                said := array_append(said, row (v_turn.bank, (v_event.data->>'unitId')::uuid, v_turn.session, v_messages[t],
                                                v_event.length, v_event.terms)::afterturn.said_unit);
                v_messages[t] := v_messages[t] + 1;
            elsif v_event.type = 'AgentSessionHistoryAppendedEvent' then
                v_version := v_versions[t] + 1;
                v_versions[t] := v_version;
                v_shared := jsonb_build_object('metadata', v_event.data->'metadata');
            elsif v_event.type = 'AgentSessionHistoryCreatedEvent' then
                continue when v_lives[t];
                v_lives[t] := true;
                v_version := v_versions[t] + 1;
                v_versions[t] := v_version;
            elsif v_event.type = 'AgentMemoryBankCreatedEvent' then
                continue when v_known.bank_lives or v_turn.bank = any (v_made);
                v_made := v_made || v_turn.bank;
                v_version := coalesce(v_known.bank_version, 0) + 1;
            end if;
            living := living and v_event.type in ('AgentMemoryUnitRetainedEvent', 'AgentSessionHistoryAppendedEvent');
            if v_version > 1 and v_event.type like '%CreatedEvent' then
                v_event.id := md5(v_event.id::text || '@' || v_version)::uuid;
            end if;
            events := array_append(events, row (
                v_event.id, p_host, v_turn."user", afterturn.key_of(v_event.subject), v_version, v_event.aggregate, v_event.type,
                v_turn.accepted_at, null, v_turn.bank, null, null, v_event.data)::afterturn.event_store_t);
        end loop;
        v_lasts[t] := cardinality(events);
    end loop;
    if events = '{}' then
        return;
    end if;
    events := afterturn.insert_events(events, false);
    t := 0;
    foreach v_turn in array p_turns loop
        t := t + 1;
        continue when v_lasts[t] is null;
        positions[t] := events[v_lasts[t]].position;
        turns := array_append(turns, row (v_turn.turn, v_turn.bank, v_turn.session, v_turn."user", v_turn.digest, p_targets[t],
                                          v_turn.accepted_at, v_turn.bytes, positions[t])::afterturn.accepted_turn);
    end loop;
end $$;

-- The gateway target of each of these banks: its own, else the tenant's; null where there is none or none is wanted. A host
-- without targets pays one probe an append.
create or replace function afterturn.targets_of(p_host uuid, p_turns afterturn.offered_turn[]) returns uuid[]
language plpgsql stable as $$
begin
    if not exists (select from afterturn.gateway_target_t g where g.host_id = p_host and g.replaced_at is null
                      and g.unset_at is null) then
        return array_fill(null::uuid, array[cardinality(p_turns)]);
    end if;
    return array(
        select (select g.target_id from afterturn.gateway_target_t g
                 where w.gateway and g.host_id = p_host and coalesce(g.bank_id, g.host_id) in (w.bank, p_host)
                   and g.replaced_at is null and g.unset_at is null
                 order by g.bank_id nulls last limit 1)
          from unnest(p_turns) with ordinality
               as w(turn, bank, session, "user", digest, gateway, at, bytes, begins, follows, events, nth) order by w.nth);
end $$;

-- Writes what accepted turns need beside their projections: the guard row that makes a turn unique, the words of its units
-- for lexical recall, and a ledger row for each stage. A turn without a gateway target has no row of the gateway.
create or replace function afterturn.open_turns(
    p_host uuid, p_turns afterturn.accepted_turn[], p_said afterturn.said_unit[]) returns void
language plpgsql as $$
begin
    insert into afterturn.turn_t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
    select p_host, t.turn, t.bank, t.session, t."user", t.digest, t.position, t.accepted_at from unnest(p_turns) t;
    insert into afterturn.unit_word_t (host_id, bank_id, unit_id, session_id, seq, length, terms)
    select p_host, w.bank, w.unit, w.session, w.seq, w.length, w.terms from unnest(p_said) w;
    -- A deferred row (infinity) is released by another stage: the end of extraction releases projection.
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position,
                                    next_attempt_at, accepted_at, updated_at, target_id, bytes)
    select p_host, s.stage, t.turn, case s.stream when 'session' then t.session when 'bank' then t.bank else t.turn end,
           t.bank, t.session, t.turn, t.position, case when s.waits then 'infinity' else now() end, t.accepted_at,
           t.accepted_at, case when s.stage = 'gateway' then t.target end, t.bytes
      from unnest(p_turns) t, afterturn.stages() s
     where s.opened_by_turn and (s.stage <> 'gateway' or t.target is not null);
end $$;
