-- Summaries of session histories: which sessions need one, and the one that a session has.

-- Our summary of the messages before the one numbered p_first, as its event holds it, without the entries whose message was
-- forgotten, corrected, or has ended by p_now: an entry names its message and the version of that. Null: there is none.
create or replace function afterturn.summary_of(p_host uuid, p_bank uuid, p_session uuid, p_first int, p_now timestamptz)
returns jsonb language plpgsql stable as $$
declare
    v_summary jsonb;
    v_seqs int[];
    v_versions bigint[];
    v_unchanged int[];
begin
    if p_first = 0 then
        return null;
    end if;
    select s.message->'content' into v_summary from afterturn.session_message_t s
     where s.host_id = p_host and s.bank_id = p_bank and s.session_id = p_session and s.seq = afterturn.summary_seq(p_first);
    if v_summary is null then
        return null;
    end if;
    select array_agg((e->>'seq')::int), array_agg((e->>'version')::bigint) into v_seqs, v_versions
      from jsonb_array_elements(v_summary->'entries') e;
    v_unchanged := array(
        select distinct e.seq
          from unnest(v_seqs, v_versions) e(seq, version),
               lateral (select u.aggregate_version from afterturn.agent_memory_unit_t u
                         where u.host_id = p_host and u.bank_id = p_bank and u.session_id = p_session
                           and u.seq is not null and u.seq = e.seq and u.active and u.content <> ''
                           and (u.expires_at is null or u.expires_at > p_now) offset 0) u
         where u.aggregate_version = e.version);
    return jsonb_set(v_summary, '{entries}', coalesce(
        (select jsonb_agg(e.value order by e.nth) from jsonb_array_elements(v_summary->'entries') with ordinality e(value, nth)
          where (e.value->>'seq')::int = any (v_unchanged)), '[]'));
end $$;

-- The history of a session as its last compaction left it: the number from which messages are kept, and our summary of
-- those before; else the newest words of its own that a platform left there. No row: no such session.
create or replace function afterturn.session_summary(p_host uuid, p_bank uuid, p_session uuid, p_now timestamptz)
returns table (first_seq int, version bigint, summary jsonb, messages jsonb)
language plpgsql stable as $$
begin
    select h.first_seq, h.aggregate_version into first_seq, version from afterturn.agent_session_history_t h
     where h.host_id = p_host and h.bank_id = p_bank and h.session_id = p_session and h.active;
    if not found then
        return;
    end if;
    summary := afterturn.summary_of(p_host, p_bank, p_session, first_seq, p_now);
    if first_seq > 0 and summary is null then
        select jsonb_agg(m.message->'content' order by m.seq) into messages
          from (select s.seq, s.message from afterturn.session_message_t s
                 where s.host_id = p_host and s.bank_id = p_bank and s.session_id = p_session
                   and s.seq >= first_seq and s.message ? 'content'
                 order by s.seq desc limit 40) m;
    end if;
    return next;
end $$;

-- The number of a session's first message that no summary tells of: a summary that an erasure took is made anew from the
-- beginning, but what was said before a history was deleted is no longer its own.
create or replace function afterturn.first_to_summarise(p_host uuid, p_bank uuid, p_session uuid, p_first int)
returns int language plpgsql stable as $$
declare
    v_key text := p_session;
begin
    if p_first = 0
       or exists (select from afterturn.session_message_t s
                   where s.host_id = p_host and s.bank_id = p_bank and s.session_id = p_session
                     and s.seq = afterturn.summary_seq(p_first) and s.message ? 'content')
       or exists (select from afterturn.event_store_t e
                   where e.host_id = p_host and e.bank_id = p_bank and e.aggregate_key = v_key
                     and e.event_type = 'AgentSessionHistoryDeletedEvent') then
        return p_first;
    end if;
    return 0;
end $$;

-- Of these sessions those whose history is to be summarised: more than twice p_items messages are in no summary, or these
-- take more than p_bytes; or the summary is gone with an erasure. A history that holds words of its own beside turns is
-- its platform's to compact.
create or replace function afterturn.sessions_to_summarise(
    p_host uuid, p_bank uuid, p_sessions uuid[], p_items int, p_bytes bigint)
returns setof uuid language plpgsql stable as $$
declare
    v_session uuid;
    v_first int;
    v_count int;
begin
    foreach v_session in array p_sessions loop
        select h.first_seq, h.message_count into v_first, v_count from afterturn.agent_session_history_t h
         where h.host_id = p_host and h.bank_id = p_bank and h.session_id = v_session and h.active;
        continue when not found or v_count <= v_first
            or exists (select from afterturn.session_message_t s
                        where s.host_id = p_host and s.bank_id = p_bank and s.session_id = v_session
                          and s.seq >= 0 and s.message ? 'content');
        if v_count - v_first > 2 * p_items
           or afterturn.first_to_summarise(p_host, p_bank, v_session, v_first) < v_first
           or (select coalesce(sum(u.bytes), 0) from afterturn.agent_memory_unit_t u
                where u.host_id = p_host and u.bank_id = p_bank and u.session_id = v_session and u.seq >= v_first) > p_bytes then
            return next v_session;
        end if;
    end loop;
end $$;
