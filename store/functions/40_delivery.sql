-- The steps of a delivery to a foreign gateway, one call and one commit each: what is about to be sent, or how it
-- ended, is written before anything else happens.

-- Reads the messages of turns, and the chunks of documents, which pass the stages as turns do; a forgotten message is not there for any stage.
create or replace function afterturn.turn_messages(p_host uuid, p_bank uuid, p_turns uuid[])
returns table (turn_id uuid, unit_id uuid, ordinal int, role text, name text, content text, event_date timestamptz,
               user_id uuid, session_id uuid, session_name text, turn_name text)
language plpgsql set plan_cache_mode to force_generic_plan as $$
#variable_conflict use_column
begin
    perform set_config('afterturn.host', p_host::text, true);
    return query
    select u.turn_id, u.unit_id, u.ordinal, coalesce(u.role, u.origin), u.name, u.content, u.event_date, u.user_id,
           u.session_id, coalesce(u.session_name, ''), coalesce(u.turn_name, '')
      from unnest(p_turns) as t(turn_id),
           lateral (select u.* from afterturn.agent_memory_unit_t u
                     where u.host_id = p_host and u.bank_id = p_bank and u.turn_id = t.turn_id
                       and u.origin in ('message', 'document') and u.active offset 0) u
     order by u.turn_id, u.ordinal;
end $$;

-- Moves a delivery on, keeping the claim. False: the claim belongs to somebody else, and nothing was written.
create or replace function afterturn.delivery_step(p_host uuid, p_stream uuid, p_epoch bigint, p_item uuid,
                                                   p_status text, p_event text, p_payload jsonb) returns boolean
language plpgsql as $$
begin
    perform set_config('afterturn.host', p_host::text, true);
    perform from afterturn.claim_t c
      where c.host_id = p_host and c.stage = 'gateway' and c.stream_id = p_stream and c.epoch = p_epoch for update;
    if not found then
        return false;
    end if;
    update afterturn.ledger_t l set status = p_status, updated_at = now()
     where l.host_id = p_host and l.stage = 'gateway' and l.item_id = p_item;
    perform afterturn.audit_delivery(p_host, p_item, p_event, p_payload);
    return true;
end $$;

-- Ends a delivery, or puts it off until p_retry_at, and gives the claim back. False as above.
create or replace function afterturn.delivery_end(p_host uuid, p_stream uuid, p_epoch bigint, p_item uuid,
                                                  p_status text, p_category text, p_reason text,
                                                  p_retry_at timestamptz, p_event text, p_payload jsonb) returns boolean
language plpgsql as $$
begin
    perform set_config('afterturn.host', p_host::text, true);
    if not afterturn.drop_claim(p_host, 'gateway', p_stream, p_epoch) then
        return false;
    end if;
    perform afterturn.settle(p_host, 'gateway', array[p_item], array[p_status], array[p_category], array[p_reason],
                             array[p_retry_at]);
    perform afterturn.audit_delivery(p_host, p_item, p_event, p_payload);
    return true;
end $$;

-- Writes one audit row about a delivery, unless there is nothing to tell (p_event null).
create or replace function afterturn.audit_delivery(p_host uuid, p_item uuid, p_event text, p_payload jsonb) returns void
language plpgsql as $$
begin
    if p_event is not null then
        insert into afterturn.audit_event_t (host_id, event, bank_id, session_id, turn_id, payload)
        select p_host, p_event, l.bank_id, l.session_id, l.turn_id, p_payload
          from afterturn.ledger_t l where l.host_id = p_host and l.stage = 'gateway' and l.item_id = p_item;
    end if;
end $$;
