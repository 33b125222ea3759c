-- Claims given items of a stage in which each item is a stream of its own, as claim_work does: those that are not
-- claimed and were never tried. A row that is not returned is not claimed.
create or replace function afterturn.claim_items(p_host uuid, p_stage text, p_items uuid[], p_lease interval, p_worker text)
returns table (host_id uuid, stream_id uuid, epoch bigint, item_id uuid, bank_id uuid, session_id uuid, turn_id uuid,
               "position" bigint, status text, attempts int, accepted_at timestamptz)
language plpgsql set plan_cache_mode to force_generic_plan as $$
#variable_conflict use_column
declare
    v_items uuid[];
    v_epochs bigint[];
begin
    -- Only winning the claim makes an item ours; its row is read by the next statement, whose snapshot shows what a
    -- previous holder left behind.
    with won as (
        insert into afterturn.claim_t as c (host_id, stage, stream_id, epoch, lease_until, worker)
        select p_host, p_stage, i.item, nextval('afterturn.claim_epoch_seq'), now() + p_lease, p_worker
          from (select distinct i.item from unnest(p_items) i(item) order by i.item) i
        on conflict do nothing
        returning c.stream_id, c.epoch
    )
    select array_agg(w.stream_id), array_agg(w.epoch) into v_items, v_epochs from won w;

    return query
    with counted as (
        update afterturn.ledger_t l set attempts = 1, status = 'running', updated_at = now()
         where l.host_id = p_host and l.stage = p_stage and l.item_id = any (v_items) and l.stream_id = l.item_id
           and l.status = 'pending' and l.attempts = 0 and l.next_attempt_at <= now()
        returning l.*
    ), dropped as (
        delete from afterturn.claim_t c using unnest(v_items, v_epochs) as w(item, epoch)
         where c.host_id = p_host and c.stage = p_stage and c.stream_id = w.item and c.epoch = w.epoch
           and w.item <> all (select d.item_id from counted d)
    )
    select p_host, d.stream_id, w.epoch, d.item_id, d.bank_id, d.session_id, d.turn_id, d.position, d.status,
           d.attempts, d.accepted_at
      from counted d join unnest(v_items, v_epochs) as w(item, epoch) on w.item = d.item_id
     order by d.position;
end $$;
