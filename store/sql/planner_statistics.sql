-- What the planner is told about tenants. PostgreSQL 18 and later; before, only the first half.
--
-- A tenant's rows are found by the columns after host_id in a key, which imply the tenant (store/identity.py). By
-- default ANALYZE finds the share of each large tenant, and concludes that any other has a row or two: then every index
-- that begins with the tenant seems equally good, and the first thousand events of a new tenant are scanned for each
-- event. So host_id is never sampled, and is declared to select nothing.
--
-- Of a table without statistics the planner believes the same of banks and of the ledger's stages. It is given the
-- worst case until ANALYZE replaces it; existing statistics are not changed.
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
        -- It was never analyzed. (pg_stats shows nothing of a table whose policies hold its reader.)
        and c.reltuples < 0;
end $$;

select afterturn.first_statistics('afterturn');
