-- The depth of the backlog of some stages, for each of p_hosts: its ready rows, counted up to p_most, and when the
-- oldest of them was accepted (null: none). WHY no sequential scan: nearly all rows of a ledger are done.
create or replace function afterturn.depth(p_hosts uuid[], p_stages text[], p_most int)
returns table (host_id uuid, waiting bigint, oldest timestamptz)
language plpgsql stable set plan_cache_mode to force_generic_plan set enable_seqscan to off as $$
#variable_conflict use_column
begin
    return query
    select h.id,
           (select count(*) from (select from unnest(p_stages) s(stage), lateral (
                                     select from afterturn.ledger_t l
                                      where l.stage = s.stage and l.host_id = h.id
                                        and l.undone and l.next_attempt_at < 'infinity'
                                      order by l.position limit p_most) l
                                   limit p_most) l),
           (select min(o.accepted_at) from unnest(p_stages) s(stage), lateral (
                select l.accepted_at from afterturn.ledger_t l
                 where l.stage = s.stage and l.host_id = h.id and l.undone and l.next_attempt_at < 'infinity'
                 order by l.position limit 1) o)
      from unnest(p_hosts) h(id);
end $$;
