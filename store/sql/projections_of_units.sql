-- Projectors of units, entities, and what joins them. How projectors work: projections.sql.

-- A run never begins one unit twice (projections.sql), so nothing is sorted here, which makes an append faster.
-- p_living: the caller has checked that the bank is alive.
create or replace function afterturn.project_unit_retained(p_events afterturn.event_store_t[], p_living boolean default false)
returns void language plpgsql as $$
begin
    insert into agent_memory_unit_t as u
        (host_id, unit_id, bank_id, doc_id, content, context, event_date, occurred_start, occurred_end, mentioned_at,
         fact_type, metadata, proof_count, source_memory_ids, user_id, origin, session_id, turn_id, session_name,
         turn_name, ordinal, seq, role, name, position, bytes, expires_at, aggregate_version, active, update_ts, update_user)
    select e.host_id, (d->>'unitId')::uuid, e.bank_id, (d->>'docId')::uuid, coalesce(d->>'content', ''), d->>'context',
           coalesce((d->>'eventDate')::timestamptz, e.event_ts), (d->>'occurredStart')::timestamptz, (d->>'occurredEnd')::timestamptz,
           (d->>'mentionedAt')::timestamptz, coalesce(d->>'factType', 'world'), coalesce(d->'metadata', '{}'),
           coalesce((d->>'proofCount')::int, 1),
           case when d ? 'sourceMemoryIds' then array(select s::uuid from jsonb_array_elements_text(d->'sourceMemoryIds') s)
                else '{}' end,
           e.user_id, coalesce(d->>'origin', 'extraction'), (d->>'sessionId')::uuid, (d->>'turnId')::uuid,
           d->>'sessionName', d->>'turnName', (d->>'ordinal')::int, (d->>'sequence')::int, d->>'role', d->>'name',
           e.position,
           coalesce((d->>'bytes')::bigint, case when d->>'origin' in ('message', 'document', 'memory') then octet_length(d->>'content') end, 0),
           (d->>'expiresAt')::timestamptz, e.aggregate_version,
           (p_living or coalesce((select b.active from agent_memory_bank_t b
                                   where b.host_id = e.host_id and b.bank_id = e.bank_id), true))
           and coalesce((select o.active from agent_memory_doc_t o where o.host_id = e.host_id and o.bank_id = e.bank_id
                            and o.doc_id = (d->>'docId')::uuid), true),
           e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.data offset 0) as x(d)
     where e.event_type = 'AgentMemoryUnitRetainedEvent'
    on conflict (host_id, bank_id, unit_id) do update
       set (doc_id, content, context, event_date, occurred_start, occurred_end, mentioned_at, fact_type, metadata,
            proof_count, source_memory_ids, user_id, origin, session_id, turn_id, session_name, turn_name, ordinal, seq,
            role, name, position, bytes, expires_at, aggregate_version, active, update_ts, update_user)
         = row (excluded.doc_id, excluded.content, excluded.context, excluded.event_date, excluded.occurred_start,
                excluded.occurred_end, excluded.mentioned_at, excluded.fact_type, excluded.metadata,
                excluded.proof_count, excluded.source_memory_ids, excluded.user_id, excluded.origin,
                excluded.session_id, excluded.turn_id, excluded.session_name, excluded.turn_name, excluded.ordinal,
                excluded.seq, excluded.role, excluded.name, excluded.position, excluded.bytes, excluded.expires_at,
                excluded.aggregate_version, excluded.active, excluded.update_ts, excluded.update_user)
     where u.aggregate_version < excluded.aggregate_version and not u.active;
end $$;

-- Whether this text changes the words by which a unit is found.
create or replace function afterturn.rewords(p_content text, p_context text, p_date timestamptz, d jsonb) returns boolean
language sql stable parallel safe
return (p_content, p_context, p_date) is distinct from
       (coalesce(d->>'content', ''), d->>'context', coalesce((d->>'eventDate')::timestamptz, p_date));

