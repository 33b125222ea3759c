-- Projectors: one statement per event type over an array of events. The same functions serve one live event
-- and thousands in replay. Every value, times included, comes from the event.

create or replace function afterturn.project_bank_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into afterturn.agent_memory_bank_t as b
        (host_id, bank_id, agent_def_id, user_id, bank_name, disposition, background,
         aggregate_version, active, update_ts, update_user)
    select e.host_id, e.bank_id, (d->>'agentDefId')::uuid, (d->>'userId')::uuid, d->>'bankName',
           coalesce(d->'disposition', '{"skepticism": 3, "literalism": 3, "empathy": 3}'), d->>'background',
           e.aggregate_version, true, e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.payload->'data') as x(d)
     where e.event_type = 'AgentMemoryBankCreatedEvent'
    on conflict (host_id, bank_id) do update
       set (agent_def_id, user_id, bank_name, disposition, background, aggregate_version, active, update_ts, update_user)
         = row (excluded.agent_def_id, excluded.user_id, excluded.bank_name, excluded.disposition, excluded.background,
                excluded.aggregate_version, true, excluded.update_ts, excluded.update_user)
     where b.aggregate_version < excluded.aggregate_version and not b.active;
end $$;

create or replace function afterturn.project_session_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into afterturn.agent_session_history_t as s
        (host_id, session_id, bank_id, metadata, session_name, last_position,
         aggregate_version, active, update_ts, update_user)
    select e.host_id, (d->>'sessionId')::uuid, e.bank_id, coalesce(d->'metadata', '{}'), d->>'sessionName', e.position,
           e.aggregate_version, true, e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.payload->'data') as x(d)
     where e.event_type = 'AgentSessionHistoryCreatedEvent'
    on conflict (host_id, bank_id, session_id) do update
       set (metadata, session_name, message_count, turn_count, last_position,
            aggregate_version, active, update_ts, update_user)
         = row (excluded.metadata, excluded.session_name, 0, 0, excluded.last_position,
                excluded.aggregate_version, true, excluded.update_ts, excluded.update_user)
     where s.aggregate_version < excluded.aggregate_version and not s.active;
end $$;

create or replace function afterturn.project_session_appended(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    update afterturn.agent_session_history_t s
       set message_count = s.message_count + n.messages, turn_count = s.turn_count + n.turns,
           last_position = n.last_position, aggregate_version = n.version,
           update_ts = n.event_ts, update_user = n.user_id
      from (select e.host_id, e.bank_id, (e.payload->'data'->>'sessionId')::uuid as session_id,
                   sum(jsonb_array_length(e.payload->'data'->'messages'))::int as messages, count(*)::int as turns,
                   max(e.position) as last_position, max(e.aggregate_version) as version,
                   (array_agg(e.event_ts order by e.position desc))[1] as event_ts,
                   (array_agg(e.user_id::text order by e.position desc))[1] as user_id
              from unnest(p_events) e
              join afterturn.agent_session_history_t h
                on h.host_id = e.host_id and h.bank_id = e.bank_id
               and h.session_id = (e.payload->'data'->>'sessionId')::uuid
               and h.aggregate_version < e.aggregate_version
             where e.event_type = 'AgentSessionHistoryAppendedEvent'
             group by 1, 2, 3) n
     where s.host_id = n.host_id and s.bank_id = n.bank_id and s.session_id = n.session_id;
end $$;

create or replace function afterturn.project_unit_retained(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into afterturn.agent_memory_unit_t as u
        (host_id, unit_id, bank_id, doc_id, content, context, event_date, occurred_start, occurred_end, mentioned_at,
         fact_type, metadata, proof_count, source_memory_ids, user_id, origin, session_id, turn_id, session_name,
         turn_name, ordinal, seq, role, name, position, aggregate_version, active, update_ts, update_user)
    select e.host_id, (d->>'unitId')::uuid, e.bank_id, (d->>'docId')::uuid, d->>'content', d->>'context',
           (d->>'eventDate')::timestamptz, (d->>'occurredStart')::timestamptz, (d->>'occurredEnd')::timestamptz,
           (d->>'mentionedAt')::timestamptz, d->>'factType', coalesce(d->'metadata', '{}'),
           coalesce((d->>'proofCount')::int, 1),
           coalesce((select array_agg(s::uuid) from jsonb_array_elements_text(d->'sourceMemoryIds') s), '{}'),
           e.user_id, d->>'origin', (d->>'sessionId')::uuid, (d->>'turnId')::uuid, d->>'sessionName',
           d->>'turnName', (d->>'ordinal')::int, (d->>'sequence')::int, d->>'role', d->>'name', e.position,
           e.aggregate_version, true, e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.payload->'data') as x(d)
     where e.event_type = 'AgentMemoryUnitRetainedEvent'
    on conflict (host_id, bank_id, unit_id) do nothing;
end $$;

-- Forgetting is soft in the row and at once for every reader; words and vectors go with it.
create or replace function afterturn.project_unit_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    with gone as (
        update afterturn.agent_memory_unit_t u
           set active = false, aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
          from unnest(p_events) e
         where e.event_type = 'AgentMemoryUnitDeletedEvent' and u.host_id = e.host_id and u.bank_id = e.bank_id
           and u.unit_id = (e.payload->'data'->>'unitId')::uuid and u.aggregate_version < e.aggregate_version
        returning u.host_id, u.bank_id, u.unit_id, u.update_ts
    ), words as (
        delete from afterturn.posting_t p using gone g
         where p.host_id = g.host_id and p.bank_id = g.bank_id and p.unit_id = g.unit_id
    ), vectors as (
        delete from afterturn.unit_vector_t v using gone g
         where v.host_id = g.host_id and v.bank_id = g.bank_id and v.unit_id = g.unit_id
    )
    update afterturn.agent_memory_unit_entity_t l set removed_at = g.update_ts
      from gone g
     where l.host_id = g.host_id and l.bank_id = g.bank_id and l.unit_id = g.unit_id and l.removed_at is null;
end $$;

create or replace function afterturn.project_entity_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into afterturn.agent_memory_entity_t as n
        (host_id, entity_id, bank_id, user_id, canonical_name, metadata, aggregate_version, active, update_ts, update_user)
    select e.host_id, (d->>'entityId')::uuid, e.bank_id, (d->>'userId')::uuid, d->>'canonicalName',
           coalesce(d->'metadata', '{}'), e.aggregate_version, true, e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.payload->'data') as x(d)
     where e.event_type = 'AgentMemoryEntityCreatedEvent'
    on conflict (host_id, bank_id, entity_id) do update
       set (canonical_name, metadata, aggregate_version, active, update_ts, update_user)
         = row (excluded.canonical_name, excluded.metadata, excluded.aggregate_version, true,
                excluded.update_ts, excluded.update_user)
     where n.aggregate_version < excluded.aggregate_version and not n.active;
