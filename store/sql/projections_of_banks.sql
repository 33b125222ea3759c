-- Projectors of banks, documents, directives and reflections. How projectors work: projections.sql.

create or replace function afterturn.project_bank_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into agent_memory_bank_t as b
        (host_id, bank_id, agent_def_id, user_id, bank_name, disposition, background, expires_at,
         aggregate_version, active, update_ts, update_user)
    select distinct on (e.bank_id, e.aggregate_key)
           e.host_id, e.bank_id, (d->>'agentDefId')::uuid, (d->>'userId')::uuid, coalesce(d->>'bankName', ''),
           coalesce(d->'disposition', '{"skepticism": 3, "literalism": 3, "empathy": 3}'), d->>'background',
           (d->>'expiresAt')::timestamptz, e.aggregate_version, true, e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.data) as x(d)
     where e.event_type = 'AgentMemoryBankCreatedEvent'
     order by e.bank_id, e.aggregate_key, e.aggregate_version
    on conflict (host_id, bank_id) do update
       set (agent_def_id, user_id, bank_name, disposition, background, expires_at, aggregate_version, active, update_ts,
            update_user)
         = row (excluded.agent_def_id, excluded.user_id, excluded.bank_name, excluded.disposition, excluded.background,
                excluded.expires_at, excluded.aggregate_version, true, excluded.update_ts, excluded.update_user)
     where b.aggregate_version < excluded.aggregate_version and not b.active;
end $$;

create or replace function afterturn.project_bank_updated(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryBankUpdatedEvent' and (
           select true from agent_memory_bank_t b where b.host_id = e.host_id and b.bank_id = e.bank_id) is null;
    update agent_memory_bank_t b
       set (agent_def_id, user_id, bank_name, disposition, background, expires_at, aggregate_version, update_ts, update_user)
         = row ((d->>'agentDefId')::uuid, (d->>'userId')::uuid, coalesce(d->>'bankName', ''),
                coalesce(d->'disposition', '{"skepticism": 3, "literalism": 3, "empathy": 3}'), d->>'background',
                (d->>'expiresAt')::timestamptz, e.aggregate_version, e.event_ts, e.user_id::text)
      from (select distinct on (e.bank_id, e.aggregate_key) e.*, e.data as d from unnest(p_events) e
             where e.event_type = 'AgentMemoryBankUpdatedEvent'
             order by e.bank_id, e.aggregate_key, e.aggregate_version desc) e
     where b.host_id = e.host_id and b.bank_id = e.bank_id and b.aggregate_version < e.aggregate_version;
end $$;

-- The end of a bank ends all that is in it, with everything counted or derived from it.
create or replace function afterturn.project_bank_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_bank record;
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryBankDeletedEvent' and (
           select true from agent_memory_bank_t b where b.host_id = e.host_id and b.bank_id = e.bank_id) is null;
    for v_bank in
        update agent_memory_bank_t b
           set active = false, aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
          from unnest(p_events) e
         where e.event_type = 'AgentMemoryBankDeletedEvent' and b.host_id = e.host_id and b.bank_id = e.bank_id
           and b.aggregate_version < e.aggregate_version
        returning b.host_id as host, b.bank_id as bank, b.update_ts as at
    loop
        update agent_memory_doc_t t set active = false where t.host_id = v_bank.host and t.bank_id = v_bank.bank and t.active;
        update agent_memory_unit_t t set active = false where t.host_id = v_bank.host and t.bank_id = v_bank.bank and t.active;
        update agent_memory_link_t t set active = false where t.host_id = v_bank.host and t.bank_id = v_bank.bank and t.active;
        update agent_memory_directive_t t set active = false where t.host_id = v_bank.host and t.bank_id = v_bank.bank and t.active;
        update agent_memory_reflection_t t set active = false where t.host_id = v_bank.host and t.bank_id = v_bank.bank and t.active;
        update agent_session_history_t t set active = false where t.host_id = v_bank.host and t.bank_id = v_bank.bank and t.active;
        update agent_memory_unit_entity_t t set removed_at = coalesce(t.removed_at, v_bank.at), counted = false
         where t.host_id = v_bank.host and t.bank_id = v_bank.bank and (t.removed_at is null or t.counted);
        update agent_memory_entity_t t set active = false, mention_count = 0
         where t.host_id = v_bank.host and t.bank_id = v_bank.bank and (t.active or t.mention_count <> 0);
        delete from unit_vector_t t where t.host_id = v_bank.host and t.bank_id = v_bank.bank;
        delete from agent_memory_entity_cooccur_t t where t.host_id = v_bank.host and t.bank_id = v_bank.bank;
        perform afterturn.end_derived(v_bank.host, v_bank.bank);
    end loop;
end $$;

