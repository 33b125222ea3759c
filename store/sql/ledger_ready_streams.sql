-- Which streams are claimed next. Tenants take turns, independent of the depth of their backlogs; within a tenant the
-- oldest work comes first, or (embedding) the newest, unless some work is older than a limit.

-- Up to p_most tenants with ready work of a stage, beginning with p_from and wrapping around: one index probe a tenant.
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

-- The free streams among up to p_most of a tenant's (null: all), found by their first row; beginning with p_from and
-- wrapping around, one index probe a stream.
create or replace function afterturn.free_heads(p_stage text, p_host uuid, p_from uuid, p_most int)
returns table (stream_id uuid, "position" bigint, attempts int)
language plpgsql stable set plan_cache_mode to force_generic_plan set enable_seqscan to off as $$
#variable_conflict use_column
begin
    return query
    with recursive up as (
        (select l.stream_id, l.position, l.attempts, l.next_attempt_at from afterturn.ledger_t l
          where l.stage = p_stage and l.host_id = p_host and l.undone and l.next_attempt_at < 'infinity'
            and l.stream_id >= p_from
          order by l.stream_id, l.position limit 1)
        union all
        select n.* from up u, lateral (
            select l.stream_id, l.position, l.attempts, l.next_attempt_at from afterturn.ledger_t l
             where l.stage = p_stage and l.host_id = p_host and l.undone and l.next_attempt_at < 'infinity'
               and l.stream_id > u.stream_id
             order by l.stream_id, l.position limit 1) n
    ), round as (
        (select l.stream_id, l.position, l.attempts, l.next_attempt_at from afterturn.ledger_t l
          where l.stage = p_stage and l.host_id = p_host and l.undone and l.next_attempt_at < 'infinity'
            and l.stream_id < p_from
          order by l.stream_id, l.position limit 1)
        union all
        select n.* from round r, lateral (
            select l.stream_id, l.position, l.attempts, l.next_attempt_at from afterturn.ledger_t l
             where l.stage = p_stage and l.host_id = p_host and l.undone and l.next_attempt_at < 'infinity'
               and l.stream_id > r.stream_id and l.stream_id < p_from
             order by l.stream_id, l.position limit 1) n
    )
    select h.stream_id, h.position, h.attempts
      from (select u.* from up u union all select r.* from round r limit p_most) h
     where h.next_attempt_at <= now()
       and (select true from afterturn.claim_t c
             where c.host_id = p_host and c.stage = p_stage and c.stream_id = h.stream_id
               and c.lease_until > now()) is null;
end $$;

-- The streams with ready work that are not claimed, one of each tenant after the other. Of an ordered stage only
-- streams whose first undone row is ready. p_valve (streams of a single row): the newest row first, but rows accepted
-- longer ago than that before all; null: the oldest first. p_by_bank: the oldest and all others of its bank, then the
-- next bank's.
--
-- Reads a window of some tenants' rows, which is nearly always enough; the first tenant is random, so that none is
-- starved. The window holds the oldest rows of a tenant, so the first row of each stream in it is the stream's first.
-- If every stream in a tenant's window is claimed or waits (a few long sessions), some of its other streams are probed
-- one by one by index, beginning with a random one; if that holds for every tenant, all streams of all tenants are.
-- WHY p_valve widens the window: there a claimed stream is a single row, and the newest ones are claimed.
-- WHY no sequential scan: claims come and go, and autovacuum may count next to none. A plan made then would read the
-- whole table with its dead rows for each row of the window, and would be kept.
create or replace function afterturn.ready_streams(p_stage text, p_streams int, p_ordered boolean, p_valve interval,
                                                   p_by_bank boolean default false)
returns table (host_id uuid, stream_id uuid, "position" bigint, attempts int)
language plpgsql set plan_cache_mode to force_generic_plan set enable_seqscan to off as $$
#variable_conflict use_column
declare
    v_most constant int := 16;      -- hosts of one claim
    v_steps constant int := 64;     -- streams that are looked at one by one, of a host whose window shows nothing free
    v_from constant uuid := gen_random_uuid();
    v_hosts uuid[] := array(select h from afterturn.waiting_hosts(p_stage, v_from, v_most) h);
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
    with seen as (
        select w.host_id, w.stream_id, w.position, w.attempts, w.nth
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
              order by l.position desc limit p_streams)) w
    ), hidden as (
        select h.host_id from unnest(v_hosts) h(host_id)
         where exists (select from seen) and h.host_id not in (select s.host_id from seen s)
           and v_window = (select count(*) from (
                select from afterturn.ledger_t l
                 where l.stage = p_stage and l.host_id = h.host_id and l.undone and l.next_attempt_at < 'infinity'
                 order by l.position limit v_window) l)
    ), taken as (
        select s.host_id, s.stream_id, s.position, s.attempts,
               row_number() over (partition by s.host_id order by s.nth) as turn from seen s
        union all
        select h.host_id, f.*, row_number() over (partition by h.host_id order by f.position)
          from hidden h, lateral afterturn.free_heads(p_stage, h.host_id, v_from, v_steps) f
    )
    -- Who claims a few streams takes them of any of the hosts, not of the same ones each time.
    select t.host_id, t.stream_id, t.position, t.attempts from taken t order by t.turn, random() limit p_streams;
    if found then
        return;
    end if;

    return query
    with free as (
        select h.host_id, f.*, row_number() over (partition by h.host_id order by f.position) as turn
          from afterturn.waiting_hosts(p_stage, v_from, null) h(host_id),
               lateral afterturn.free_heads(p_stage, h.host_id, v_from, null) f
    )
    select f.host_id, f.stream_id, f.position, f.attempts from free f order by f.turn, f.position limit p_streams;
end $$;
