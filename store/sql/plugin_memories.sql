-- Memories of the memory plugin: each is a turn of one unit in the bank that its namespace is.

-- Appends new memories, none of them named twice, as append_turns does (append_traced_turns, where one has a traceparent),
-- each with the vector that its caller brought, in one transaction; vectors of earlier lives of it go. `p_dimensions`: how
-- many of `p_numbers` are each one's, in turn (0: it has no vector, nor digest). `outcomes` are those of append_turns, or
-- gone: its namespace is not there, or is being deleted. Who deletes a namespace says so while it holds the bank alone, so
-- that no memory is written behind it.
create or replace function afterturn.append_plugin_memories(
    p_host uuid, p_turns afterturn.offered_turn[], p_digests text[], p_norms float8[], p_dimensions int[], p_numbers real[],
    p_traceparents text[], p_wait boolean, out outcomes text[], out positions bigint[])
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_banks uuid[] := '{}';
    v_bank uuid;
    v_living uuid[];
    v_turns afterturn.offered_turn[] := '{}';
    v_traceparents text[] := '{}';
    v_places int[] := '{}';
    v_done record;
    v_read int := 0;
begin
    -- As append_turns takes them, and in its order.
    perform set_config('afterturn.host', p_host::text, true), afterturn.enter_log(),
            pg_advisory_xact_lock_shared(afterturn.lock_key('quota', p_host));
    for t in 1..cardinality(p_turns) loop
        if p_turns[t].bank <> all (v_banks) then
            v_banks := v_banks || p_turns[t].bank;
        end if;
        outcomes[t] := 'gone';
        positions[t] := null;
    end loop;
    foreach v_bank in array array(select b from unnest(v_banks) b order by afterturn.lock_key('bank', b)) loop
        if p_wait then
            perform pg_advisory_xact_lock_shared(afterturn.lock_key('bank', v_bank));
        elsif not pg_try_advisory_xact_lock_shared(afterturn.lock_key('bank', v_bank)) then
            v_banks := array_remove(v_banks, v_bank);
        end if;
    end loop;
    v_living := array(
        select n.bank_id from plugin_namespace_t n
          join agent_memory_bank_t b on b.host_id = n.host_id and b.bank_id = n.bank_id and b.active
         where n.host_id = p_host and n.bank_id = any (v_banks) and not n.ending);
    for t in 1..cardinality(p_turns) loop
        if p_turns[t].bank <> all (v_banks) then
            outcomes[t] := 'held';
        elsif p_turns[t].bank = any (v_living) then
            v_turns := v_turns || p_turns[t];
            v_traceparents := v_traceparents || p_traceparents[t];
            v_places := v_places || t;
        end if;
    end loop;
    if v_places = '{}' then
        return;
    end if;
    if array_remove(v_traceparents, null) = '{}' then
        v_done := afterturn.append_turns(p_host, v_turns, p_wait);
    else
        v_done := afterturn.append_traced_turns(p_host, v_turns, p_wait, v_traceparents);
    end if;
    for n in 1..cardinality(v_places) loop
        outcomes[v_places[n]] := v_done.outcomes[n];
        positions[v_places[n]] := v_done.positions[n];
    end loop;
    for t in 1..cardinality(p_turns) loop
        if outcomes[t] = 'accepted' then
            delete from plugin_vector_t v
             where v.host_id = p_host and v.bank_id = p_turns[t].bank and v.session_id = p_turns[t].session
               and v.digest is distinct from p_digests[t];
            if p_digests[t] is not null then
                insert into plugin_vector_t (host_id, bank_id, session_id, digest, dimension, norm, embedding, written_at)
                values (p_host, p_turns[t].bank, p_turns[t].session, p_digests[t], p_dimensions[t], p_norms[t],
                        p_numbers[v_read + 1 : v_read + p_dimensions[t]]::vector, p_turns[t].accepted_at)
                on conflict do nothing;
            end if;
        end if;
        v_read := v_read + p_dimensions[t];
    end loop;
end $$;

-- The same, each on the authority of its call; ended ones as accept_turns answers them.
create or replace function afterturn.accept_plugin_memories(
    p_host uuid, p_turns afterturn.offered_turn[], p_digests text[], p_norms float8[], p_dimensions int[], p_numbers real[],
    p_traceparents text[], p_wait boolean, p_calls afterturn.call_authority[], out outcomes text[], out positions bigint[])
language plpgsql set plan_cache_mode to force_generic_plan set search_path to afterturn, public as $$
declare
    v_done record;
begin
    outcomes := afterturn.judge_turns(p_host, p_turns, p_calls, p_wait);
    if outcomes is not null then
        positions := array_fill(null::bigint, array[cardinality(p_turns)]);
        return;
    end if;
    v_done := afterturn.append_plugin_memories(p_host, p_turns, p_digests, p_norms, p_dimensions, p_numbers, p_traceparents, p_wait);
    outcomes := v_done.outcomes;
    positions := v_done.positions;
end $$;
