-- The registry of stages (store/ledger/stages.py) for SQL. Every upgrade passes it in, before the functions are created.

-- Creates afterturn.stages() from the registry, and lets the ledger take rows of its stages and of no others.
-- p_stages: [{stage, stream, opened_by_turn, waits, external, counts_items}].
create or replace function afterturn.set_stages(p_stages jsonb) returns void
language plpgsql as $body$
declare
    v_rows text := (
        select string_agg(format('(%L::text, %L::text, %L::boolean, %L::boolean, %L::boolean, %L::boolean)', s.stage, s.stream,
                                 s.opened_by_turn, s.waits, s.external, s.counts_items), ', ' order by s.nth)
          from rows from (jsonb_to_recordset(p_stages) as (stage text, stream text, opened_by_turn boolean, waits boolean,
                                                           external boolean, counts_items boolean))
               with ordinality as s(stage, stream, opened_by_turn, waits, external, counts_items, nth));
    v_check text := (
        select format('CHECK ((stage = ANY (ARRAY[%s])))', string_agg(format('%L::text', s.value->>'stage'), ', ' order by s.nth))
          from jsonb_array_elements(p_stages) with ordinality as s(value, nth));
begin
    execute format($stages$
        create or replace function afterturn.stages()
        returns table (stage text, stream text, opened_by_turn boolean, waits boolean, external boolean, counts_items boolean)
        language sql immutable parallel safe rows %s as $$ values %s $$$stages$, jsonb_array_length(p_stages), v_rows);
    -- Only when the list changed: ALTER TABLE locks and scans ledger_t.
    if (select pg_get_constraintdef(c.oid) from pg_constraint c where c.conname = 'ledger_t_stage_check'
           and c.conrelid = 'afterturn.ledger_t'::regclass) is distinct from v_check then
        alter table afterturn.ledger_t drop constraint if exists ledger_t_stage_check;
        execute 'alter table afterturn.ledger_t add constraint ledger_t_stage_check ' || v_check;
    end if;
end $body$;
