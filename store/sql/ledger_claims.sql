-- The ledger's transitions. A worker claims streams (a session, a bank, or a single item), works without a database
-- connection, and ends rows in the transaction that writes its result.

-- Claims up to p_streams streams that have ready work and no live lease, and returns their first p_rows rows.
-- Attempts are counted here, before the work: a row that kills its worker reaches quarantine, too.
-- p_ordered: no row overtakes an earlier row of its stream that waits for its next attempt.
-- p_valve: the newest first, but rows older than this before all; null: the oldest first.
-- p_by_bank: streams of few banks rather than of many.
-- p_bytes: limit for the bytes of all claimed turns. The first row of each stream comes before the second of any, in
-- the order in which tenants take turns; the very first row is claimed at any size, beside rows of p_bytes: another
-- tenant's small turn does not wait for a large one. A stream without rows is not claimed.
-- A row that was tried before is claimed alone, so that a row that kills its worker takes no other into quarantine.
-- Concurrent claims skip each other's streams. The insert alone would be correct, but both would try the same streams
-- and wait at each for the other, only to find it claimed.
create or replace function afterturn.claim_work(p_stage text, p_streams int, p_rows int, p_lease interval,
                                                p_worker text, p_ordered boolean, p_max_attempts int,
                                                p_valve interval default null, p_by_bank boolean default false,
                                                p_bytes bigint default null)
returns table (host_id uuid, stream_id uuid, epoch bigint, item_id uuid, bank_id uuid, session_id uuid, turn_id uuid,
               "position" bigint, status text, attempts int, accepted_at timestamptz)
language plpgsql set plan_cache_mode to force_generic_plan set enable_seqscan to off as $$
#variable_conflict use_column
declare
    v_hosts uuid[];
    v_streams uuid[];
    v_epochs bigint[];
begin
    -- Only winning the claim makes a stream ours; its rows are read by the next statement, whose snapshot shows
    -- what the previous holder left behind.
    with waiting as (
        select * from afterturn.ready_streams(p_stage, 2 * p_streams, p_ordered, p_valve, p_by_bank)
          with ordinality as w(host_id, stream_id, "position", attempts, nth)
         where pg_try_advisory_xact_lock(afterturn.lock_key(p_stage, w.stream_id)) limit p_streams
    ), ready as (
        -- Two rows of one position head their stream together.
        select w.host_id, w.stream_id, min(w.nth) as nth
          from (select w.*, row_number() over o as place, bool_or(w.attempts > 0) over o as tried
                  from waiting w window o as (order by w.nth rows unbounded preceding)) w
         where w.place = 1 or not w.tried
         group by w.host_id, w.stream_id
    ), won as (
        insert into afterturn.claim_t as c (host_id, stage, stream_id, epoch, lease_until, worker)
        select r.host_id, p_stage, r.stream_id, nextval('afterturn.claim_epoch_seq'), now() + p_lease, p_worker
          from ready r order by r.host_id, r.stream_id
        on conflict (host_id, stage, stream_id) do update
           set epoch = excluded.epoch, lease_until = excluded.lease_until, worker = excluded.worker
         where c.lease_until <= now()
        returning c.host_id, c.stream_id, c.epoch
    )
    select array_agg(w.host_id order by r.nth), array_agg(w.stream_id order by r.nth), array_agg(w.epoch order by r.nth)
      into v_hosts, v_streams, v_epochs
      from won w join ready r using (host_id, stream_id);

    return query
    with held as (
        select c.host_id, c.stream_id, c.epoch, r.item_id, r.attempts >= p_max_attempts as exhausted,
               sum(case when r.large then 0 else r.bytes end) over given as bytes, r.large,
               row_number() over given as place
          from unnest(v_hosts, v_streams, v_epochs) with ordinality as c(host_id, stream_id, epoch, turn),
               lateral (select l.item_id, l.attempts, l.bytes, row_number() over o as nth,
                               bool_or(l.attempts > 0) over o as tried, bool_or(l.next_attempt_at > now()) over o as waits,
                               bool_or(l.bytes > p_bytes) over o as large
                          from (select l.* from afterturn.ledger_t l
                                 where l.host_id = c.host_id and l.stage = p_stage and l.stream_id = c.stream_id
                                   and l.undone and l.next_attempt_at < 'infinity'
                                   and (p_ordered or l.next_attempt_at <= now())
                                 order by l.position limit p_rows) l
                        window o as (order by l.position rows unbounded preceding)) r
         where not r.waits and (r.nth = 1 or not r.tried)
        window given as (order by r.nth, c.turn rows unbounded preceding)
    ), mine as (
        select h.* from held h where p_bytes is null or h.place = 1 or (not h.large and h.bytes <= p_bytes)
    ), counted as (
        -- A delivery that was under way (adding, added, flushing) keeps its status: the gateway's stage ends it.
        update afterturn.ledger_t l
           set attempts = l.attempts + (not m.exhausted)::int,
               status = case when m.exhausted and l.status in ('pending', 'running') then 'dead'
                             when l.status = 'pending' then 'running' else l.status end,
               error_category = case when m.exhausted then 'exhausted' else l.error_category end,
               error_reason = case when m.exhausted then coalesce(l.error_reason, 'every attempt ended without an answer')
                                   else l.error_reason end,
               updated_at = now()
          from mine m
         where l.host_id = m.host_id and l.stage = p_stage and l.item_id = m.item_id
        returning l.*
    ), released as (
        update afterturn.ledger_t p set next_attempt_at = now()
          from counted d
         where p_stage = 'extraction' and not d.undone
           and p.host_id = d.host_id and p.stage = 'projection' and p.turn_id = d.turn_id
           and p.next_attempt_at = 'infinity'
    ), empty as (
        delete from afterturn.claim_t c using unnest(v_hosts, v_streams, v_epochs) as w(host_id, stream_id, epoch)
         where c.host_id = w.host_id and c.stage = p_stage and c.stream_id = w.stream_id and c.epoch = w.epoch
           and (w.host_id, w.stream_id) not in (select d.host_id, d.stream_id from counted d where d.undone)
    )
    select c.host_id, c.stream_id, c.epoch, d.item_id, d.bank_id, d.session_id, d.turn_id, d.position,
           d.status, d.attempts, d.accepted_at
      from unnest(v_hosts, v_streams, v_epochs) as c(host_id, stream_id, epoch)
      join counted d on d.host_id = c.host_id and d.stream_id = c.stream_id and d.undone
     order by c.epoch, d.position;
