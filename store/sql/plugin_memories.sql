-- Memories of the memory plugin: each is a turn of one unit in the bank that its namespace is.

-- Appends a new memory as append_turns does (append_traced_turns, where there is a p_traceparent), with the vector that its
-- caller brought (p_digest null: none), in one transaction; vectors of earlier lives of it go. `outcome` is one of
-- append_turns, or gone: its namespace is not there, or is being deleted. Who deletes a namespace says so while it holds the
-- bank alone, so that no memory is written behind it.
create or replace function afterturn.append_plugin_memory(
    p_host uuid, p_turn afterturn.offered_turn, p_digest text, p_norm float8, p_numbers real[], p_traceparent text,
    out outcome text, out "position" bigint)
language plpgsql set search_path to afterturn, public as $$
declare
    v_done record;
begin
    -- As append_turns takes them, and in its order.
    perform set_config('afterturn.host', p_host::text, true), afterturn.enter_log(),
            pg_advisory_xact_lock_shared(afterturn.lock_key('quota', p_host)),
            pg_advisory_xact_lock_shared(afterturn.lock_key('bank', p_turn.bank));
    if not exists (select from plugin_namespace_t n
                     join agent_memory_bank_t b on b.host_id = n.host_id and b.bank_id = n.bank_id and b.active
                    where n.host_id = p_host and n.bank_id = p_turn.bank and not n.ending) then
        outcome := 'gone';
        return;
    end if;
    if p_traceparent is null then
        v_done := afterturn.append_turns(p_host, array[p_turn], true);
    else
        v_done := afterturn.append_traced_turns(p_host, array[p_turn], true, array[p_traceparent]);
    end if;
    outcome := v_done.outcomes[1];
    "position" := v_done.positions[1];
    if outcome <> 'accepted' then
        return;
    end if;
    delete from plugin_vector_t v
     where v.host_id = p_host and v.bank_id = p_turn.bank and v.session_id = p_turn.session
       and v.digest is distinct from p_digest;
    if p_digest is not null then
        insert into plugin_vector_t (host_id, bank_id, session_id, digest, dimension, norm, embedding, written_at)
        values (p_host, p_turn.bank, p_turn.session, p_digest, cardinality(p_numbers), p_norm, p_numbers::vector, p_turn.accepted_at)
        on conflict do nothing;
    end if;
end $$;
