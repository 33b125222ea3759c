-- What an erasure changes beside the log. Rows become what the projectors make of their markers (projections*.sql);
-- derived state and work in progress follow.

-- Units to erase: the requested ones and those derived from them, directly or not, of which the log still has content.
create or replace function afterturn.units_to_erase(p_host uuid, p_bank uuid, p_seeds uuid[])
returns table (unit_id uuid, session_id uuid, turn_id uuid, origin text, doc_id uuid, version bigint)
language plpgsql as $$
#variable_conflict use_column
declare
    v_all uuid[] := p_seeds;
    v_new uuid[] := p_seeds;
begin
    while cardinality(v_new) > 0 loop
        select coalesce(array_agg(u.unit_id), '{}') into v_new
          from afterturn.agent_memory_unit_t u
         where u.host_id = p_host and u.bank_id = p_bank and u.source_memory_ids <> '{}'
           and u.source_memory_ids && v_new and u.unit_id <> all (v_all);
        v_all := v_all || v_new;
    end loop;
    return query
    select u.unit_id, u.session_id, u.turn_id, u.origin, u.doc_id,
           afterturn.logged_version(p_host, p_host || '|' || p_bank || '|' || u.unit_id)
      from unnest(v_all) g(unit_id),
           lateral (select u.* from afterturn.agent_memory_unit_t u
                     where u.host_id = p_host and u.bank_id = p_bank and u.unit_id = g.unit_id offset 0) u
     where exists (select from afterturn.event_store_t e
                    where e.host_id = p_host and e.bank_id = p_bank and e.aggregate_key = u.unit_id::text
                      and not e.data ? 'erased')
     order by u.unit_id;
end $$;

-- What joins erased units to the rest of their bank, by aggregate id: their mentions and links.
create or replace function afterturn.ties_of(p_host uuid, p_bank uuid, p_units uuid[])
returns table (kind text, subject text)
language plpgsql as $$
declare
    v_place text := p_host || '|' || p_bank || '|';
begin
    return query
    select 'mentions', v_place || l.unit_id || '|' || l.entity_id
      from unnest(p_units) g(unit_id),
           lateral (select l.unit_id, l.entity_id from afterturn.agent_memory_unit_entity_t l
                     where l.host_id = p_host and l.bank_id = p_bank and l.unit_id = g.unit_id offset 0) l
    union
    select 'links', v_place || k.from_unit_id || '|' || k.to_unit_id || '|' || k.link_type
      from unnest(p_units) g(unit_id),
           lateral (select k.* from afterturn.agent_memory_link_t k
                     where k.host_id = p_host and k.bank_id = p_bank and k.from_unit_id = g.unit_id
                    union all
                    select k.* from afterturn.agent_memory_link_t k
                     where k.host_id = p_host and k.bank_id = p_bank and k.to_unit_id = g.unit_id offset 0) k;
end $$;

-- Entities that these units named and no living unit names any more, with their version in the log.
create or replace function afterturn.orphans_of(p_host uuid, p_bank uuid, p_units uuid[])
returns table (entity_id uuid, version bigint)
language plpgsql as $$
#variable_conflict use_column
begin
    return query
    select n.entity_id, afterturn.logged_version(p_host, p_host || '|' || p_bank || '|' || n.entity_id)
      from (select distinct l.entity_id from afterturn.agent_memory_unit_entity_t l
             where l.host_id = p_host and l.bank_id = p_bank and l.unit_id = any (p_units)) n
     where (select true from afterturn.agent_memory_unit_entity_t l
             where l.host_id = p_host and l.bank_id = p_bank and l.entity_id = n.entity_id and l.removed_at is null
             limit 1) is null
       and exists (select from afterturn.event_store_t e
                    where e.host_id = p_host and e.bank_id = p_bank and e.aggregate_key = n.entity_id::text
                      and not e.data ? 'erased')
     order by n.entity_id;
end $$;

