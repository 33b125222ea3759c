-- WHY: a bank belongs to one host. Taken for independent, the two seem to select next to nothing: among many banks every
-- index that begins with them looks as good as the right one, and a plan that is kept reads a whole bank for each row it
-- looks up.
do $$
declare t text;
begin
    for t in
        select c.relname from pg_class c
         where c.relnamespace = 'afterturn'::regnamespace and c.relkind = 'r' and not c.relispartition
           and (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attname in ('host_id', 'bank_id')) = 2
    loop
        execute format('create statistics afterturn.%I (dependencies) on host_id, bank_id from afterturn.%I',
                       t || '_by_bank', t);
    end loop;
end $$;