-- The place in a conversation does not change. Words and vectors of the former text are removed at once; the caller
-- that changes the text brings the new words and opens a row for the embedding stage.
create or replace function afterturn.project_unit_updated(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryUnitUpdatedEvent' and (
           select true from agent_memory_unit_t u where u.host_id = e.host_id and u.bank_id = e.bank_id
              and u.unit_id = (e.data->>'unitId')::uuid) is null;
    perform afterturn.end_words(r.host_id, r.bank_id, r.units)
       from (select u.host_id, u.bank_id, array_agg(u.unit_id) as units
               from (select distinct on (e.bank_id, e.aggregate_key) e.*
                       from afterturn.events_about(p_events, 'AgentMemoryUnitUpdatedEvent', 'unitId') e
                      order by e.bank_id, e.aggregate_key, e.aggregate_version desc) e
               join agent_memory_unit_t u on u.host_id = e.host_id and u.bank_id = e.bank_id and u.unit_id = e.thing
              where u.active and u.aggregate_version < e.aggregate_version and afterturn.rewords(u.content, u.context, u.event_date, e.d)
              group by 1, 2) r;
    with last as (
        select distinct on (e.bank_id, e.aggregate_key) e.*
          from afterturn.events_about(p_events, 'AgentMemoryUnitUpdatedEvent', 'unitId') e
         order by e.bank_id, e.aggregate_key, e.aggregate_version desc
    ), reworded as (
        select u.host_id, u.bank_id, u.unit_id
          from last e join agent_memory_unit_t u
            on u.host_id = e.host_id and u.bank_id = e.bank_id and u.unit_id = e.thing
         where u.aggregate_version < e.aggregate_version and afterturn.rewords(u.content, u.context, u.event_date, e.d)
    ), vectors as (
        delete from unit_vector_t v using reworded w
         where v.host_id = w.host_id and v.bank_id = w.bank_id and v.unit_id = w.unit_id
    )
    update agent_memory_unit_t u
       set (doc_id, content, context, event_date, occurred_start, occurred_end, mentioned_at, fact_type, metadata,
            proof_count, source_memory_ids, bytes, expires_at, aggregate_version, update_ts, update_user)
         = row ((d->>'docId')::uuid, coalesce(d->>'content', ''), d->>'context', coalesce((d->>'eventDate')::timestamptz, e.event_ts),
                (d->>'occurredStart')::timestamptz, (d->>'occurredEnd')::timestamptz, (d->>'mentionedAt')::timestamptz,
                coalesce(d->>'factType', 'world'), coalesce(d->'metadata', '{}'), coalesce((d->>'proofCount')::int, 1),
                coalesce((select array_agg(s::uuid) from jsonb_array_elements_text(d->'sourceMemoryIds') s), '{}'),
                coalesce((d->>'bytes')::bigint, case when u.origin in ('message', 'document', 'memory') then octet_length(d->>'content') end, 0),
                (d->>'expiresAt')::timestamptz, e.aggregate_version, e.event_ts, e.user_id::text)
      from last e
     where u.host_id = e.host_id and u.bank_id = e.bank_id and u.unit_id = e.thing
       and u.aggregate_version < e.aggregate_version;
end $$;

-- What ends with units: their words, vectors and mentions, and the links from and to them.
create or replace function afterturn.end_units(p_host uuid, p_bank uuid, p_units uuid[], p_at timestamptz) returns void
language plpgsql as $$
begin
    perform afterturn.end_words(p_host, p_bank, p_units);
    delete from unit_vector_t v using unnest(p_units) g(unit_id)
     where v.host_id = p_host and v.bank_id = p_bank and v.unit_id = g.unit_id;
    update agent_memory_unit_entity_t l set removed_at = p_at from unnest(p_units) g(unit_id)
     where l.host_id = p_host and l.bank_id = p_bank and l.unit_id = g.unit_id and l.removed_at is null;
    update agent_memory_link_t k set active = false from unnest(p_units) g(unit_id)
     where k.host_id = p_host and k.bank_id = p_bank and k.from_unit_id = g.unit_id and k.active;
    update agent_memory_link_t k set active = false from unnest(p_units) g(unit_id)
     where k.host_id = p_host and k.bank_id = p_bank and k.to_unit_id = g.unit_id and k.active;
end $$;

