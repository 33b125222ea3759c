-- Prunes done rows from the ledger. How a turn's stages ended is kept in the turn's guard, the number of turns by
-- outcome in pruned_turns_t. Run by the operator, who may not write guards: hence as the owner, restricted by policies
-- to this tenant.

-- A page of one tenant's projection rows in order of item: every turn has one. `ends`: every stage of the turn
-- succeeded before p_before. A row that is no turn (a recount) ends by itself.
create or replace function afterturn.prunable(p_host uuid, p_after uuid, p_before timestamptz, p_limit int)
returns table (item_id uuid, turn_id uuid, is_turn boolean, ends boolean)
language plpgsql stable set plan_cache_mode to force_generic_plan as $$
#variable_conflict use_column
begin
    return query
    select p.item_id, p.turn_id, p.item_id = p.turn_id,
           p.status = 'done' and p.updated_at < p_before and p.accepted_at < p_before
           and (p.item_id <> p.turn_id or (
                select true from afterturn.ledger_t l
                 where l.host_id = p_host and l.turn_id = p.turn_id
                   and (l.updated_at >= p_before
                        or not (l.status in ('done', 'flushed')
                                or (l.status = 'skipped' and (select s.external from afterturn.stages() s where s.stage = l.stage))))
                 limit 1) is null)
      from (select l.* from afterturn.ledger_t l
             where l.host_id = p_host and l.stage = 'projection' and l.item_id > p_after
             order by l.item_id limit p_limit) p;
end $$;

-- Prunes one page. Returns its last item, its number of rows, and the number of ledger rows pruned. WHY the log's lock:
-- the swap after a replay reopens done rows, and holds that lock exclusively meanwhile.
create or replace function afterturn.prune_ledger(p_host uuid, p_after uuid, p_before timestamptz, p_limit int)
returns table (last uuid, looked bigint, removed bigint)
language plpgsql security definer set search_path to pg_catalog, pg_temp set plan_cache_mode to force_generic_plan as $$
declare
    v_before text := coalesce(current_setting('afterturn.host', true), '');
begin
    perform set_config('afterturn.host', p_host::text, true), set_config('afterturn.every_host', 'off', true);
    perform pg_advisory_xact_lock_shared(afterturn.log_lock());
    return query
    with page as materialized (
        select * from afterturn.prunable(p_host, p_after, p_before, p_limit)
    ), kept as (
        update afterturn.turn_t t
           set ended = (select jsonb_object_agg(l.stage, jsonb_strip_nulls(jsonb_build_object(
                                   'status', l.status, 'attempts', l.attempts, 'at', l.updated_at,
                                   'category', l.error_category, 'reason', l.error_reason, 'target', l.target_id)))
                          from afterturn.ledger_t l
                         where l.host_id = p_host and l.turn_id = t.turn_id and l.item_id = t.turn_id)
          from page p
         where p.ends and p.is_turn and t.host_id = p_host and t.turn_id = p.turn_id and t.ended is null
        returning t.turn_id
    ), gone as (
        delete from afterturn.ledger_t l using kept k
         where l.host_id = p_host and l.turn_id = k.turn_id
        -- What counts: a row of each stage for the turn itself, and each row of a stage that says so.
        returning l.stage, l.status,
                  l.item_id = l.turn_id or (select s.counts_items from afterturn.stages() s where s.stage = l.stage) as counts
    ), others as (
        delete from afterturn.ledger_t l using page p
         where p.ends and not p.is_turn and l.host_id = p_host and l.stage = 'projection' and l.item_id = p.item_id
        returning 1
    ), counted as (
        insert into afterturn.pruned_turns_t as c (host_id, stage, status, turns)
        select p_host, g.stage, g.status, count(*) from gone g where g.counts group by g.stage, g.status
        on conflict (host_id, stage, status) do update set turns = c.turns + excluded.turns
    )
    select (select p.item_id from page p order by p.item_id desc limit 1),
           (select count(*) from page),
           (select count(*) from gone) + (select count(*) from others);
    perform set_config('afterturn.host', v_before, true);
end $$;

-- Prunes a page of one tenant's rows of a stage, in order of item: follow-ups that succeeded before p_before and whose
-- turn has no rows here any more (a text embedded anew, a later reading). Returns as `prune_ledger` does.
create or replace function afterturn.prune_late_rows(p_host uuid, p_stage text, p_after uuid, p_before timestamptz,
                                                     p_limit int)
returns table (last uuid, looked bigint, removed bigint)
language plpgsql security definer set search_path to pg_catalog, pg_temp set plan_cache_mode to force_generic_plan as $$
declare
    v_before text := coalesce(current_setting('afterturn.host', true), '');
begin
    perform set_config('afterturn.host', p_host::text, true), set_config('afterturn.every_host', 'off', true);
    perform pg_advisory_xact_lock_shared(afterturn.log_lock());
    return query
    with page as materialized (
        select l.item_id, l.turn_id, l.item_id <> l.turn_id and l.updated_at < p_before
               and (l.status = 'done' or (l.status = 'skipped'
                    and (select s.external from afterturn.stages() s where s.stage = p_stage))) as ends
          from afterturn.ledger_t l
         where l.host_id = p_host and l.stage = p_stage and l.item_id > p_after
         order by l.item_id limit p_limit
    ), late as materialized (
        select p.item_id from page p
         where p.ends and (select true from afterturn.ledger_t t
                            where t.host_id = p_host and t.stage = 'projection' and t.item_id = p.turn_id) is null
    ), gone as (
        delete from afterturn.ledger_t l using late p
         where l.host_id = p_host and l.stage = p_stage and l.item_id = p.item_id
        returning l.status
    ), counted as (
        insert into afterturn.pruned_turns_t as c (host_id, stage, status, turns)
        select p_host, p_stage, g.status, count(*) from gone g
         where (select s.counts_items from afterturn.stages() s where s.stage = p_stage) group by g.status
        on conflict (host_id, stage, status) do update set turns = c.turns + excluded.turns
    )
    select (select p.item_id from page p order by p.item_id desc limit 1),
           (select count(*) from page), (select count(*) from gone);
    perform set_config('afterturn.host', v_before, true);
end $$;

revoke all on function afterturn.prune_ledger(uuid, uuid, timestamptz, int) from public;
grant execute on function afterturn.prune_ledger(uuid, uuid, timestamptz, int) to afterturn_operator;
revoke all on function afterturn.prune_late_rows(uuid, text, uuid, timestamptz, int) from public;
grant execute on function afterturn.prune_late_rows(uuid, text, uuid, timestamptz, int) to afterturn_operator;
