-- How deep the backlog of some stages is: rows that wait for nothing, counted no further than p_most, and when the oldest
-- of them was accepted (null: there is none), among p_hosts hosts. WHY no sequential scan: a ledger is nearly all done rows.
create or replace function afterturn.depth(p_stages text[], p_most int, p_hosts int)
returns table (waiting bigint, oldest timestamptz)
language plpgsql stable set plan_cache_mode to force_generic_plan set enable_seqscan to off as $$
begin
    return query
    select (select count(*) from (select from unnest(p_stages) s(stage), lateral (
                                     select from afterturn.ledger_t l
                                      where l.stage = s.stage and l.undone and l.next_attempt_at < 'infinity'
                                      order by l.host_id, l.position limit p_most) l
                                   limit p_most) l),
           min(o.accepted_at)
      from unnest(p_stages) s(stage),
           lateral afterturn.waiting_hosts(s.stage, '00000000-0000-0000-0000-000000000000', p_hosts) h(host_id),
           lateral (select l.accepted_at from afterturn.ledger_t l
                     where l.stage = s.stage and l.host_id = h.host_id and l.undone and l.next_attempt_at < 'infinity'
                     order by l.position limit 1) o;
end $$;
