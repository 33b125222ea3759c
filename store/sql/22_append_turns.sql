-- The write path: what a door accepted becomes events, projections, words and ledger rows in one call.
--
-- What is offered arrives as columns, what is written leaves as rows: to read many arrays side by side as a table takes
-- longer than to write the rows of a turn. What is assigned is an expression: a statement costs many times that.

-- Accepts turns, none of them named twice. Of each: its ids, a keyed digest of its body, whether a gateway may get it, when
-- it came, the bytes of its messages, whether it brings what makes its bank and session where they do not live
-- (`p_begins`), the number of the turn before it for the same session (`p_follows`, 0 for none), and of its last event
-- (`p_ends`). Of each event, turn after turn: its id, type, subject and aggregate, and its envelope as JSON that ends within
-- its data, two braces short; of what is said, too, the unit, its terms and its length in words. Answers each turn:
-- accepted, duplicate (with the first position), conflict, busy (another request is writing it right now), unborn (bank or
-- session do not live, and nothing was brought to make them), held (somebody else writes to its bank or session, and p_wait
-- does not say to wait for that), or `over ...` (a quota is used up; see 21_quota.sql). `delivers`: whether the turn, if
-- it is accepted, is handed to a gateway.
create or replace function afterturn.append_turns(
    p_host uuid, p_wait boolean,
    p_turns uuid[], p_banks uuid[], p_sessions uuid[], p_users uuid[], p_digests bytea[], p_gateway boolean[],
    p_at timestamptz[], p_bytes bigint[], p_begins boolean[], p_follows int[], p_ends int[],
    p_ids uuid[], p_types text[], p_subjects text[], p_aggregates text[], p_envelopes text[],
    p_units uuid[], p_terms text[], p_lengths int[], out outcomes text[], out positions bigint[],
    out delivers boolean[])
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_targets uuid[];
    v_priced jsonb;
    v_over jsonb;
    v_new record;
    v_done boolean;
begin
    outcomes := afterturn.lock_turns(p_host, p_turns, p_banks, p_sessions, p_wait);
    if true = any (p_begins) then
        -- A new bank is made by one writer; the others wait here, and then see it.
        perform pg_advisory_xact_lock(k.key)
           from (select distinct afterturn.lock_key('new bank', t.bank) as key
                   from unnest(p_banks, p_begins, outcomes) as t(bank, begins, outcome)
                  where t.begins and t.outcome is null and (
                        select b.active from afterturn.agent_memory_bank_t b
                         where b.host_id = p_host and b.bank_id = t.bank) is not true order by 1) k;
    end if;
    if exists (select from afterturn.quota_t q where q.host_id = p_host) then
        v_priced := afterturn.priced(p_host, p_turns, p_banks, p_bytes, p_at, outcomes);
        v_over := afterturn.over_quota(p_host, v_priced);
        outcomes := array(select coalesce(o.outcome, v_over->>(o.nth - 1)::text)
                            from unnest(outcomes) with ordinality as o(outcome, nth) order by o.nth);
    end if;
    v_targets := afterturn.targets_of(p_host, p_banks, p_gateway);
    delivers := array(select t.target is not null from unnest(v_targets) with ordinality as t(target, nth) order by t.nth);
    v_new := afterturn.number_turns(
        p_host, outcomes, p_turns, p_banks, p_sessions, p_users, p_digests, v_targets, p_at, p_bytes, p_begins, p_follows,
        p_ends, p_ids, p_types, p_subjects, p_aggregates, p_envelopes, p_units, p_terms, p_lengths);
    outcomes := v_new.outcomes;
    positions := v_new.positions;
    if v_new.turns = '{}' then
        return;
    end if;
    insert into afterturn.event_store_t select e.* from unnest(v_new.events) e;
    if v_new.living then  -- what such turns bring commutes (10_project.sql)
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

-- Locks come before anything is written: a writer that waited after writing would commit later under a smaller xid,
-- and readers of the log would see its events in the wrong order. Sorted, so batches cannot deadlock. The quota's lock is
-- held shared so that counting anew sees whole transactions. Returns `busy` for turns that somebody else is writing: they
-- are not waited for, nor their banks and sessions; `held` for those whose bank or session was not to be waited for.
create or replace function afterturn.lock_turns(p_host uuid, p_turns uuid[], p_banks uuid[], p_sessions uuid[], p_wait boolean)
returns text[] language plpgsql as $$
declare
    v_outcomes text[] := array_fill(null::text, array[cardinality(p_turns)]);
    v_banks bigint[] := '{}';
    v_sessions bigint[] := '{}';
    v_key bigint;
    v_done boolean;
