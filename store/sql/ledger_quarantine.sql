-- What operators do to ledger rows: retry, skip or settle them. Each function takes rows of one tenant and stage,
-- changes those whose state allows it, writes an audit row for each (who, what, the state before), and returns their
-- items. Claims are locked before ledger rows, as workers lock them.

-- Whether a failed delivery certainly had no effect on the other side: no connection was made, nothing was sent, or the
-- call was rejected for its key or its rate. The words are those of the gateway stage.
create or replace function afterturn.surely_unprocessed(p_status text, p_category text, p_reason text) returns boolean
language sql immutable parallel safe
return p_status in ('add_failed', 'flush_failed')
   and coalesce(p_category in ('unauthorized', 'invalid_request', 'unusable_target')
                or p_reason in ('no connection was made', 'status 401', 'status 403', 'status 429'), false);

-- Requeues dead rows with a fresh attempt budget. A flush is repeated without its add. Facts that a late extraction
-- finds must be counted: the turn's projection row waits for it again.
create or replace function afterturn.retry_rows(p_host uuid, p_stage text, p_items uuid[], p_by text)
returns setof uuid language plpgsql as $$
declare
    v_rows afterturn.ledger_t[];
begin
    perform set_config('afterturn.host', p_host::text, true);
    if p_stage = 'extraction' then
        perform afterturn.hold_claims(p_host, 'projection', array(
            select l.bank_id from afterturn.ledger_t l
             where l.host_id = p_host and l.stage = p_stage and l.item_id = any (p_items)));
    end if;
    select coalesce(array_agg(b.l), '{}') into v_rows
      from (select l from afterturn.ledger_t l
             where l.host_id = p_host and l.stage = p_stage and l.item_id = any (p_items)
               and (l.status = 'dead' or afterturn.surely_unprocessed(l.status, l.error_category, l.error_reason))
             order by l.item_id for update) b;
    update afterturn.ledger_t l
       set status = case l.status when 'flush_failed' then 'added' else 'pending' end,
           attempts = 0, error_category = null, error_reason = null, updated_at = now(),
           next_attempt_at = case when p_stage = 'projection' and (
                    select true from afterturn.ledger_t e
                     where e.host_id = p_host and e.stage = 'extraction' and e.item_id = l.turn_id and e.undone)
                then 'infinity' else now() end
      from unnest(v_rows) b
     where l.host_id = p_host and l.stage = p_stage and l.item_id = b.item_id;
    if p_stage = 'extraction' then
        perform afterturn.take_back(p_host, 'projection', array(
            select p.item_id from afterturn.ledger_t p join unnest(v_rows) b on p.item_id = b.turn_id
             where p.host_id = p_host and p.stage = 'projection' and p.status = 'running'));
        update afterturn.ledger_t p
           set status = 'pending', attempts = 0, error_category = null, error_reason = null, updated_at = now(),
               next_attempt_at = 'infinity'
          from unnest(v_rows) b
         where p.host_id = p_host and p.stage = 'projection' and p.item_id = b.turn_id
           and p.status in ('pending', 'running', 'done', 'dead');
    end if;
    perform afterturn.audit_by_hand(v_rows, 'operator_retried', jsonb_build_object('by', p_by));
    return query select b.item_id from unnest(v_rows) b;
end $$;

-- Ends rows as skipped. A worker that has one loses its claim, and its result is rolled back. A delivery that may have
-- begun is not ended here: it ends by its own rules.
create or replace function afterturn.drop_rows(p_host uuid, p_stage text, p_items uuid[], p_by text, p_reason text)
returns setof uuid language plpgsql as $$
declare
    v_rows afterturn.ledger_t[];
begin
    perform set_config('afterturn.host', p_host::text, true);
    perform afterturn.hold_claims(p_host, p_stage, array(
        select l.stream_id from afterturn.ledger_t l
         where l.host_id = p_host and l.stage = p_stage and l.item_id = any (p_items)));
    select coalesce(array_agg(b.l), '{}') into v_rows
      from (select l from afterturn.ledger_t l
             where l.host_id = p_host and l.stage = p_stage and l.item_id = any (p_items)
               and l.status in ('pending', 'running', 'dead', 'unknown', 'add_unknown', 'add_failed', 'flush_failed')
             order by l.item_id for update) b;
    perform afterturn.take_back(p_host, p_stage, array(
        select b.item_id from unnest(v_rows) b where b.status = 'running'));
    update afterturn.ledger_t l
       set status = 'skipped', error_category = 'dropped', error_reason = p_reason, updated_at = now()
      from unnest(v_rows) b
     where l.host_id = p_host and l.stage = p_stage and l.item_id = b.item_id;
    if p_stage = 'extraction' then
        update afterturn.ledger_t p set next_attempt_at = now()
          from unnest(v_rows) b
         where p.host_id = p_host and p.stage = 'projection' and p.turn_id = b.turn_id
           and p.next_attempt_at = 'infinity';
    end if;
    perform afterturn.audit_by_hand(v_rows, 'operator_dropped', jsonb_build_object('by', p_by, 'why', p_reason));
    return query select b.item_id from unnest(v_rows) b;
