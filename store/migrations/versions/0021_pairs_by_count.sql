-- Pairs are counted from mentions, and a mention's entity is there: looking for both entities of each pair again, and
-- locking them, was a third of what counting cost. Entities end, and their rows stay; who removes rows (a repair by
-- replay) removes their pairs.
do $$
declare
    v_key text;
begin
    for v_key in select c.conname from pg_constraint c
                  where c.conrelid = 'afterturn.agent_memory_entity_cooccur_t'::regclass and c.contype = 'f'
    loop
        execute format('alter table afterturn.agent_memory_entity_cooccur_t drop constraint %I', v_key);
    end loop;
end $$;
