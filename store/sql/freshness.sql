-- How far the stages have come with a bank.

-- What a read of a bank shows (the last turn, or a correction, pin or other change that still waits for a stage), and of each stage whose work is ours (`afterturn.stages()`) the first of its undone rows
-- ({stage: position}, as text; none of a stage without any) and how many they are, up to p_most (null: all), by the ledger's
-- index. The planner inlines it into the statement that reads from it.
create or replace function afterturn.freshness(p_host uuid, p_bank uuid, p_most bigint)
returns table (shown bigint, first_undone text, pending bigint, more_pending boolean)
language sql stable as $$
    select coalesce(greatest((select max(t.position) from afterturn.turn_t t
                               where t.host_id = p_host and t.bank_id = p_bank), max(f.last)), 0),
           coalesce(json_object_agg(s.stage, f.first) filter (where f.first is not null), '{}')::text,
           sum(f.undone)::bigint, coalesce(bool_or(f.undone = p_most), false)
      from afterturn.stages() s,
           lateral (select min(l.position) as first, max(l.position) as last, count(*) as undone
                      from (select l.position from afterturn.ledger_t l
                             where l.host_id = p_host and l.bank_id = p_bank and l.stage = s.stage and l.undone
                             order by l.position limit p_most) l) f
     where not s.external
$$;

-- The position of a bank's first turn with a text that has no vector of the live embedding model, though the bank has
-- vectors of another one: null without such a turn among the first 500. While the texts are embedded anew, in the order of
-- the log, the ledger has a row of each turn that waits.
-- In plpgsql, whose plans are kept: every recall asks.
create or replace function afterturn.first_without_vector(p_host uuid, p_bank uuid) returns bigint
language plpgsql stable as $$
declare
    v_live smallint;
    v_more boolean;
begin
    -- A generation stays on this list until its vectors are gone: with one model no bank has any of another.
    select max(g.generation) filter (where g.state = 'live'), count(*) > 1 into v_live, v_more
      from public.afterturn_generation g;
    -- Two looks at the ends of the generations in the key's order.
    if v_live is null or not v_more
       or not exists (select from afterturn.unit_vector_t v
                       where v.host_id = p_host and v.bank_id = p_bank and v.generation < v_live)
      and not exists (select from afterturn.unit_vector_t v
                       where v.host_id = p_host and v.bank_id = p_bank and v.generation > v_live) then
        return null;
    end if;
    return (select min(t.position)
              from (select t.turn_id, t.position from afterturn.turn_t t
                     where t.host_id = p_host and t.bank_id = p_bank order by t.position limit 500) t
             where exists (select from afterturn.agent_memory_unit_t u
                            where u.host_id = p_host and u.bank_id = p_bank and u.turn_id = t.turn_id and u.active
                              and not exists (select from afterturn.unit_vector_t v
                                               where v.host_id = p_host and v.bank_id = p_bank
                                                 and v.generation = v_live and v.unit_id = u.unit_id
                                                 and v.chunk = 0)));
end $$;

-- The freshness with every undone row counted, as one call that sets the tenant itself. After a change of the embedding
-- model, texts that have no vector of it yet are undone, whether or not a row of the ledger waits for them.
create or replace function afterturn.read_freshness(p_host uuid, p_bank uuid)
returns table (shown bigint, first_undone text, pending bigint, more_pending boolean)
language plpgsql as $$
declare
    v_first bigint;
begin
    perform set_config('afterturn.host', p_host::text, true);
    v_first := afterturn.first_without_vector(p_host, p_bank);
    return query
    select f.shown,
           case when v_first is null then f.first_undone
                else jsonb_set(f.first_undone::jsonb, '{embedding}',
                               to_jsonb(least((f.first_undone::jsonb->>'embedding')::bigint, v_first)))::text end,
           f.pending, f.more_pending
      from afterturn.freshness(p_host, p_bank, null) f;
end $$;
