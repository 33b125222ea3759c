-- What the planner is told, so that it never takes a host for something rare. PostgreSQL 18 and later; before, only the
-- first half.
--
-- A host's rows are found by what stands behind the host in a key, and that implies the host (store/identity.py). Left to
-- itself, ANALYZE finds what share each large host has, and concludes that any other has a row or two: then every index
-- that begins with the host seems equally good, and a new host's first thousand events are read through for each event.
-- So nothing is ever sampled of that column, and it is said to select nothing.
--
-- Of a table nobody has analyzed yet the planner believes as much of banks and of the ledger's stages. It is told the
-- worst case until ANALYZE puts the truth in its place; what that has found is not touched.
create or replace function afterturn.first_statistics(p_schema text) returns void
language plpgsql as $$
declare
    v_18 boolean := current_setting('server_version_num')::int >= 180000;
    v_table text;
begin
    for v_table in
        select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'host_id'
         where c.relnamespace = p_schema::regnamespace and c.relkind in ('r', 'p') and a.attstattarget is distinct from 0
    loop
        execute format('alter table %I.%I alter column host_id set statistics 0', p_schema, v_table);
        if v_18 then
            perform pg_clear_attribute_stats(p_schema, v_table, 'host_id', inherited)
               from unnest(array[true, false]) as inherited;
        end if;
    end loop;
    if not v_18 then
        return;
    end if;
    perform pg_restore_attribute_stats(
                'schemaname', n.nspname::text, 'relname', c.relname::text, 'attname', a.attname::text,
                'inherited', false, 'null_frac', 0::real, 'avg_width', 16,
                'n_distinct', case when a.attname in ('host_id', 'bank_id', 'stage') then 1 else -1 end::real)
       from pg_class c
       join pg_namespace n on n.oid = c.relnamespace
       join pg_attribute a on a.attrelid = c.oid
      where n.nspname = p_schema and c.relkind in ('r', 'p')
        and (a.attname in ('host_id', 'bank_id', 'stage')
             or c.relname = 'ledger_t' and a.attname in ('item_id', 'stream_id', 'turn_id'))
        -- Nobody has analyzed it yet. (pg_stats shows nothing of a table whose policies hold its reader.)
        and c.reltuples < 0;
end $$;

select afterturn.first_statistics('afterturn');
