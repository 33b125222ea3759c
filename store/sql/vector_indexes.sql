-- How many lists (probes) of a generation's vector index to read for a bank of p_units units, where p_read vectors would do
-- if the partition were its own; null where an exact scan of the bank's vectors is better: its partition has no valid
-- index, or is so much larger that most vectors in the lists are other banks'. A neighbour's share of the lists grows more
-- slowly than its rank among all vectors of the partition: by about the square root. Shorter lists need fewer vectors for
-- the same accuracy, so a list counts as 180 vectors at least. The index's name tells its partition and generation (see
-- store/derived/vector_indexes.py); one that is still being built is not valid.
create or replace function afterturn.lists_to_read(p_bank uuid, p_units bigint, p_read int, p_generation smallint) returns int
language sql stable parallel safe as $$
    select greatest(1, ceil(l.lists * least(
               1, p_read / greatest(v.vectors, 180 * l.lists) * sqrt(greatest(1, v.vectors / p_units))))::int)
      from generate_series(0, 15) r
      join pg_class c on c.oid = to_regclass(format('afterturn.unit_vector_%s_%s_near', r, p_generation))
      join pg_index i on i.indexrelid = c.oid and i.indisvalid
     cross join lateral (select split_part(o, '=', 2)::int as lists from unnest(c.reloptions) o where o like 'lists=%') l
     cross join lateral (select greatest(c.reltuples, 1)::float8 as vectors) v
     where satisfies_hash_partition('afterturn.unit_vector_t'::regclass, 16, r, p_bank) and v.vectors <= 8 * p_units
$$;