end $$;

-- Settles a delivery with the outcome that a person found. Returns its state before; changes nothing unless that is in
-- p_from.
create or replace function afterturn.resolve_delivery(p_host uuid, p_item uuid, p_from text[], p_status text,
                                                      p_reason text, p_told jsonb) returns text
language plpgsql as $$
declare
    v_row afterturn.ledger_t;
begin
    perform set_config('afterturn.host', p_host::text, true);
    select * into v_row from afterturn.ledger_t l
     where l.host_id = p_host and l.stage = 'gateway' and l.item_id = p_item for update;
    if v_row.status = any (p_from) then
        update afterturn.ledger_t l
           set status = p_status, attempts = 0, error_category = null, error_reason = p_reason, updated_at = now(),
               next_attempt_at = now()
         where l.host_id = p_host and l.stage = 'gateway' and l.item_id = p_item;
        perform afterturn.audit_by_hand(array[v_row], 'operator_resolved', p_told);
    end if;
    return v_row.status;
end $$;

-- Ends as skipped up to p_limit rows that wait for gateway targets that were unset; a worker that has one loses its
-- claim. A delivery that may have begun is not ended here: it ends by its own rules. Returns the number of ended rows.
create or replace function afterturn.end_deliveries(p_host uuid, p_targets uuid[], p_by text, p_reason text, p_limit int)
returns bigint language plpgsql as $$
declare
    v_items uuid[];
    v_rows afterturn.ledger_t[];
begin
    perform set_config('afterturn.host', p_host::text, true);
    v_items := array(select l.item_id from afterturn.ledger_t l
                      where l.host_id = p_host and l.target_id = any (p_targets) and l.undone and l.stage = 'gateway'
                        and l.status in ('pending', 'running') order by l.position limit p_limit);
    perform afterturn.hold_claims(p_host, 'gateway', array(
        select l.stream_id from afterturn.ledger_t l
         where l.host_id = p_host and l.stage = 'gateway' and l.item_id = any (v_items)));
    select coalesce(array_agg(b.l), '{}') into v_rows
      from (select l from afterturn.ledger_t l
             where l.host_id = p_host and l.stage = 'gateway' and l.item_id = any (v_items)
               and l.status in ('pending', 'running')
             order by l.item_id for update) b;
    perform afterturn.take_back(p_host, 'gateway', array(
        select b.item_id from unnest(v_rows) b where b.status = 'running'));
    update afterturn.ledger_t l
       set status = 'skipped', error_category = 'unset', error_reason = p_reason, updated_at = now()
      from unnest(v_rows) b
     where l.host_id = p_host and l.stage = 'gateway' and l.item_id = b.item_id;
    perform afterturn.audit_by_hand(v_rows, 'operator_unset_gateway', jsonb_build_object('by', p_by));
    return cardinality(v_rows);
end $$;

-- Locks the claims of streams, so that no worker changes their rows meanwhile; the next statement reads their state.
create or replace function afterturn.hold_claims(p_host uuid, p_stage text, p_streams uuid[]) returns void
language plpgsql as $$
begin
    perform from afterturn.claim_t c
      where c.host_id = p_host and c.stage = p_stage and c.stream_id = any (p_streams) order by c.stream_id for update;
end $$;

-- Takes running rows from their workers: their claims end, and the other rows of these claims become ready again. A
-- claim under which a delivery may have begun stays: it covers that delivery alone.
create or replace function afterturn.take_back(p_host uuid, p_stage text, p_items uuid[]) returns void
language plpgsql as $$
begin
    with taken as (
        delete from afterturn.claim_t c
         where c.host_id = p_host and c.stage = p_stage and c.stream_id in (
                select l.stream_id from afterturn.ledger_t l
                 where l.host_id = p_host and l.stage = p_stage and l.item_id = any (p_items))
           and not exists (select from afterturn.ledger_t g
                            where g.host_id = p_host and g.stage = p_stage and g.stream_id = c.stream_id
                              and g.status in ('adding', 'added', 'flushing'))
        returning c.stream_id
    )
    update afterturn.ledger_t l set status = 'pending', attempts = greatest(l.attempts - 1, 0), updated_at = now()
      from taken t
     where l.host_id = p_host and l.stage = p_stage and l.stream_id = t.stream_id and l.status = 'running'
       and l.item_id <> all (p_items);
end $$;

-- Writes an audit row for each changed row, with its state before.
create or replace function afterturn.audit_by_hand(p_rows afterturn.ledger_t[], p_event text, p_told jsonb) returns void
language plpgsql as $$
begin
    insert into afterturn.audit_event_t (host_id, event, bank_id, session_id, turn_id, payload)
    select b.host_id, p_event, b.bank_id, b.session_id, b.turn_id,
           p_told || jsonb_strip_nulls(jsonb_build_object(
               'stage', b.stage, 'item', b.item_id, 'was', b.status, 'attempts', b.attempts,
               'category', b.error_category, 'reason', b.error_reason))
      from unnest(p_rows) b;
end $$;