-- Forgetting is a soft delete of the row, effective for every reader at once.
create or replace function afterturn.project_unit_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_gone record;
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryUnitDeletedEvent' and (
           select true from agent_memory_unit_t u where u.host_id = e.host_id and u.bank_id = e.bank_id
              and u.unit_id = (e.data->>'unitId')::uuid) is null;
    for v_gone in
        with gone as (
            update agent_memory_unit_t u
               set active = false, aggregate_version = e.aggregate_version, update_ts = e.event_ts,
                   update_user = e.user_id::text
              from afterturn.events_about(p_events, 'AgentMemoryUnitDeletedEvent', 'unitId') e
              join agent_memory_unit_t b on b.host_id = e.host_id and b.bank_id = e.bank_id and b.unit_id = e.thing
             where u.host_id = e.host_id and u.bank_id = e.bank_id and u.unit_id = e.thing
               and u.aggregate_version < e.aggregate_version
            returning u.host_id, u.bank_id, u.unit_id, u.update_ts, b.active as lived
        )
        -- What had ended before ends nothing more.
        select g.host_id, g.bank_id, g.update_ts, array_agg(g.unit_id) as units from gone g where g.lived group by 1, 2, 3
    loop
        perform afterturn.end_units(v_gone.host_id, v_gone.bank_id, v_gone.units, v_gone.update_ts);
    end loop;
end $$;

create or replace function afterturn.project_entity_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into agent_memory_entity_t as n
        (host_id, entity_id, bank_id, user_id, canonical_name, metadata, aggregate_version, active, update_ts, update_user)
    select distinct on (e.bank_id, e.aggregate_key)
           e.host_id, (d->>'entityId')::uuid, e.bank_id, (d->>'userId')::uuid, coalesce(d->>'canonicalName', ''),
           coalesce(d->'metadata', '{}'), e.aggregate_version,
           coalesce((select b.active from agent_memory_bank_t b where b.host_id = e.host_id and b.bank_id = e.bank_id), true),
           e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.data offset 0) as x(d)
     where e.event_type = 'AgentMemoryEntityCreatedEvent'
     order by e.bank_id, e.aggregate_key, e.aggregate_version
    on conflict (host_id, bank_id, entity_id) do update
       set (user_id, canonical_name, metadata, aggregate_version, active, update_ts, update_user)
         = row (excluded.user_id, excluded.canonical_name, excluded.metadata, excluded.aggregate_version,
                excluded.active, excluded.update_ts, excluded.update_user)
     where n.aggregate_version < excluded.aggregate_version and not n.active;
end $$;

create or replace function afterturn.project_entity_updated(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryEntityUpdatedEvent' and (
           select true from agent_memory_entity_t n where n.host_id = e.host_id and n.bank_id = e.bank_id
              and n.entity_id = (e.data->>'entityId')::uuid) is null;
    update agent_memory_entity_t n
       set (user_id, canonical_name, metadata, aggregate_version, update_ts, update_user)
         = row ((d->>'userId')::uuid, coalesce(d->>'canonicalName', ''), coalesce(d->'metadata', '{}'), e.aggregate_version,
                e.event_ts, e.user_id::text)
      from (select distinct on (e.bank_id, e.aggregate_key) e.* from afterturn.events_about(p_events, 'AgentMemoryEntityUpdatedEvent', 'entityId') e
             order by e.bank_id, e.aggregate_key, e.aggregate_version desc) e
     where n.host_id = e.host_id and n.bank_id = e.bank_id and n.entity_id = e.thing
       and n.aggregate_version < e.aggregate_version;
    perform afterturn.mark_stale(e.host_id, e.bank_id, array_agg((e.data->>'entityId')::uuid))
       from unnest(p_events) e where e.event_type = 'AgentMemoryEntityUpdatedEvent' group by e.host_id, e.bank_id;
end $$;

-- The end of an entity ends its mentions; the projection stage removes them from its counts.
create or replace function afterturn.project_entity_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryEntityDeletedEvent' and (
           select true from agent_memory_entity_t n where n.host_id = e.host_id and n.bank_id = e.bank_id
              and n.entity_id = (e.data->>'entityId')::uuid) is null;
    with gone as (
        update agent_memory_entity_t n
           set active = false, aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
          from afterturn.events_about(p_events, 'AgentMemoryEntityDeletedEvent', 'entityId') e
         where n.host_id = e.host_id and n.bank_id = e.bank_id and n.entity_id = e.thing
           and n.aggregate_version < e.aggregate_version
        returning n.host_id, n.bank_id, n.entity_id, n.update_ts
    )
    update agent_memory_unit_entity_t l set removed_at = g.update_ts from gone g
     where l.host_id = g.host_id and l.bank_id = g.bank_id and l.entity_id = g.entity_id and l.removed_at is null;
