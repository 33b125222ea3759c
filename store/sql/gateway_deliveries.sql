-- The steps of a delivery to an external gateway, each one call and one commit: what is about to be sent, or how it
-- ended, is written before the next step.

-- Reads the messages of turns, and the chunks of documents, which pass the stages as turns do; no stage sees a
-- forgotten one.
create or replace function afterturn.turn_messages(p_host uuid, p_banks uuid[], p_turns uuid[])
returns table (turn_id uuid, unit_id uuid, ordinal int, role text, name text, content text, event_date timestamptz,
               user_id uuid, session_id uuid, session_name text, turn_name text, expires_at timestamptz)
language plpgsql set plan_cache_mode to force_generic_plan as $$
#variable_conflict use_column
begin
    perform set_config('afterturn.host', p_host::text, true);
    return query
    select u.turn_id, u.unit_id, u.ordinal, coalesce(u.role, u.origin), u.name, u.content, u.event_date, u.user_id,
           u.session_id, coalesce(u.session_name, ''), coalesce(u.turn_name, ''), u.expires_at
      from unnest(p_banks, p_turns) as t(bank_id, turn_id),
           lateral (select u.* from afterturn.agent_memory_unit_t u
                     where u.host_id = p_host and u.bank_id = t.bank_id and u.turn_id = t.turn_id
                       and u.origin in ('message', 'document', 'memory') and u.active offset 0) u
     order by u.turn_id, u.ordinal;
end $$;

-- Where turns are delivered to: the target for which each delivery was opened, and the names of its bank and session.
-- Erased names are empty.
create or replace function afterturn.destinations(p_host uuid, p_items uuid[])
returns table (item_id uuid, target afterturn.gateway_target_t, bank_name text, session_name text)
language plpgsql set plan_cache_mode to force_generic_plan as $$
#variable_conflict use_column
begin
    perform set_config('afterturn.host', p_host::text, true);
    return query
    select l.item_id, g, coalesce(b.bank_name, '')::text, coalesce(s.session_name, '')
      from unnest(p_items) i(item)
      join afterturn.ledger_t l on l.host_id = p_host and l.stage = 'gateway' and l.item_id = i.item
      join afterturn.gateway_target_t g on g.host_id = p_host and g.target_id = l.target_id
      left join afterturn.agent_memory_bank_t b on b.host_id = p_host and b.bank_id = l.bank_id
      left join afterturn.agent_session_history_t s
        on s.host_id = p_host and s.bank_id = l.bank_id and s.session_id = l.session_id;
end $$;

-- Advances deliveries, keeping their claims; each by itself. p_moves: [{stream, epoch, item, status, event, payload}].
-- Returns the epochs of the claims that are still valid: for the others nothing was written.
create or replace function afterturn.delivery_steps(p_host uuid, p_moves jsonb) returns bigint[]
language plpgsql set plan_cache_mode to force_generic_plan as $$
declare
    v_held bigint[];
begin
    perform set_config('afterturn.host', p_host::text, true);
    v_held := afterturn.hold_claims(
        p_host, 'gateway', array(select m.stream from jsonb_to_recordset(p_moves) as m(stream uuid)),
        array(select m.epoch from jsonb_to_recordset(p_moves) as m(epoch bigint)));
    update afterturn.ledger_t l set status = s.status, updated_at = now()
      from jsonb_to_recordset(p_moves) as s(epoch bigint, item uuid, status text)
     where s.epoch = any (v_held) and l.host_id = p_host and l.stage = 'gateway' and l.item_id = s.item;
    perform afterturn.audit_deliveries(p_host, v_held, p_moves);
    return v_held;
end $$;

-- Ends deliveries, or delays them, and releases the claims. p_moves as above, with what close_claims takes of each.
-- Returns as above.
create or replace function afterturn.delivery_ends(p_host uuid, p_moves jsonb) returns bigint[]
language plpgsql set plan_cache_mode to force_generic_plan as $$
declare
    v_held bigint[];
begin
    perform set_config('afterturn.host', p_host::text, true);
    v_held := afterturn.close_claims(
        p_host, 'gateway', array(select m.stream from jsonb_to_recordset(p_moves) as m(stream uuid)),
        array(select m.epoch from jsonb_to_recordset(p_moves) as m(epoch bigint)), '{}', p_moves);
    perform afterturn.audit_deliveries(p_host, v_held, p_moves);
    return v_held;
end $$;

-- Writes an audit row for each of these deliveries whose claim is valid, unless its event is null.
create or replace function afterturn.audit_deliveries(p_host uuid, p_held bigint[], p_moves jsonb) returns void
language plpgsql set plan_cache_mode to force_generic_plan as $$
begin
    if not p_moves @? '$[*] ? (@.event != null)' then
        return;
    end if;
    insert into afterturn.audit_event_t (host_id, event, bank_id, session_id, turn_id, payload)
    select p_host, s.event, l.bank_id, l.session_id, l.turn_id, s.payload
      from rows from (jsonb_to_recordset(p_moves) as (epoch bigint, item uuid, event text, payload jsonb)) with ordinality
           as s(epoch, item, event, payload, ord),
           lateral (select l.bank_id, l.session_id, l.turn_id from afterturn.ledger_t l
                     where l.host_id = p_host and l.stage = 'gateway' and l.item_id = s.item offset 0) l
     where s.event is not null and s.epoch = any (p_held)
     order by s.ord;
end $$;