-- The events of an aggregate that changed its row, in order; a beginning of a living row changed nothing
-- (projections.sql). For children of a bank alone: they live from a beginning in a living bank to their own end or the
-- bank's.
create or replace function afterturn.effective_events(p_host uuid, p_bank uuid, p_id uuid)
returns table ("position" bigint, version bigint, kind text, d jsonb)
language plpgsql stable as $$
declare
    v_key text := p_id;
begin
    return query
    with known as (
        select e.position as at, e.aggregate_version, e.event_type, e.data as data, e.aggregate_key = v_key as own,
               afterturn.begins(e.event_type) and e.aggregate_key = v_key as begins,
               e.event_type like '%DeletedEvent' as ends,
               coalesce(max(e.position) filter (where e.event_type = 'AgentMemoryBankCreatedEvent') over w
                        > max(e.position) filter (where e.event_type = 'AgentMemoryBankDeletedEvent') over w,
                        bool_and(e.event_type <> 'AgentMemoryBankDeletedEvent') over w) as bank_lives
          from afterturn.event_store_t e
         where e.host_id = p_host and e.bank_id = p_bank and e.aggregate_key in ('', v_key)
        window w as (order by e.position)
    ), lived as (
        select k.*, max(k.at) filter (where k.begins and k.bank_lives) over w as begun,
               max(k.at) filter (where k.ends) over w as ended
          from known k
        window w as (order by k.at rows between unbounded preceding and 1 preceding)
    )
    select l.at, l.aggregate_version, l.event_type::text, l.data from lived l
     where l.own and (not l.begins or l.begun is null or l.ended > l.begun)
     order by l.at;
end $$;

-- Events of reflections derived from these units; `last`: it is the reflection's present text.
create or replace function afterturn.reflections_of(p_host uuid, p_bank uuid, p_units uuid[])
returns table (reflection_id uuid, "position" bigint, version bigint, last boolean, active boolean)
language plpgsql as $$
#variable_conflict use_column
begin
    return query
    select r.reflection_id, e.position, afterturn.logged_version(p_host, p_host || '|' || p_bank || '|' || r.reflection_id),
           e.position = (select max(s.position) from afterturn.effective_events(p_host, p_bank, r.reflection_id) s
                          where not s.kind like '%DeletedEvent'), r.active
      from afterturn.agent_memory_reflection_t r
      join afterturn.event_store_t e
        on e.host_id = p_host and e.bank_id = p_bank and e.aggregate_key = r.reflection_id::text
     where r.host_id = p_host and r.bank_id = p_bank
       and not e.event_type like '%DeletedEvent' and not e.data ? 'erased'
       and exists (select from jsonb_array_elements_text(e.data->'sourceMemoryIds') s where s::uuid = any (p_units))
     order by r.reflection_id, e.position;
end $$;

-- The event whose state an aggregate's row shows: the last that changed it. Where all events of an aggregate are erased
-- together, so that no event's data is left, the last one in the log serves.
create or replace function afterturn.state_shown(p_host uuid, p_subject text) returns afterturn.event_store_t
language sql stable as $$
    select e from afterturn.event_store_t e
     where e.host_id = p_host and e.bank_id = afterturn.bank_of(p_subject) and e.aggregate_key = afterturn.key_of(p_subject)
       and (e.event_type like '%UpdatedEvent'
            or case
               when e.event_type = 'AgentMemoryUnitRetainedEvent' then exists (
                   select from afterturn.agent_memory_unit_t u
                    where u.host_id = p_host and u.bank_id = e.bank_id and u.position = e.position
                      and u.unit_id = (e.data->>'unitId')::uuid)
               when e.event_type in ('AgentMemoryReflectionCreatedEvent', 'AgentMemoryDirectiveCreatedEvent',
                                     'AgentMemoryDocCreatedEvent') then exists (
                   select from afterturn.effective_events(
                       p_host, e.bank_id, e.aggregate_key::uuid) s where s.position = e.position)
               else afterturn.begins(e.event_type) end)
     order by e.aggregate_version desc limit 1
$$;

