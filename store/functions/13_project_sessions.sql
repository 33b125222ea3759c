-- Projectors of session histories. How projectors work: 10_project.sql.
--
-- Messages are rows, numbered within their session (seq): those of turns are units, those that a creation, an
-- appended history from elsewhere or a compaction brings with their words stand in session_message_t. A history shows
-- what is numbered from first_seq on.

-- A revived history begins empty; its numbering goes on, so that no message gets the number of an older one.
create or replace function afterturn.project_session_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    with begun as materialized (
        select distinct on (e.aggregate_id)
               e.host_id, e.bank_id, e.position, e.aggregate_version, e.event_ts, e.user_id, e.payload->'data' as d,
               (e.payload->'data'->>'sessionId')::uuid as session_id
          from unnest(p_events) e
         where e.event_type = 'AgentSessionHistoryCreatedEvent'
         order by e.aggregate_id, e.aggregate_version
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

-- Adds up what follows each other in one history. Rows are probed one by one: the planner cannot know how few they are.
-- The messages of turns are units; only a history from elsewhere brings words of its own, numbered as they follow.
create or replace function afterturn.project_session_appended(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_unknown bigint;
    v_worded jsonb;
begin
    with told as (
        select e.host_id, e.bank_id, (e.payload->'data'->>'sessionId')::uuid as session_id, e.position, e.aggregate_version,
               e.event_ts, e.user_id, jsonb_array_length(e.payload->'data'->'messages') as messages,
               e.payload @? '$.data.messages[*].content' as worded
          from unnest(p_events) e where e.event_type = 'AgentSessionHistoryAppendedEvent' offset 0
    ), added as materialized (
        select e.host_id, e.bank_id, e.session_id, h.shown, h.before, min(e.aggregate_version) as first,
               bool_or(e.worded) filter (where h.shown < e.aggregate_version) as worded,
               (sum(e.messages) filter (where h.shown < e.aggregate_version))::int as messages,
               (count(*) filter (where h.shown < e.aggregate_version))::int as turns,
               max(e.position) as last_position, max(e.aggregate_version) as version,
               (array_agg(e.event_ts order by e.position desc))[1] as event_ts,
               (array_agg(e.user_id::text order by e.position desc))[1] as user_id
          from told e
          left join lateral (select h.aggregate_version as shown, h.message_count as before from agent_session_history_t h
                              where h.host_id = e.host_id and h.bank_id = e.bank_id and h.session_id = e.session_id
                             offset 0) h on true
         group by 1, 2, 3, 4, 5
    ), updated as (
        update agent_session_history_t s
           set message_count = s.message_count + n.messages, turn_count = s.turn_count + n.turns,
               last_position = n.last_position, aggregate_version = n.version, update_ts = n.event_ts,
               update_user = n.user_id
          from added n
         where n.shown < n.version and s.host_id = n.host_id and s.bank_id = n.bank_id and s.session_id = n.session_id
    )
    select min(n.first) filter (where n.shown is null),
           jsonb_object_agg(n.session_id, jsonb_build_object('shown', n.shown, 'before', n.before)) filter (where n.worded)
      into v_unknown, v_worded from added n;
    if v_unknown is not null then
        perform afterturn.refuse('ZA001', 'AgentSessionHistory', 1, v_unknown);
    end if;
    if v_worded is not null then
        perform afterturn.word_histories(p_events, v_worded);
    end if;
end $$;

-- Writes the messages that appended histories bring with their words; p_sessions: {session: {shown, before}}, the version
-- and the count of messages that each had until now.
drop function if exists afterturn.word_histories(afterturn.event_store_t[]);
create or replace function afterturn.word_histories(p_events afterturn.event_store_t[], p_sessions jsonb) returns void
language plpgsql as $$
begin
    insert into session_message_t (host_id, bank_id, session_id, seq, message)
    select f.host_id, f.bank_id, f.session_id, f.before + said.nth - 1, said.message
      from (select e.host_id, e.bank_id, e.session_id, e.messages,
                   e.before + coalesce(sum(jsonb_array_length(e.messages)) over (
                       partition by e.host_id, e.bank_id, e.session_id order by e.aggregate_version
                       rows between unbounded preceding and 1 preceding), 0) as before
              from (select e.*, (e.payload->'data'->>'sessionId')::uuid as session_id, e.payload->'data'->'messages' as messages,
                           (p_sessions->(e.payload->'data'->>'sessionId')->>'shown')::bigint as shown,
                           (p_sessions->(e.payload->'data'->>'sessionId')->>'before')::bigint as before
                      from unnest(p_events) e where e.event_type = 'AgentSessionHistoryAppendedEvent' offset 0) e
             where e.shown < e.aggregate_version) f,
           jsonb_array_elements(f.messages) with ordinality as said(message, nth)
     where said.message ? 'content';
end $$;

-- The history from now on: the messages the event brings, and what is said later.
create or replace function afterturn.project_session_compacted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentSessionHistoryCompactedEvent' and (
           select true from agent_session_history_t s where s.host_id = e.host_id and s.bank_id = e.bank_id
              and s.session_id = (e.payload->'data'->>'sessionId')::uuid) is null;
    with compacted as (
        update agent_session_history_t s
           set first_seq = s.message_count,
               message_count = s.message_count + jsonb_array_length(e.payload->'data'->'messages'),
               metadata = coalesce(e.payload->'data'->'metadata', s.metadata), last_position = e.position,
               aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
          from unnest(p_events) e
         where e.event_type = 'AgentSessionHistoryCompactedEvent' and s.host_id = e.host_id and s.bank_id = e.bank_id
           and s.session_id = (e.payload->'data'->>'sessionId')::uuid and s.aggregate_version < e.aggregate_version
        returning s.host_id, s.bank_id, s.session_id, s.first_seq, e.payload->'data'->'messages' as messages
    )
    insert into session_message_t (host_id, bank_id, session_id, seq, message)
    select c.host_id, c.bank_id, c.session_id, c.first_seq + said.nth - 1, said.message
      from compacted c, jsonb_array_elements(c.messages) with ordinality as said(message, nth);
end $$;

create or replace function afterturn.project_session_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentSessionHistoryDeletedEvent' and (
           select true from agent_session_history_t s where s.host_id = e.host_id and s.bank_id = e.bank_id
              and s.session_id = (e.payload->'data'->>'sessionId')::uuid) is null;
    update agent_session_history_t s
       set active = false, aggregate_version = e.aggregate_version, last_position = e.position,
           update_ts = e.event_ts, update_user = e.user_id::text
      from unnest(p_events) e
     where e.event_type = 'AgentSessionHistoryDeletedEvent' and s.host_id = e.host_id and s.bank_id = e.bank_id
       and s.session_id = (e.payload->'data'->>'sessionId')::uuid and s.aggregate_version < e.aggregate_version;
end $$;