create or replace function afterturn.project_doc_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into agent_memory_doc_t as o
        (host_id, doc_id, bank_id, original_text, content_hash, title, metadata, occurred_at, bytes, aggregate_version,
         active, update_ts, update_user)
    select distinct on (e.bank_id, e.aggregate_key)
           e.host_id, (d->>'docId')::uuid, e.bank_id, d->>'originalText', d->>'contentHash', d->>'title',
           coalesce(d->'metadata', '{}'), (d->>'occurredAt')::timestamptz,
           coalesce((d->>'bytes')::bigint, 0), e.aggregate_version,
           coalesce((select b.active from agent_memory_bank_t b where b.host_id = e.host_id and b.bank_id = e.bank_id), true),
           e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.data) as x(d)
     where e.event_type = 'AgentMemoryDocCreatedEvent'
     order by e.bank_id, e.aggregate_key, e.aggregate_version
    on conflict (host_id, bank_id, doc_id) do update
       set (original_text, content_hash, title, metadata, occurred_at, bytes, aggregate_version, active, update_ts,
            update_user)
         = row (excluded.original_text, excluded.content_hash, excluded.title, excluded.metadata, excluded.occurred_at,
                excluded.bytes, excluded.aggregate_version, excluded.active, excluded.update_ts, excluded.update_user)
     where o.aggregate_version < excluded.aggregate_version and not o.active;
end $$;

create or replace function afterturn.project_doc_updated(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryDocUpdatedEvent' and (
           select true from agent_memory_doc_t o where o.host_id = e.host_id and o.bank_id = e.bank_id
              and o.doc_id = (e.data->>'docId')::uuid) is null;
    update agent_memory_doc_t o
       set (original_text, content_hash, title, metadata, occurred_at, bytes, aggregate_version, update_ts, update_user)
         = row (d->>'originalText', d->>'contentHash', d->>'title', coalesce(d->'metadata', '{}'),
                (d->>'occurredAt')::timestamptz, coalesce((d->>'bytes')::bigint, 0),
                e.aggregate_version, e.event_ts, e.user_id::text)
      from (select distinct on (e.bank_id, e.aggregate_key) e.* from afterturn.events_about(p_events, 'AgentMemoryDocUpdatedEvent', 'docId') e
             order by e.bank_id, e.aggregate_key, e.aggregate_version desc) e
     where o.host_id = e.host_id and o.bank_id = e.bank_id and o.doc_id = e.thing
       and o.aggregate_version < e.aggregate_version;
end $$;

-- The end of a document ends its units.
create or replace function afterturn.project_doc_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_doc record;
    v_units uuid[];
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryDocDeletedEvent' and (
           select true from agent_memory_doc_t o where o.host_id = e.host_id and o.bank_id = e.bank_id
              and o.doc_id = (e.data->>'docId')::uuid) is null;
    for v_doc in
        update agent_memory_doc_t o
           set active = false, aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
          from afterturn.events_about(p_events, 'AgentMemoryDocDeletedEvent', 'docId') e
         where o.host_id = e.host_id and o.bank_id = e.bank_id and o.doc_id = e.thing
           and o.aggregate_version < e.aggregate_version
        returning o.host_id as host, o.bank_id as bank, o.doc_id as doc, o.update_ts as at
    loop
        with gone as (
            update agent_memory_unit_t u set active = false
             where u.host_id = v_doc.host and u.bank_id = v_doc.bank and u.doc_id = v_doc.doc and u.active
            returning u.unit_id
        )
        select array_agg(g.unit_id) into v_units from gone g;
        perform afterturn.end_units(v_doc.host, v_doc.bank, v_units, v_doc.at);
    end loop;
end $$;

create or replace function afterturn.project_directive_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into agent_memory_directive_t as v
        (host_id, directive_id, bank_id, name, content, priority, laid_down_by, bytes, aggregate_version, active, update_ts,
         update_user)
    select distinct on (e.bank_id, e.aggregate_key)
           e.host_id, (d->>'directiveId')::uuid, e.bank_id, coalesce(d->>'name', ''), coalesce(d->>'content', ''),
           coalesce((d->>'priority')::int, 0), d->>'laidDownBy',
           coalesce((d->>'bytes')::bigint, octet_length(d->>'content'), 0), e.aggregate_version,
           coalesce((select b.active from agent_memory_bank_t b where b.host_id = e.host_id and b.bank_id = e.bank_id), true),
           e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.data) as x(d)
     where e.event_type = 'AgentMemoryDirectiveCreatedEvent'
     order by e.bank_id, e.aggregate_key, e.aggregate_version
    on conflict (host_id, bank_id, directive_id) do update
       set (name, content, priority, laid_down_by, bytes, aggregate_version, active, update_ts, update_user)
         = row (excluded.name, excluded.content, excluded.priority, excluded.laid_down_by, excluded.bytes,
                excluded.aggregate_version, excluded.active, excluded.update_ts, excluded.update_user)
     where v.aggregate_version < excluded.aggregate_version and not v.active;
end $$;

