-- How far the stages have come with a bank.

-- What a read of a bank shows, and of each stage whose work is ours (`afterturn.stages()`) the first of its undone rows
-- ({stage: position}, as text; none of a stage without any) and how many they are, up to p_most (null: all), by the ledger's
-- index. The planner inlines it into the statement that reads from it.
create or replace function afterturn.freshness(p_host uuid, p_bank uuid, p_most bigint)
returns table (shown bigint, first_undone text, pending bigint, more_pending boolean)
language sql stable as $$
    select coalesce((select max(t.position) from afterturn.turn_t t where t.host_id = p_host and t.bank_id = p_bank), 0),
           coalesce(json_object_agg(s.stage, f.first) filter (where f.first is not null), '{}')::text,
           sum(f.undone)::bigint, coalesce(bool_or(f.undone = p_most), false)
      from afterturn.stages() s,
           lateral (select min(l.position) as first, count(*) as undone
                      from (select l.position from afterturn.ledger_t l
                             where l.host_id = p_host and l.bank_id = p_bank and l.stage = s.stage and l.undone
                             order by l.position limit p_most) l) f
     where not s.external
$$;

-- The same, with every undone row counted, as one call that sets the tenant itself.
create or replace function afterturn.read_freshness(p_host uuid, p_bank uuid)
returns table (shown bigint, first_undone text, pending bigint, more_pending boolean)
language plpgsql as $$
begin
    perform set_config('afterturn.host', p_host::text, true);
    return query select * from afterturn.freshness(p_host, p_bank, null);
end $$;
