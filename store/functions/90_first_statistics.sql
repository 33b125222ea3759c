-- What the planner believes of a table nobody has analyzed yet. By default it takes one host and one bank to be a few
-- rows in a thousand each, finds every index that begins with them equally good, and reads a whole bank for each word
-- or neighbour looked up: a hundred times slower until the first ANALYZE. So it is told the worst case: that host, bank
-- and the ledger's stage select nothing, and that what the ledger divides them into is rare. ANALYZE puts the truth in
-- its place; what it has found is not touched. PostgreSQL 18 and later.
create or replace function afterturn.first_statistics(p_schema text) returns void
language plpgsql as $$
begin
    if current_setting('server_version_num')::int < 180000 then
        return;
    end if;
    perform pg_restore_attribute_stats(
                'schemaname', n.nspname::text, 'relname', c.relname::text, 'attname', a.attname::text, 'inherited', false,
                'null_frac', 0::real, 'avg_width', 16,
                'n_distinct', case when a.attname in ('host_id', 'bank_id', 'stage') then 1 else -1 end::real)
       from pg_class c
       join pg_namespace n on n.oid = c.relnamespace
       join pg_attribute a on a.attrelid = c.oid
      where n.nspname = p_schema and c.relkind in ('r', 'p')
        and (a.attname in ('host_id', 'bank_id', 'stage')
             or c.relname = 'ledger_t' and a.attname in ('item_id', 'stream_id', 'turn_id'))
        and not exists (select from pg_stats s
                         where s.schemaname = n.nspname and s.tablename = c.relname and s.attname = a.attname);
end $$;

select afterturn.first_statistics('afterturn');
