-- Projectors of session histories. How projectors work: projections.sql.
--
-- Messages are rows, numbered within their session (seq): those of turns are units, those that a creation, an
-- appended history from elsewhere or a compaction brings with their words stand in session_message_t. A history shows
-- what is numbered from first_seq on, and before it the summary of the rest, if there is one (`summary_seq`).

-- A revived history begins empty; its numbering goes on, so that no message gets the number of an older one.
create or replace function afterturn.project_session_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    with begun as materialized (
        select distinct on (e.bank_id, e.aggregate_key)
               e.host_id, e.bank_id, e.position, e.aggregate_version, e.event_ts, e.user_id, e.data as d,
               (e.data->>'sessionId')::uuid as session_id
          from unnest(p_events) e
         where e.event_type = 'AgentSessionHistoryCreatedEvent'
         order by e.bank_id, e.aggregate_key, e.aggregate_version
    ), made as (
        insert into agent_session_history_t as s
            (host_id, session_id, bank_id, metadata, session_name, message_count, last_position,
             aggregate_version, active, update_ts, update_user)
        select e.host_id, e.session_id, e.bank_id, coalesce(d->'metadata', '{}'), d->>'sessionName',
               coalesce(jsonb_array_length(d->'messages'), 0), e.position, e.aggregate_version,
               coalesce((select b.active from agent_memory_bank_t b
                          where b.host_id = e.host_id and b.bank_id = e.bank_id), true),
               e.event_ts, e.user_id::text
          from begun e
        on conflict (host_id, bank_id, session_id) do update
           set (metadata, session_name, first_seq, message_count, turn_count, last_position,
                aggregate_version, active, update_ts, update_user)
             = row (excluded.metadata, excluded.session_name, s.message_count, s.message_count + excluded.message_count,
                    0, excluded.last_position, excluded.aggregate_version, excluded.active, excluded.update_ts,
                    excluded.update_user)
         where s.aggregate_version < excluded.aggregate_version and not s.active
        returning s.host_id, s.bank_id, s.session_id, s.first_seq, s.last_position
    )
    insert into session_message_t (host_id, bank_id, session_id, seq, message)
    select m.host_id, m.bank_id, m.session_id, m.first_seq + said.nth - 1, said.message
      from (select e.position, e.d->'messages' as messages from begun e where e.d ? 'messages') e
      join made m on m.last_position = e.position,
           jsonb_array_elements(e.messages) with ordinality as said(message, nth);
end $$;

-- One event after another: a statement that folds many costs a single turn, which is what mostly comes, twice as much.
-- The messages of turns are units; only a history from elsewhere brings words of its own, numbered as they follow.
create or replace function afterturn.project_session_appended(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_event afterturn.event_store_t;
    v_messages jsonb;
    v_session uuid;
    v_before int;
begin
    foreach v_event in array p_events loop
        continue when v_event.event_type <> 'AgentSessionHistoryAppendedEvent';
        v_messages := v_event.data->'messages';
        v_session := (v_event.data->>'sessionId')::uuid;
        update agent_session_history_t s
           set message_count = s.message_count + jsonb_array_length(v_messages), turn_count = s.turn_count + 1,
               last_position = v_event.position, aggregate_version = v_event.aggregate_version,
               update_ts = v_event.event_ts, update_user = v_event.user_id::text
         where s.host_id = v_event.host_id and s.bank_id = v_event.bank_id and s.session_id = v_session
           and s.aggregate_version < v_event.aggregate_version
        returning s.message_count - jsonb_array_length(v_messages) into v_before;
        if not found then
            perform afterturn.refuse('ZA001', v_event.aggregate_type, 1, v_event.aggregate_version)
              where (select true from agent_session_history_t s where s.host_id = v_event.host_id
                        and s.bank_id = v_event.bank_id and s.session_id = v_session) is null;
        elsif v_messages @? '$[*].content' then
            insert into session_message_t (host_id, bank_id, session_id, seq, message)
            select v_event.host_id, v_event.bank_id, v_session, v_before + said.nth - 1, said.message
              from jsonb_array_elements(v_messages) with ordinality as said(message, nth)
             where said.message ? 'content';
        end if;
    end loop;
end $$;

-- The history from now on: the messages the event brings, and what is said later. With `keptFrom` the messages numbered
-- from there on stay, too, behind the only one of the event, a summary. That one takes no number of a message: it stands
-- below 0, at `summary_seq`, and the next summary replaces it.
create or replace function afterturn.summary_seq(p_first int) returns int
language sql immutable parallel safe return -1 - p_first;

create or replace function afterturn.project_session_compacted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentSessionHistoryCompactedEvent' and (
           select true from agent_session_history_t s where s.host_id = e.host_id and s.bank_id = e.bank_id
              and s.session_id = (e.data->>'sessionId')::uuid) is null;
    with compacted as (
        update agent_session_history_t s
           set first_seq = coalesce((e.d->>'keptFrom')::int, s.message_count),
               message_count = s.message_count
                   + case when e.d ? 'keptFrom' then 0 else jsonb_array_length(e.d->'messages') end,
               metadata = coalesce(e.d->'metadata', s.metadata), last_position = e.position,
               aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
          from afterturn.events_about(p_events, 'AgentSessionHistoryCompactedEvent', 'sessionId') e
         where s.host_id = e.host_id and s.bank_id = e.bank_id and s.session_id = e.thing
           and s.aggregate_version < e.aggregate_version
        returning s.host_id, s.bank_id, s.session_id, e.d->'messages' as messages,
                  case when e.d ? 'keptFrom' then afterturn.summary_seq(s.first_seq) else s.first_seq end as first
    ), replaced as (
        delete from session_message_t m using compacted c
         where m.host_id = c.host_id and m.bank_id = c.bank_id and m.session_id = c.session_id and m.seq < 0
           and m.seq <> c.first
    )
    insert into session_message_t as m (host_id, bank_id, session_id, seq, message)
    select c.host_id, c.bank_id, c.session_id, c.first + said.nth - 1, said.message
      from compacted c, jsonb_array_elements(c.messages) with ordinality as said(message, nth)
    on conflict (host_id, bank_id, session_id, seq) do update set message = excluded.message;
end $$;

create or replace function afterturn.project_session_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentSessionHistoryDeletedEvent' and (
           select true from agent_session_history_t s where s.host_id = e.host_id and s.bank_id = e.bank_id
              and s.session_id = (e.data->>'sessionId')::uuid) is null;
    update agent_session_history_t s
       set active = false, aggregate_version = e.aggregate_version, last_position = e.position,
           update_ts = e.event_ts, update_user = e.user_id::text
      from afterturn.events_about(p_events, 'AgentSessionHistoryDeletedEvent', 'sessionId') e
     where s.host_id = e.host_id and s.bank_id = e.bank_id and s.session_id = e.thing
       and s.aggregate_version < e.aggregate_version;
end $$;
