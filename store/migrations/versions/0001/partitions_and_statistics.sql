-- Vectors are partitioned by bank: a partition gets its index by nearness when one of its banks needs it.
do $$ begin
    for i in 0..15 loop
        execute format('create table afterturn.unit_vector_%s partition of afterturn.unit_vector_t '
                       'for values with (modulus 16, remainder %s)', i, i);
    end loop;
end $$;

-- WHY: a bank belongs to one tenant. Taken for independent, the two seem to select next to nothing: among many banks every
-- index that begins with them looks as good as the right one, and a plan that is kept reads a whole bank for each row it
-- looks up.
do $$
declare
    v_table text;
begin
    for v_table in
        select c.relname from pg_class c
         where c.relnamespace = 'afterturn'::regnamespace and c.relkind = 'r' and not c.relispartition
           and c.relname not in
               ('bank_language_t', 'gateway_target_t', 'open_turn_t', 'plugin_namespace_t', 'plugin_vector_t')
           and (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attname in ('host_id', 'bank_id')) = 2
    loop
        execute format('create statistics afterturn.%I (dependencies) on host_id, bank_id from afterturn.%I',
                       v_table || '_by_bank', v_table);
    end loop;
end $$;

-- The planner asks nothing of these columns, and samples of them would outlive an erasure.
alter table afterturn.ledger_t alter column traceparent set statistics 0;
alter table afterturn.recall_job_t alter column traceparent set statistics 0;
alter table afterturn.open_turn_t
    alter column mac_key set statistics 0, alter column request set statistics 0, alter column output_mac set statistics 0;