end $$;

create or replace function afterturn.project_unit_entity_linked(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into afterturn.agent_memory_unit_entity_t (host_id, bank_id, unit_id, entity_id, mentions)
    select e.host_id, e.bank_id, (d->>'unitId')::uuid, (d->>'entityId')::uuid, coalesce((d->>'mentions')::int, 1)
      from unnest(p_events) e, lateral (select e.payload->'data') as x(d)
     where e.event_type = 'AgentMemoryUnitEntityLinkedEvent'
    on conflict (host_id, bank_id, unit_id, entity_id) do nothing;
end $$;

create or replace function afterturn.project_link_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into afterturn.agent_memory_link_t as l
        (host_id, bank_id, from_unit_id, to_unit_id, link_type, weight, aggregate_version, active, update_ts, update_user)
    select e.host_id, e.bank_id, (d->>'fromUnitId')::uuid, (d->>'toUnitId')::uuid, d->>'linkType',
           coalesce((d->>'weight')::float8, 1.0), e.aggregate_version, true, e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.payload->'data') as x(d)
     where e.event_type = 'AgentMemoryLinkCreatedEvent'
    on conflict (host_id, bank_id, from_unit_id, to_unit_id, link_type) do update
       set (weight, aggregate_version, active, update_ts, update_user)
         = row (excluded.weight, excluded.aggregate_version, true, excluded.update_ts, excluded.update_user)
     where l.aggregate_version < excluded.aggregate_version and not l.active;
end $$;

-- Applies a batch in the order of its foreign keys, each projector only where the batch holds its type.
create or replace function afterturn.project(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_types text[] := (select array_agg(distinct e.event_type) from unnest(p_events) e);
begin
    if 'AgentMemoryBankCreatedEvent' = any (v_types) then perform afterturn.project_bank_created(p_events); end if;
    if 'AgentSessionHistoryCreatedEvent' = any (v_types) then perform afterturn.project_session_created(p_events); end if;
    if 'AgentSessionHistoryAppendedEvent' = any (v_types) then perform afterturn.project_session_appended(p_events); end if;
    if 'AgentMemoryUnitRetainedEvent' = any (v_types) then perform afterturn.project_unit_retained(p_events); end if;
    if 'AgentMemoryUnitDeletedEvent' = any (v_types) then perform afterturn.project_unit_deleted(p_events); end if;
    if 'AgentMemoryEntityCreatedEvent' = any (v_types) then perform afterturn.project_entity_created(p_events); end if;
    if 'AgentMemoryUnitEntityLinkedEvent' = any (v_types) then perform afterturn.project_unit_entity_linked(p_events); end if;
    if 'AgentMemoryLinkCreatedEvent' = any (v_types) then perform afterturn.project_link_created(p_events); end if;
end $$;