end $$;

-- Locks claims of one stage that are still valid, in the order of their keys, and returns their epochs.
create or replace function afterturn.hold_claims(p_host uuid, p_stage text, p_streams uuid[], p_epochs bigint[])
returns bigint[]
language sql set enable_seqscan to off as $$
    select coalesce(array_agg(h.epoch), '{}')
      from (select c.epoch from afterturn.claim_t c
             where c.host_id = p_host and c.stage = p_stage and c.stream_id = any (p_streams)
               and c.epoch = any (p_epochs)
             order by c.stream_id for update) h
$$;

-- Releases claims of one stage. Returns the epochs of those that were still valid.
create or replace function afterturn.drop_claims(p_host uuid, p_stage text, p_streams uuid[], p_epochs bigint[])
returns bigint[]
language plpgsql set plan_cache_mode to force_generic_plan set enable_seqscan to off as $$
declare
    v_held bigint[] := afterturn.hold_claims(p_host, p_stage, p_streams, p_epochs);
begin
    delete from afterturn.claim_t c
     where c.host_id = p_host and c.stage = p_stage and c.stream_id = any (p_streams) and c.epoch = any (v_held);
    return v_held;
end $$;

-- Releases claims of one stage and ends their rows. p_done: rows that succeeded. p_ends ([{item, status, category, reason,
-- retry_s}]): other rows with their outcome, or with a delay in seconds until the next attempt, by the clock that decides
-- what is ready; a row without a status was not worked on (it may have a delay, too), and its attempt is not counted. A
-- row whose claim is no longer valid is left unchanged. When a turn's extraction has ended, in any state, its projection
-- may begin. Each failed attempt leaves an audit row: the ledger keeps only the last one.
-- Returns the epochs of the claims that were valid.
create or replace function afterturn.close_claims(p_host uuid, p_stage text, p_streams uuid[], p_epochs bigint[],
                                                  p_done uuid[], p_ends jsonb) returns bigint[]
language plpgsql set plan_cache_mode to force_generic_plan set enable_seqscan to off as $$
declare
    v_held bigint[];
    v_streams uuid[];
begin
    perform set_config('afterturn.host', p_host::text, true);
    v_held := afterturn.drop_claims(p_host, p_stage, p_streams, p_epochs);
    -- null: all of them, and no row need be asked whose it is.
    v_streams := case when cardinality(v_held) < cardinality(p_epochs) then array(
        select c.stream from unnest(p_streams, p_epochs) as c(stream, epoch) where c.epoch = any (v_held)) end;

    with ended as (
        update afterturn.ledger_t l
           set status = s.status, error_category = s.category, error_reason = s.reason,
               next_attempt_at = coalesce(now() + make_interval(secs => s.retry_s), l.next_attempt_at), updated_at = now()
          from (select d.item, 'done', null, null, null::float8 from unnest(p_done) as d(item)
                union all
                select o.* from jsonb_to_recordset(p_ends)
                             as o(item uuid, status text, category text, reason text, retry_s float8)
                 where o.status is not null)
               as s(item, status, category, reason, retry_s)
         where l.host_id = p_host and l.stage = p_stage and l.item_id = s.item
           and (v_streams is null or l.stream_id = any (v_streams))
        returning l.turn_id, l.undone
    )
    update afterturn.ledger_t p set next_attempt_at = now()
      from ended s
     where p_stage = 'extraction' and not s.undone
       and p.host_id = p_host and p.stage = 'projection' and p.turn_id = s.turn_id and p.next_attempt_at = 'infinity';

    if p_ends <> '[]' then
        update afterturn.ledger_t l
           set status = 'pending', attempts = l.attempts - 1, updated_at = now(),
               next_attempt_at = coalesce(now() + make_interval(secs => o.retry_s), l.next_attempt_at)
          from jsonb_to_recordset(p_ends) as o(item uuid, status text, retry_s float8)
         where o.status is null and l.host_id = p_host and l.stage = p_stage and l.item_id = o.item
           and (v_streams is null or l.stream_id = any (v_streams)) and l.status = 'running' and l.attempts > 0;
    end if;
    -- A delivery that ended otherwise is told by an audit row of its own.
    if p_ends @? '$[*] ? (@.category != null)' then
        insert into afterturn.audit_event_t (host_id, event, bank_id, session_id, turn_id, payload)
        select p_host, 'attempt_failed', l.bank_id, l.session_id, l.turn_id,
               jsonb_build_object('stage', p_stage, 'item', l.item_id, 'attempt', l.attempts,
                                  'category', o.category, 'reason', o.reason)
          from jsonb_to_recordset(p_ends) as o(item uuid, status text, category text, reason text, retry_s float8)
          join afterturn.ledger_t l on l.host_id = p_host and l.stage = p_stage and l.item_id = o.item
         where o.category is not null and (o.status = 'dead' or o.retry_s is not null)
           and (v_streams is null or l.stream_id = any (v_streams))
         order by l.position;
    end if;
    return v_held;
end $$;