-- Sets rows of these aggregates to the state of their event, where that is a marker.
create or replace function afterturn.scrub(p_host uuid, p_subjects text[]) returns void
language plpgsql as $$
declare
    v_states afterturn.event_store_t[];
begin
    select array_agg(s) into v_states
      from unnest(p_subjects) k(subject), lateral afterturn.state_shown(p_host, k.subject) s
     where s.data ? 'erased';
    update afterturn.agent_memory_unit_t u
       set content = '', context = null, event_date = e.event_ts, occurred_start = null, occurred_end = null,
           mentioned_at = null, metadata = '{}', proof_count = 1, session_name = null, turn_name = null, role = null,
           name = null, bytes = 0, expires_at = null
      from afterturn.events_about(v_states, 'AgentMemoryUnit', 'unitId') e
     where u.host_id = p_host and u.bank_id = e.bank_id and u.unit_id = e.thing;
    update afterturn.agent_memory_unit_entity_t l set mentions = 1, name = null, kind = null
      from afterturn.events_about(v_states, 'AgentMemoryUnitEntity', 'unitId') e
     where l.host_id = p_host and l.bank_id = e.bank_id and l.unit_id = e.thing and l.entity_id = (e.d->>'entityId')::uuid;
    update afterturn.agent_memory_link_t l set weight = 1.0, bytes = 0
      from afterturn.events_about(v_states, 'AgentMemoryLink', 'fromUnitId') e
     where l.host_id = p_host and l.bank_id = e.bank_id and l.from_unit_id = e.thing
       and l.to_unit_id = (e.d->>'toUnitId')::uuid and l.link_type = e.d->>'linkType';
    update afterturn.agent_memory_entity_t n set canonical_name = '', metadata = '{}'
      from afterturn.events_about(v_states, 'AgentMemoryEntity', 'entityId') e
     where n.host_id = p_host and n.bank_id = e.bank_id and n.entity_id = e.thing;
    update afterturn.agent_memory_doc_t o
       set original_text = null, content_hash = null, title = null, metadata = '{}', occurred_at = null, bytes = 0
      from afterturn.events_about(v_states, 'AgentMemoryDoc', 'docId') e
     where o.host_id = p_host and o.bank_id = e.bank_id and o.doc_id = e.thing;
    update afterturn.agent_memory_directive_t v set name = '', content = '', priority = 0, laid_down_by = null, bytes = 0
      from afterturn.events_about(v_states, 'AgentMemoryDirective', 'directiveId') e
     where v.host_id = p_host and v.bank_id = e.bank_id and v.directive_id = e.thing;
    update afterturn.agent_memory_reflection_t r set content = ''
      from afterturn.events_about(v_states, 'AgentMemoryReflection', 'reflectionId') e
     where r.host_id = p_host and r.bank_id = e.bank_id and r.reflection_id = e.thing;
    update afterturn.agent_memory_bank_t b
       set bank_name = '', background = null, expires_at = null, disposition = '{"skepticism": 3, "literalism": 3, "empathy": 3}'
      from unnest(v_states) e
     where e.aggregate_type = 'AgentMemoryBank' and b.host_id = p_host and b.bank_id = e.bank_id;
end $$;

-- Sets what a history stores itself (names, metadata, messages with words of their own) to what the log says. Messages
-- are numbered through all events that changed a history, the erased ones included.
create or replace function afterturn.scrub_sessions(p_host uuid, p_bank uuid, p_sessions uuid[]) returns bigint
language plpgsql as $$
declare
    v_session uuid;
    v_messages bigint := 0;
    v_changed bigint;
