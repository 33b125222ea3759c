-- Derived state: what projectors queue for the projection stage to undo, and how names are compared.
--
-- These queues belong to the live tables alone, so they are written only there: a replay builds its projections in
-- another schema, and its derived state from nothing.

-- A name for comparison: no case, no accents, one kind of apostrophe, one blank between words.
create or replace function afterturn.folded(p_name text) returns text
language sql immutable parallel safe
return btrim(regexp_replace(lower(translate(regexp_replace(normalize(p_name, NFKD), '[\u0300-\u036f]', '', 'g'),
                                            U&'\2018\2019\02BC', '''''''')), '\s+', ' ', 'g'));

-- Moves the words of up to p_limit waiting units of a bank into the index of words, and counts them; with p_take_back
-- also undoes those of units forgotten since. Returns the number of moved units, the forgotten ones, and the terms that
-- were counted of those. A unit that is forgotten meanwhile is either moved first and undone by the next call, or not
-- moved at all. One call at a time moves words of a bank: it waits only for another such call, and skips units locked
-- by other writers.
-- WHY by ctid: only a lookup by row address serves here; a plan made for other numbers of waiting units would read the
-- words of every bank for them.
create or replace function afterturn.post_words(p_host uuid, p_bank uuid, p_limit int, p_take_back boolean)
returns table (carried bigint, forgotten uuid[], terms text[])
language plpgsql set plan_cache_mode to force_generic_plan as $$
#variable_conflict use_column
begin
    perform pg_advisory_xact_lock(afterturn.lock_key('words', p_bank));
    return query
    with gone as (
        delete from afterturn.forgotten_unit_t f
         where p_take_back and f.host_id = p_host and f.bank_id = p_bank returning f.*
    ), came as materialized (
        update afterturn.unit_word_t w set posted = true
         where w.host_id = p_host and w.bank_id = p_bank and not w.posted
           and w.ctid = any (array(select n.ctid from afterturn.unit_word_t n
                                    where n.host_id = p_host and n.bank_id = p_bank and not n.posted
                                    limit p_limit for update skip locked))
        returning w.*
    ), words as materialized (
        select t.key as term, c.unit_id, c.session_id, c.seq, t.value::int as tf, c.length
          from came c, jsonb_each_text(c.terms) t order by 1, 2
    ), posted as (
        insert into afterturn.posting_t (host_id, bank_id, term, unit_id, session_id, seq, tf, length)
        select p_host, p_bank, w.* from words w
    ), changed as materialized (
        select c.term, sum(c.change) as change
          from (select w.term, 1 as change from words w union all select unnest(g.terms), -1 from gone g) c
         group by c.term
    ), recounted as (
        update afterturn.term_t t set df = t.df + c.change
          from changed c
         where t.host_id = p_host and t.bank_id = p_bank and t.term = c.term
           and t.term = any (array(select c.term from changed c))
        returning t.term
    ), counted as (
        -- A bank has one writer of its counts: no other transaction inserts a term that is missing here.
        insert into afterturn.term_t (host_id, bank_id, term, df)
        select p_host, p_bank, c.term, c.change from changed c
         where c.term not in (select r.term from recounted r)
    ), sized as (
        insert into afterturn.bank_statistics_t as s (host_id, bank_id, units, tokens)
        select p_host, p_bank, sum(c.units), sum(c.tokens)
          from (select 1 as units, c.length as tokens from came c union all select -g.units, -g.tokens from gone g) c
        having count(*) > 0
        on conflict (host_id, bank_id) do update
           set units = s.units + excluded.units, tokens = s.tokens + excluded.tokens
    )
    select (select count(*) from came), array(select g.unit_id from gone g),
           array(select distinct t from gone g, unnest(g.terms) t order by t);
end $$;

-- Workers search all tenants for banks in which words wait, and see none of the words.
grant select (host_id, bank_id, posted) on afterturn.unit_word_t to afterturn_operator;

-- Removes the words of units, and from the index of words what was moved there; returns them. Unit rows are locked
-- first: a concurrent move ends before, and the next statement sees its result.
create or replace function afterturn.drop_words(p_host uuid, p_bank uuid, p_units uuid[]) returns setof afterturn.unit_word_t
language plpgsql as $$
declare
    v_gone afterturn.unit_word_t[];
