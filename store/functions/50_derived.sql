-- Derived state: what projectors leave for the projection stage to take back, and how names are compared.
--
-- The to-do lists belong to the live tables alone, so they are written only where those are: a replay builds its
-- projections in another schema, and its derived state from nothing.

-- A name for comparison: no case, no accents, one blank between words.
create or replace function afterturn.folded(p_name text) returns text
language sql immutable parallel safe
return btrim(regexp_replace(lower(regexp_replace(normalize(p_name, NFKD), '[\u0300-\u036f]', '', 'g')), '\s+', ' ', 'g'));

-- Removes the words of units and notes what was counted of them. p_units: how many units fewer each one makes.
create or replace function afterturn.end_words(p_host uuid, p_bank uuid, p_ended uuid[], p_units int) returns void
language plpgsql as $$
begin
    if current_schema() <> 'afterturn' then
        delete from posting_t p using unnest(p_ended) g(unit_id)
         where p.host_id = p_host and p.bank_id = p_bank and p.unit_id = g.unit_id;
        return;
    end if;
    with gone as (
        delete from posting_t p using unnest(p_ended) g(unit_id)
         where p.host_id = p_host and p.bank_id = p_bank and p.unit_id = g.unit_id
        returning p.unit_id, p.term, p.length
    ), words as (
        select g.unit_id, array_agg(g.term order by g.term) as terms, max(g.length) as length from gone g group by 1
    )
    insert into afterturn.forgotten_unit_t (host_id, bank_id, unit_id, turn_id, terms, units, tokens)
    select p_host, p_bank, e.unit_id, u.turn_id, coalesce(w.terms, '{}'), p_units, coalesce(w.length, 0)
      from unnest(p_ended) e(unit_id)
      join agent_memory_unit_t u on u.host_id = p_host and u.bank_id = p_bank and u.unit_id = e.unit_id
      left join words w on w.unit_id = e.unit_id;
end $$;

-- Notes that an entity's name is to be looked at again.
create or replace function afterturn.mark_stale(p_host uuid, p_bank uuid, p_entities uuid[]) returns void
language plpgsql as $$
begin
    if current_schema() = 'afterturn' then
        insert into afterturn.stale_entity_t (host_id, bank_id, entity_id)
        select distinct p_host, p_bank, e.id from unnest(p_entities) e(id) on conflict do nothing;
    end if;
end $$;

-- A bank that ends leaves nothing derived behind.
create or replace function afterturn.end_derived(p_host uuid, p_bank uuid) returns void
language plpgsql as $$
begin
    if current_schema() = 'afterturn' then
        delete from afterturn.forgotten_unit_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.stale_entity_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.entity_name_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.entity_profile_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.fact_t t where t.host_id = p_host and t.bank_id = p_bank;
    end if;
end $$;
