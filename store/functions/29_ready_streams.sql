-- Which streams are claimed next. Hosts take turns, whatever each of them has waiting; within a host the oldest work
-- comes first, or (embedding) the newest, unless something is too old to wait for that.

-- Up to p_most hosts with undone work of a stage that waits for nothing, from p_from on and round: by index, from host
-- to host.
create or replace function afterturn.waiting_hosts(p_stage text, p_from uuid, p_most int) returns setof uuid
language plpgsql stable set plan_cache_mode to force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    with recursive up as (
        (select l.host_id from afterturn.ledger_t l
          where l.stage = p_stage and l.undone and l.next_attempt_at < 'infinity' and l.host_id >= p_from
          order by l.host_id limit 1)
        union all
        select n.host_id from up u, lateral (
            select l.host_id from afterturn.ledger_t l
             where l.stage = p_stage and l.undone and l.next_attempt_at < 'infinity' and l.host_id > u.host_id
             order by l.host_id limit 1) n
    ), round as (
        (select l.host_id from afterturn.ledger_t l
          where l.stage = p_stage and l.undone and l.next_attempt_at < 'infinity' and l.host_id < p_from
          order by l.host_id limit 1)
        union all
        select n.host_id from round r, lateral (
            select l.host_id from afterturn.ledger_t l
             where l.stage = p_stage and l.undone and l.next_attempt_at < 'infinity' and l.host_id > r.host_id
               and l.host_id < p_from
             order by l.host_id limit 1) n
    )
    select w.host_id from (select u.host_id from up u union all select r.host_id from round r) w limit p_most;
end $$;

-- The streams with ready work that nobody holds, one of each host after the other: for ordered stages only those whose
-- very first undone row is ready. p_valve (streams of one row alone): the newest row first, but what was accepted longer ago than that before it;
-- null: the oldest first; p_by_bank: the oldest and all others of its bank, then those of the next.
--
-- Looks at a window of some hosts' rows, which nearly always shows enough; the hosts begin at random, so that none is
-- passed over for long. Of each stream in it the first row is seen, since the window holds the oldest of the host. Where
-- all that is seen is held (a few long sessions), it walks from stream to stream by index instead of row by row.
-- WHY p_valve widens the window: there a held stream is a single row, and the newest are held.
-- WHY nothing is read through: claims come and go, and whoever counts them (autovacuum) now and then finds next to none.
-- A plan made then reads the whole table, with all that is dead in it, for each row of the window, and is kept.
drop function if exists afterturn.ready_streams(text, int, boolean);
drop function if exists afterturn.ready_streams(text, int, boolean, interval);
create or replace function afterturn.ready_streams(p_stage text, p_streams int, p_ordered boolean, p_valve interval,
                                                   p_by_bank boolean default false)
returns table (host_id uuid, stream_id uuid, "position" bigint, attempts int)
language plpgsql set plan_cache_mode to force_generic_plan set enable_seqscan to off as $$
#variable_conflict use_column
declare
    v_most constant int := 16;      -- hosts of one claim
    v_hosts uuid[] := array(select h from afterturn.waiting_hosts(p_stage, gen_random_uuid(), v_most) h);
    v_window int;
begin
    if cardinality(v_hosts) = 0 then
        return;
    end if;
    v_window := greatest(256 / cardinality(v_hosts), 16);
    if p_valve is not null then
        v_window := v_window + (select count(*)::int from afterturn.claim_t c
                                 where c.stage = p_stage and c.host_id = any (v_hosts) and c.lease_until > now());
    end if;

    return query
    select w.host_id, w.stream_id, w.position, w.attempts
      from (select w.*, row_number() over (partition by w.host_id order by w.nth) as turn
              from unnest(v_hosts) h(host_id), lateral (
                (select l.host_id, l.stream_id, l.position, l.attempts,
                        -- Before all that is newest first.
                        case when p_valve is not null then l.position - 4611686018427387904
                             else row_number() over (order by case when p_by_bank then l.bank_from end, l.position) end as nth
                   from (select l.*, rank() over (partition by l.stream_id order by l.position) as place,
                                min(l.position) over (partition by l.bank_id) as bank_from
                           from (select l.* from afterturn.ledger_t l
                                  where l.stage = p_stage and l.host_id = h.host_id and l.undone
                                    and l.next_attempt_at < 'infinity'
                                  order by l.position limit v_window) l
                          where p_ordered or l.next_attempt_at <= now()) l
                  where l.next_attempt_at <= now() and (p_valve is null or l.accepted_at < now() - p_valve)
                    -- Once for each stream: its first row, or (not ordered) its first that is ready.
                    and (p_valve is not null or l.place = 1)
                    and (select true from afterturn.claim_t c
                          where c.host_id = l.host_id and c.stage = p_stage and c.stream_id = l.stream_id
                            and c.lease_until > now()) is null
                  order by nth limit p_streams)
                union all
                (select l.host_id, l.stream_id, l.position, l.attempts, - l.position
                   from (select l.* from afterturn.ledger_t l
                          where p_valve is not null and l.stage = p_stage and l.host_id = h.host_id and l.undone
                            and l.next_attempt_at < 'infinity'
                          order by l.position desc limit v_window) l
                  where l.next_attempt_at <= now() and l.accepted_at >= now() - p_valve
                    and (select true from afterturn.claim_t c
                          where c.host_id = l.host_id and c.stage = p_stage and c.stream_id = l.stream_id
                            and c.lease_until > now()) is null
                  order by l.position desc limit p_streams)) w) w
     order by w.turn, w.nth limit p_streams;
    if found then
        return;
    end if;

    return query
    with recursive heads as (
        (select l.host_id, l.stream_id, l.position, l.attempts, l.next_attempt_at from afterturn.ledger_t l
          where l.stage = p_stage and l.undone and l.next_attempt_at < 'infinity'
          order by l.host_id, l.stream_id, l.position limit 1)
        union all
        select n.* from heads h, lateral (
            select l.host_id, l.stream_id, l.position, l.attempts, l.next_attempt_at from afterturn.ledger_t l
             where l.stage = p_stage and l.undone and l.next_attempt_at < 'infinity'
               and (l.host_id, l.stream_id) > (h.host_id, h.stream_id)
             order by l.host_id, l.stream_id, l.position limit 1) n
    ), free as (
        select h.*, row_number() over (partition by h.host_id order by h.position) as turn from heads h
         where h.next_attempt_at <= now()
           and (select true from afterturn.claim_t c
                 where c.host_id = h.host_id and c.stage = p_stage and c.stream_id = h.stream_id
                   and c.lease_until > now()) is null
    )
    select f.host_id, f.stream_id, f.position, f.attempts from free f order by f.turn, f.position limit p_streams;
end $$;