begin
    with gone as (
        delete from afterturn.unit_word_t w using unnest(p_units) u(unit_id)
         where w.host_id = p_host and w.bank_id = p_bank and w.unit_id = u.unit_id returning w
    )
    select array_agg(g.w) into v_gone from gone g;
    delete from afterturn.posting_t p using unnest(v_gone) g, jsonb_object_keys(g.terms) t(term)
     where g.posted and p.host_id = p_host and p.bank_id = p_bank and p.term = t.term and p.unit_id = g.unit_id;
    return query select g.* from unnest(v_gone) g;
end $$;

-- Removes what the digests of sessions tell of these messages.
create or replace function afterturn.drop_digested(p_host uuid, p_bank uuid, p_units uuid[]) returns void
language plpgsql as $$
begin
    update afterturn.session_digest_t d
       set entries = coalesce((select jsonb_agg(e.value order by e.nth)
                                 from jsonb_array_elements(d.entries) with ordinality e(value, nth)
                                where (e.value->>'seq')::int <> all (g.seqs)), '[]')
      from (select u.session_id, array_agg(u.seq) as seqs
              from unnest(p_units) t(unit_id),
                   lateral (select u.session_id, u.seq from afterturn.agent_memory_unit_t u
                             where u.host_id = p_host and u.bank_id = p_bank and u.unit_id = t.unit_id
                               and u.seq is not null offset 0) u
             group by u.session_id) g
     where d.host_id = p_host and d.bank_id = p_bank and d.session_id = g.session_id
       and exists (select from jsonb_array_elements(d.entries) e where (e->>'seq')::int = any (g.seqs));
end $$;

-- Removes the words of units that ended or whose text changed, and records what was counted of them. A fact among them
-- consolidates no other any more.
create or replace function afterturn.end_words(p_host uuid, p_bank uuid, p_ended uuid[]) returns void
language plpgsql as $$
begin
    if current_schema() = 'afterturn' then
        insert into afterturn.forgotten_unit_t (host_id, bank_id, unit_id, terms, units, tokens)
        select p_host, p_bank, e.unit_id, array(select jsonb_object_keys(w.terms)), (w.unit_id is not null)::int,
               coalesce(w.length, 0)
          from unnest(p_ended) e(unit_id)
          left join (select * from afterturn.drop_words(p_host, p_bank, p_ended) d where d.posted) w
            on w.unit_id = e.unit_id;
        perform afterturn.drop_digested(p_host, p_bank, p_ended);
        -- Facts that these consolidated hold at once, before the projection stage sees that these ended.
        update afterturn.fact_t f set consolidated_by = null from unnest(p_ended) e(unit_id)
         where f.host_id = p_host and f.bank_id = p_bank and f.consolidated_by = e.unit_id;
        update afterturn.fact_t f set consolidated_by = null from unnest(p_ended) e(unit_id)
         where f.host_id = p_host and f.bank_id = p_bank and f.unit_id = e.unit_id and f.consolidated_by is not null;
    end if;
end $$;

-- Records that an entity's name must be examined again.
create or replace function afterturn.mark_stale(p_host uuid, p_bank uuid, p_entities uuid[]) returns void
language plpgsql as $$
begin
    if current_schema() = 'afterturn' then
        insert into afterturn.stale_entity_t (host_id, bank_id, entity_id)
        select distinct p_host, p_bank, e.id from unnest(p_entities) e(id) on conflict do nothing;
    end if;
end $$;

-- A bank that ends leaves no work behind: a worker that has some loses its claim and writes nothing.
create or replace function afterturn.end_work(p_host uuid, p_bank uuid) returns void
language plpgsql as $$
declare
    v_turns uuid[] := array(select distinct l.turn_id from afterturn.ledger_t l
                             where l.host_id = p_host and l.bank_id = p_bank and l.undone);
begin
    perform afterturn.end_turns(p_host, v_turns, v_turns, 'deleted');
end $$;

-- A bank that ends leaves no derived rows behind.
create or replace function afterturn.end_derived(p_host uuid, p_bank uuid) returns void
language plpgsql as $$
begin
    if current_schema() = 'afterturn' then
        perform afterturn.end_work(p_host, p_bank);
        delete from afterturn.unit_word_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.posting_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.term_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.bank_statistics_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.forgotten_unit_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.stale_entity_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.entity_name_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.entity_profile_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.fact_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.session_digest_t t where t.host_id = p_host and t.bank_id = p_bank;
        delete from afterturn.bank_language_t t where t.host_id = p_host and t.bank_id = p_bank;
    end if;
end $$;