begin
    v_done := set_config('afterturn.host', p_host::text, true) is null
           or afterturn.enter_log() is null
           or pg_advisory_xact_lock_shared(afterturn.lock_key('quota', p_host)) is null;
    for v_nth in 1..cardinality(p_turns) loop
        if not pg_try_advisory_xact_lock(afterturn.lock_key('turn', p_turns[v_nth])) then
            v_outcomes[v_nth] := 'busy';
        elsif p_wait then
            v_banks := v_banks || afterturn.lock_key('bank', p_banks[v_nth]);
            v_sessions := v_sessions || afterturn.lock_key('session', p_sessions[v_nth]);
        elsif not (pg_try_advisory_xact_lock_shared(afterturn.lock_key('bank', p_banks[v_nth]))
                   and pg_try_advisory_xact_lock(afterturn.lock_key('session', p_sessions[v_nth]))) then
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

-- Decides what becomes of turns that have no outcome yet, and numbers the events of those that are accepted: position,
-- version of the session's history, number of a message in its session. Of beginnings, those of banks and sessions that
-- live already are left out; deleted ones begin again, under an id of their own. A turn's position is that of its last
-- event. `living`: whether all banks and sessions of accepted turns lived before.
create or replace function afterturn.number_turns(
    p_host uuid, inout outcomes text[], p_turns uuid[], p_banks uuid[], p_sessions uuid[], p_users uuid[], p_digests bytea[],
    p_targets uuid[], p_at timestamptz[], p_bytes bigint[], p_begins boolean[], p_follows int[], p_ends int[], p_ids uuid[],
    p_types text[], p_subjects text[], p_aggregates text[], p_envelopes text[], p_units uuid[], p_terms text[], p_lengths int[],
    out positions bigint[], out living boolean, out events afterturn.event_store_t[], out turns afterturn.accepted_turn[],
    out said afterturn.said_unit[])
language plpgsql as $$
declare
    v_known record;
    v_lives boolean[];
    v_versions bigint[];
    v_messages int[];
    v_made uuid[] := '{}';
    v_type text;
    v_id uuid;
    v_version bigint;
    v_more text;
    v_position bigint;