end $$;

-- A mention that returns before its end was counted stays counted: the difference is settled here.
create or replace function afterturn.settle_back(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    with back as (
        select l.host_id, l.bank_id, l.entity_id, l.mentions as mentions_before, l.name as name_before,
               l.kind as kind_before, coalesce((d->>'mentions')::int, 1) as mentions, d->>'name' as name, d->>'kind' as kind
          from (select e.*, e.data as d from unnest(p_events) e
                 where e.event_type = 'AgentMemoryUnitEntityLinkedEvent' and e.aggregate_version > 1) e,
               lateral (select l.* from agent_memory_unit_entity_t l
                         where l.host_id = e.host_id and l.bank_id = e.bank_id
                           and l.unit_id = (d->>'unitId')::uuid and l.entity_id = (d->>'entityId')::uuid offset 0) l
         where l.counted and l.removed_at is not null and l.aggregate_version < e.aggregate_version
    ), named as (
        insert into afterturn.entity_name_t as t (host_id, bank_id, entity_id, name, kind, mentions)
        select c.host_id, c.bank_id, c.entity_id, c.name, c.kind, sum(c.change)
          from (select b.host_id, b.bank_id, b.entity_id, coalesce(b.name_before, '') as name,
                       coalesce(b.kind_before, '') as kind, -b.mentions_before as change from back b
                union all
                select b.host_id, b.bank_id, b.entity_id, coalesce(b.name, ''), coalesce(b.kind, ''), b.mentions
                  from back b) c
         group by 1, 2, 3, 4, 5
        on conflict (host_id, bank_id, entity_id, name, kind) do update set mentions = t.mentions + excluded.mentions
    ), stale as (
        insert into afterturn.stale_entity_t (host_id, bank_id, entity_id)
        select distinct b.host_id, b.bank_id, b.entity_id from back b
        on conflict do nothing
    )
    update agent_memory_entity_t n set mention_count = n.mention_count + c.change
      from (select b.host_id, b.bank_id, b.entity_id, sum(b.mentions - b.mentions_before)::int as change
              from back b group by 1, 2, 3) c
     where n.host_id = c.host_id and n.bank_id = c.bank_id and n.entity_id = c.entity_id and c.change <> 0;
end $$;

-- Its place in the text stays the first one: the pairs of entities of a unit follow from it
-- (store/derived/projection.py), and counts are undone by it. The seed deletes the row of an unlinked mention; here a
-- tombstone keeps its version, so that a repeated Linked(1) does not undo Unlinked(2), and Linked(3) does.
create or replace function afterturn.project_unit_entity_linked(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    if (select true from unnest(p_events) e where e.aggregate_version > 1 limit 1) then
        perform afterturn.settle_back(p_events);
    end if;
    insert into agent_memory_unit_entity_t as l
        (host_id, bank_id, unit_id, entity_id, mentions, name, kind, place, aggregate_version, removed_at)
    select distinct on (e.bank_id, e.aggregate_key)
           e.host_id, e.bank_id, (d->>'unitId')::uuid, (d->>'entityId')::uuid, coalesce((d->>'mentions')::int, 1),
           d->>'name', d->>'kind', coalesce((d->>'place')::int, 0), e.aggregate_version,
           case when coalesce((select u.active from agent_memory_unit_t u where u.host_id = e.host_id
                                  and u.bank_id = e.bank_id and u.unit_id = (d->>'unitId')::uuid), true)
                 and coalesce((select n.active from agent_memory_entity_t n where n.host_id = e.host_id
                                  and n.bank_id = e.bank_id and n.entity_id = (d->>'entityId')::uuid), true)
                then null else e.event_ts end
      from unnest(p_events) e, lateral (select e.data offset 0) as x(d)
     where e.event_type = 'AgentMemoryUnitEntityLinkedEvent'
     order by e.bank_id, e.aggregate_key, e.aggregate_version
    on conflict (host_id, bank_id, unit_id, entity_id) do update
       set (mentions, name, kind, aggregate_version, removed_at)
         = row (excluded.mentions, excluded.name, excluded.kind, excluded.aggregate_version, excluded.removed_at)
     where l.aggregate_version < excluded.aggregate_version and l.removed_at is not null;
end $$;

create or replace function afterturn.project_unit_entity_unlinked(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryUnitEntityUnlinkedEvent' and (
           select true from agent_memory_unit_entity_t l where l.host_id = e.host_id and l.bank_id = e.bank_id
              and l.unit_id = (e.data->>'unitId')::uuid
              and l.entity_id = (e.data->>'entityId')::uuid) is null;
    update agent_memory_unit_entity_t l
       set aggregate_version = e.aggregate_version, removed_at = coalesce(l.removed_at, e.event_ts)
      from afterturn.events_about(p_events, 'AgentMemoryUnitEntityUnlinkedEvent', 'unitId') e
     where l.host_id = e.host_id and l.bank_id = e.bank_id and l.unit_id = e.thing
       and l.entity_id = (e.d->>'entityId')::uuid
       and l.aggregate_version < e.aggregate_version;
end $$;

create or replace function afterturn.project_link_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into agent_memory_link_t as l
        (host_id, bank_id, from_unit_id, to_unit_id, link_type, weight, bytes, aggregate_version, active, update_ts,
         update_user)
    select distinct on (e.bank_id, e.aggregate_key)
           e.host_id, e.bank_id, (d->>'fromUnitId')::uuid, (d->>'toUnitId')::uuid, d->>'linkType',
           coalesce((d->>'weight')::float8, 1.0), coalesce((d->>'bytes')::bigint, 0), e.aggregate_version,
           coalesce((select u.active from agent_memory_unit_t u where u.host_id = e.host_id and u.bank_id = e.bank_id
                        and u.unit_id = (d->>'fromUnitId')::uuid), true)
           and coalesce((select u.active from agent_memory_unit_t u where u.host_id = e.host_id and u.bank_id = e.bank_id
                            and u.unit_id = (d->>'toUnitId')::uuid), true),
           e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.data offset 0) as x(d)
     where e.event_type = 'AgentMemoryLinkCreatedEvent'
     order by e.bank_id, e.aggregate_key, e.aggregate_version
    on conflict (host_id, bank_id, from_unit_id, to_unit_id, link_type) do update
       set (weight, bytes, aggregate_version, active, update_ts, update_user)
         = row (excluded.weight, excluded.bytes, excluded.aggregate_version, excluded.active, excluded.update_ts, excluded.update_user)
     where l.aggregate_version < excluded.aggregate_version and not l.active;
end $$;

create or replace function afterturn.project_link_updated(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryLinkUpdatedEvent' and (
           select true from agent_memory_link_t l where l.host_id = e.host_id and l.bank_id = e.bank_id
              and l.from_unit_id = (e.data->>'fromUnitId')::uuid
              and l.to_unit_id = (e.data->>'toUnitId')::uuid
              and l.link_type = e.data->>'linkType') is null;
    update agent_memory_link_t l
       set (weight, bytes, aggregate_version, update_ts, update_user)
         = row (coalesce((d->>'weight')::float8, 1.0), coalesce((d->>'bytes')::bigint, 0), e.aggregate_version, e.event_ts, e.user_id::text)
      from (select distinct on (e.bank_id, e.aggregate_key) e.*
              from afterturn.events_about(p_events, 'AgentMemoryLinkUpdatedEvent', 'fromUnitId') e
             order by e.bank_id, e.aggregate_key, e.aggregate_version desc) e
     where l.host_id = e.host_id and l.bank_id = e.bank_id and l.from_unit_id = e.thing
       and l.to_unit_id = (d->>'toUnitId')::uuid and l.link_type = d->>'linkType'
       and l.aggregate_version < e.aggregate_version;
end $$;

create or replace function afterturn.project_link_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryLinkDeletedEvent' and (
           select true from agent_memory_link_t l where l.host_id = e.host_id and l.bank_id = e.bank_id
              and l.from_unit_id = (e.data->>'fromUnitId')::uuid
              and l.to_unit_id = (e.data->>'toUnitId')::uuid
              and l.link_type = e.data->>'linkType') is null;
    update agent_memory_link_t l
       set active = false, aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
      from afterturn.events_about(p_events, 'AgentMemoryLinkDeletedEvent', 'fromUnitId') e
     where l.host_id = e.host_id and l.bank_id = e.bank_id and l.from_unit_id = e.thing
       and l.to_unit_id = (d->>'toUnitId')::uuid and l.link_type = d->>'linkType'
       and l.aggregate_version < e.aggregate_version;
end $$;