create or replace function afterturn.project_directive_updated(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryDirectiveUpdatedEvent' and (
           select true from agent_memory_directive_t v where v.host_id = e.host_id and v.bank_id = e.bank_id
              and v.directive_id = (e.data->>'directiveId')::uuid) is null;
    update agent_memory_directive_t v
       set (name, content, priority, laid_down_by, bytes, aggregate_version, update_ts, update_user)
         = row (coalesce(d->>'name', ''), coalesce(d->>'content', ''), coalesce((d->>'priority')::int, 0), d->>'laidDownBy',
                coalesce((d->>'bytes')::bigint, octet_length(d->>'content'), 0), e.aggregate_version, e.event_ts,
                e.user_id::text)
      from (select distinct on (e.bank_id, e.aggregate_key) e.* from afterturn.events_about(p_events, 'AgentMemoryDirectiveUpdatedEvent', 'directiveId') e
             order by e.bank_id, e.aggregate_key, e.aggregate_version desc) e
     where v.host_id = e.host_id and v.bank_id = e.bank_id and v.directive_id = e.thing
       and v.aggregate_version < e.aggregate_version;
end $$;

create or replace function afterturn.project_directive_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryDirectiveDeletedEvent' and (
           select true from agent_memory_directive_t v where v.host_id = e.host_id and v.bank_id = e.bank_id
              and v.directive_id = (e.data->>'directiveId')::uuid) is null;
    update agent_memory_directive_t v
       set active = false, aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
      from afterturn.events_about(p_events, 'AgentMemoryDirectiveDeletedEvent', 'directiveId') e
     where v.host_id = e.host_id and v.bank_id = e.bank_id and v.directive_id = e.thing
       and v.aggregate_version < e.aggregate_version;
end $$;

create or replace function afterturn.project_reflection_created(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    insert into agent_memory_reflection_t as r
        (host_id, reflection_id, bank_id, content, aggregate_version, active, update_ts, update_user)
    select distinct on (e.bank_id, e.aggregate_key)
           e.host_id, (d->>'reflectionId')::uuid, e.bank_id, coalesce(d->>'content', ''), e.aggregate_version,
           coalesce((select b.active from agent_memory_bank_t b where b.host_id = e.host_id and b.bank_id = e.bank_id), true),
           e.event_ts, e.user_id::text
      from unnest(p_events) e, lateral (select e.data) as x(d)
     where e.event_type = 'AgentMemoryReflectionCreatedEvent'
     order by e.bank_id, e.aggregate_key, e.aggregate_version
    on conflict (host_id, bank_id, reflection_id) do update
       set (content, aggregate_version, active, update_ts, update_user)
         = row (excluded.content, excluded.aggregate_version, excluded.active, excluded.update_ts, excluded.update_user)
     where r.aggregate_version < excluded.aggregate_version and not r.active;
end $$;

create or replace function afterturn.project_reflection_updated(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryReflectionUpdatedEvent' and (
           select true from agent_memory_reflection_t r where r.host_id = e.host_id and r.bank_id = e.bank_id
              and r.reflection_id = (e.data->>'reflectionId')::uuid) is null;
    with last as (
        select distinct on (e.bank_id, e.aggregate_key) e.*
          from afterturn.events_about(p_events, 'AgentMemoryReflectionUpdatedEvent', 'reflectionId') e
         order by e.bank_id, e.aggregate_key, e.aggregate_version desc
    ), reworded as (
        select r.host_id, r.bank_id, r.reflection_id
          from last e join agent_memory_reflection_t r
            on r.host_id = e.host_id and r.bank_id = e.bank_id and r.reflection_id = e.thing
         where r.aggregate_version < e.aggregate_version and r.content <> e.d->>'content'
    ), vectors as (
        delete from unit_vector_t v using reworded w
         where v.host_id = w.host_id and v.bank_id = w.bank_id and v.unit_id = w.reflection_id
    )
    update agent_memory_reflection_t r
       set (content, aggregate_version, update_ts, update_user)
         = row (coalesce(e.d->>'content', ''), e.aggregate_version, e.event_ts, e.user_id::text)
      from last e
     where r.host_id = e.host_id and r.bank_id = e.bank_id and r.reflection_id = e.thing
       and r.aggregate_version < e.aggregate_version;
end $$;

create or replace function afterturn.project_reflection_deleted(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
begin
    perform afterturn.refuse('ZA001', e.aggregate_type, 1, e.aggregate_version) from unnest(p_events) e
     where e.event_type = 'AgentMemoryReflectionDeletedEvent' and (
           select true from agent_memory_reflection_t r where r.host_id = e.host_id and r.bank_id = e.bank_id
              and r.reflection_id = (e.data->>'reflectionId')::uuid) is null;
    with gone as (
        update agent_memory_reflection_t r
           set active = false, aggregate_version = e.aggregate_version, update_ts = e.event_ts, update_user = e.user_id::text
          from afterturn.events_about(p_events, 'AgentMemoryReflectionDeletedEvent', 'reflectionId') e
         where r.host_id = e.host_id and r.bank_id = e.bank_id and r.reflection_id = e.thing
           and r.aggregate_version < e.aggregate_version
        returning r.host_id, r.bank_id, r.reflection_id
    )
    delete from unit_vector_t v using gone g
     where v.host_id = g.host_id and v.bank_id = g.bank_id and v.unit_id = g.reflection_id;
end $$;
