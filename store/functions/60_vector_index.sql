-- How many lists of the index by nearness hold about p_read vectors; null where the partition of a bank has no such index
-- that can be used. Its name tells whose it is (see store/vector_indexes.py); one that is still being built is not valid.
create or replace function afterturn.lists_to_read(p_bank uuid, p_read int) returns int
language sql stable parallel safe as $$
    select greatest(1, ceil(l.lists * least(1, p_read / greatest(n.reltuples, 1)))::int)
      from generate_series(0, 15) r
      join pg_class c on c.oid = to_regclass(format('afterturn.unit_vector_%s_near', r))
      join pg_index i on i.indexrelid = c.oid and i.indisvalid
      join pg_class n on n.oid = i.indrelid
     cross join lateral (select split_part(o, '=', 2)::int as lists from unnest(c.reloptions) o where o like 'lists=%') l
     where satisfies_hash_partition('afterturn.unit_vector_t'::regclass, 16, r, p_bank)
$$;