begin
    foreach v_session in array p_sessions loop
        with states as (
            select s.* from afterturn.effective_events(p_host, p_bank, v_session) s
             where s.kind in ('AgentSessionHistoryCreatedEvent', 'AgentSessionHistoryCompactedEvent')
        ), created as (
            select s.version, s.d from states s
             where s.kind = 'AgentSessionHistoryCreatedEvent' order by s.version desc limit 1
        )
        update afterturn.agent_session_history_t h
           set session_name = c.d->>'sessionName',
               metadata = coalesce((select s.d->'metadata' from states s
                                     where s.kind = 'AgentSessionHistoryCompactedEvent' and s.version > c.version
                                       and s.d->'metadata' is not null
                                     order by s.version desc limit 1), c.d->'metadata', '{}')
          from created c
         where h.host_id = p_host and h.bank_id = p_bank and h.session_id = v_session;
        continue when not exists (select from afterturn.session_message_t m
                                   where m.host_id = p_host and m.bank_id = p_bank and m.session_id = v_session);
        with numbered as (
            select s.kind, s.d->'messages' as messages,
                   coalesce(afterturn.summary_seq((s.d->>'keptFrom')::int), sum(
                       case when s.d ? 'keptFrom' then 0 else jsonb_array_length(coalesce(s.d->'messages', '[]')) end) over (
                       order by s.version rows between unbounded preceding and 1 preceding), 0) as before,
                   s.version
              from afterturn.effective_events(p_host, p_bank, v_session) s
        ), said as (
            select distinct on (seq) n.before + s.nth - 1 as seq, s.message
              from numbered n, jsonb_array_elements(n.messages) with ordinality as s(message, nth)
             where n.kind <> 'AgentSessionHistoryAppendedEvent' or s.message ? 'content'
             order by seq, n.version desc
        ), ended as (
            delete from afterturn.session_message_t m
             where m.host_id = p_host and m.bank_id = p_bank and m.session_id = v_session
               and m.seq not in (select s.seq from said s)
            returning 1
        ), changed as (
            update afterturn.session_message_t m set message = s.message from said s
             where m.host_id = p_host and m.bank_id = p_bank and m.session_id = v_session and m.seq = s.seq
               and m.message <> s.message
            returning 1
        )
        select (select count(*) from ended) + (select count(*) from changed) into v_changed;
        v_messages := v_messages + v_changed;
    end loop;
    return v_messages;
end $$;

-- Takes the work on turns from its workers: a late result finds its claim gone and is rolled back. Undone work on
-- p_ended ends; the rest becomes ready again. A delivery that may have begun is not ended here: it ends by its own
-- rules. Claims are locked before ledger rows, as workers lock them. p_why: erased or deleted. Returns the number of
-- ended rows.
create or replace function afterturn.end_turns(p_host uuid, p_turns uuid[], p_ended uuid[], p_why text default 'erased')
returns bigint
language plpgsql as $$
declare
    v_count bigint;
begin
    with streams as (
        select distinct l.stage, l.stream_id from afterturn.ledger_t l
         where l.host_id = p_host and l.turn_id = any (p_turns) and l.undone
    ), taken as (
        delete from afterturn.claim_t c using streams s
         where c.host_id = p_host and c.stage = s.stage and c.stream_id = s.stream_id
           and (s.stage <> 'gateway' or not exists (
                select from afterturn.ledger_t g
                 where g.host_id = p_host and g.stage = 'gateway' and g.stream_id = s.stream_id
                   and g.status in ('adding', 'added', 'flushing')))
        returning c.stage, c.stream_id
    )
    update afterturn.ledger_t l set status = 'pending', attempts = greatest(l.attempts - 1, 0), updated_at = now()
      from taken t
     where l.host_id = p_host and l.stage = t.stage and l.stream_id = t.stream_id and l.status = 'running'
       and l.turn_id <> all (p_ended);
    update afterturn.ledger_t l
       set status = 'skipped', error_category = p_why, error_reason = p_why, updated_at = now()
     where l.host_id = p_host and l.turn_id = any (p_ended) and l.status in ('pending', 'running');
    get diagnostics v_count = row_count;
    -- Other systems may know by it what the turn was about.
    update afterturn.ledger_t l set traceparent = null
     where l.host_id = p_host and l.turn_id = any (p_ended) and l.traceparent is not null;
    return v_count;
end $$;