begin
    living := true;
    events := '{}';
    turns := '{}';
    said := '{}';
    for t in 1..cardinality(p_turns) loop
        select g.digest, g.position, b.active as bank_lives, b.aggregate_version as bank_version, h.active as lives,
               h.aggregate_version as version, h.message_count as messages
          into v_known
          from (values (p_host)) one(host_id)
          left join afterturn.turn_t g on g.host_id = p_host and g.turn_id = p_turns[t]
          left join afterturn.agent_memory_bank_t b on b.host_id = p_host and b.bank_id = p_banks[t]
          left join afterturn.agent_session_history_t h
            on h.host_id = p_host and h.bank_id = p_banks[t] and h.session_id = p_sessions[t];
        if p_follows[t] > 0 then
            v_lives[t] := v_lives[p_follows[t]];
            v_versions[t] := v_versions[p_follows[t]];
            v_messages[t] := v_messages[p_follows[t]];
        else
            v_lives[t] := v_known.lives;
            v_versions[t] := coalesce(v_known.version, 0);
            v_messages[t] := coalesce(v_known.messages, 0);
        end if;
        positions[t] := v_known.position;
        outcomes[t] := coalesce(outcomes[t], case
            when v_known.digest = p_digests[t] then 'duplicate'
            when v_known.digest <> p_digests[t] then 'conflict'
            when p_begins[t] or (v_known.bank_lives and v_known.lives) then 'accepted'
            else 'unborn' end);
        continue when outcomes[t] <> 'accepted';
        living := living and v_known.bank_lives is true and v_known.lives is true;
        for e in coalesce(p_ends[t - 1], 0) + 1..p_ends[t] loop
            v_type := p_types[e];
            v_id := p_ids[e];
            v_version := 1;
            v_more := '';
            if v_type = 'AgentMemoryUnitRetainedEvent' then
                v_more := ',"sequence":' || v_messages[t];
                said := array_append(said, row (p_banks[t], p_units[e], p_sessions[t], v_messages[t], p_lengths[e],
                                                p_terms[e]::jsonb)::afterturn.said_unit);
                v_messages[t] := v_messages[t] + 1;
            elsif v_type = 'AgentSessionHistoryAppendedEvent' then
                v_version := v_versions[t] + 1;
                v_versions[t] := v_version;
            elsif v_type = 'AgentSessionHistoryCreatedEvent' then
                continue when v_lives[t];
                v_lives[t] := true;
                v_version := v_versions[t] + 1;
                v_versions[t] := v_version;
            elsif v_type = 'AgentMemoryBankCreatedEvent' then
                continue when v_known.bank_lives or p_banks[t] = any (v_made);
                v_made := v_made || p_banks[t];
                v_version := coalesce(v_known.bank_version, 0) + 1;
            end if;
            if v_version > 1 then
                v_more := ',"aggregateVersion":' || v_version - 1 || ',"newAggregateVersion":' || v_version;
                if v_type like '%CreatedEvent' then
                    v_id := md5(v_id::text || '@' || v_version)::uuid;
                end if;
            end if;
            v_position := nextval('afterturn.log_position_seq');
            -- Of a name that stands in JSON twice, the last holds.
            events := array_append(events, row (
                v_id, p_host, p_users[t], v_position, p_subjects[e], v_version, p_aggregates[e], v_type, p_at[t],
                (p_envelopes[e] || v_more || '},"id":"' || v_id || '","nonce":' || v_position
                 || ',"aggregateversion":' || v_version || '}')::jsonb,
                null, p_banks[t], v_position, pg_current_xact_id())::afterturn.event_store_t);
        end loop;
        positions[t] := v_position;
        turns := array_append(turns, row (p_turns[t], p_banks[t], p_sessions[t], p_users[t], p_digests[t], p_targets[t],
                                          p_at[t], p_bytes[t], v_position)::afterturn.accepted_turn);
    end loop;
end $$;

-- The gateway target of each of these banks: its own, else the tenant's; null where there is none or none is wanted. A host
-- without targets pays one probe an append.
create or replace function afterturn.targets_of(p_host uuid, p_banks uuid[], p_wanted boolean[]) returns uuid[]
language plpgsql stable as $$
begin
    if not true = any (p_wanted)
       or not exists (select from afterturn.gateway_target_t g where g.host_id = p_host and g.replaced_at is null
                         and g.unset_at is null) then
        return array_fill(null::uuid, array[cardinality(p_banks)]);
    end if;
    return array(
        select (select g.target_id from afterturn.gateway_target_t g
                 where w.wanted and g.host_id = p_host and coalesce(g.bank_id, g.host_id) in (w.bank, p_host)
                   and g.replaced_at is null and g.unset_at is null
                 order by g.bank_id nulls last limit 1)
          from unnest(p_banks, p_wanted) with ordinality as w(bank, wanted, nth) order by w.nth);
end $$;

-- What stands beside the projections of an accepted turn: its guard, its words, and a ledger row for each stage. There is
-- none for the gateway where the turn is handed to none.
create or replace function afterturn.open_turns(
    p_host uuid, p_turns afterturn.accepted_turn[], p_said afterturn.said_unit[]) returns void
language plpgsql as $$
begin
    insert into afterturn.turn_t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
    select p_host, t.turn, t.bank, t.session, t."user", t.digest, t.position, t.accepted_at from unnest(p_turns) t;
    insert into afterturn.unit_word_t (host_id, bank_id, unit_id, session_id, seq, length, terms)
    select p_host, w.bank, w.unit, w.session, w.seq, w.length, w.terms from unnest(p_said) w;
    -- The projection row waits (infinity) until extraction has said what the turn names.
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position,
                                    next_attempt_at, accepted_at, updated_at, target_id, bytes)
    select p_host, s.stage, t.turn, s.stream, t.bank, t.session, t.turn, t.position,
           s.ready, t.accepted_at, t.accepted_at, s.target, t.bytes
      from unnest(p_turns) t,
           lateral (values ('gateway', t.session, now(), t.target),
                           ('extraction', t.session, now(), null),
                           ('embedding', t.turn, now(), null),
                           ('projection', t.bank, 'infinity', null))
                as s(stage, stream, ready, target)
     where s.stage <> 'gateway' or s.target is not null;
end $$;
