-- Projectors: one function per event type over an array of events. The same functions serve one live event and
-- thousands in replay. Every value, times included, comes from the event.
--
-- Tables of projections are named without a schema: whoever calls says by search_path whether the live tables are
-- meant (the log's functions do) or the shadow that a replay builds. One projector, two places.
--
-- Guards. A beginning (Created, Retained, Linked) inserts a row or revives an inactive one of a lower version; any
-- other event applies where the stored version is lower. What is stale changes nothing. That no version is missing
-- in between is the log's own rule (append_events); here an event whose row was never made is an error.
-- A child begins alive only while its parents live, and ends with them; its own version does not move by that.

-- Types in the order in which a run applies them: parents first, ends last, children's ends before their parents'.
create or replace function afterturn.event_rank(p_type text) returns int
language sql immutable parallel safe
return array_position(array[
    'AgentMemoryBankCreatedEvent', 'AgentMemoryBankUpdatedEvent',
    'AgentMemoryDocCreatedEvent', 'AgentMemoryDocUpdatedEvent',
    'AgentMemoryUnitRetainedEvent', 'AgentMemoryUnitUpdatedEvent',
    'AgentMemoryEntityCreatedEvent', 'AgentMemoryEntityUpdatedEvent',
    'AgentMemoryUnitEntityLinkedEvent', 'AgentMemoryUnitEntityUnlinkedEvent',
    'AgentMemoryLinkCreatedEvent', 'AgentMemoryLinkUpdatedEvent',
    'AgentMemoryDirectiveCreatedEvent', 'AgentMemoryDirectiveUpdatedEvent',
    'AgentMemoryReflectionCreatedEvent', 'AgentMemoryReflectionUpdatedEvent',
    'AgentSessionHistoryCreatedEvent', 'AgentSessionHistoryAppendedEvent', 'AgentSessionHistoryCompactedEvent',
    'AgentSessionHistoryDeletedEvent', 'AgentMemoryReflectionDeletedEvent', 'AgentMemoryDirectiveDeletedEvent',
    'AgentMemoryLinkDeletedEvent', 'AgentMemoryEntityDeletedEvent', 'AgentMemoryUnitDeletedEvent',
    'AgentMemoryDocDeletedEvent', 'AgentMemoryBankDeletedEvent'], p_type);

-- Refuses what was offered, in a form the application knows (store/log/refusals.py). Never content.
create or replace function afterturn.refuse(p_state text, p_aggregate text, p_expected bigint, p_actual bigint) returns void
language plpgsql as $$
begin
    raise exception using errcode = p_state, message = 'the log refused an event',
        detail = jsonb_build_object('aggregate', p_aggregate, 'expected', p_expected, 'actual', p_actual)::text;
end $$;

-- Events of one type, or of one kind of aggregate, each with its data and with the id that the data holds under p_id.
--
-- What is looked up by that id must meet it as a column: behind the tenants' wall an index is asked for nothing that is
-- computed from another table's row, and a whole bank would be read for each event. OFFSET 0 keeps it a column.
create or replace function afterturn.events_about(p_events afterturn.event_store_t[], p_type text, p_id text)
returns table (host_id uuid, bank_id uuid, thing uuid, aggregate_id text, aggregate_type text, aggregate_version bigint,
               "position" bigint, event_ts timestamptz, user_id uuid, d jsonb)
language sql stable as $$
    select e.host_id, e.bank_id, (e.data->>p_id)::uuid, e.aggregate_id::text, e.aggregate_type::text,
           e.aggregate_version, e.position, e.event_ts, e.user_id, e.data
      from unnest(p_events) e where p_type in (e.event_type, e.aggregate_type) offset 0
$$;

-- Applies events of any mixture. The result is that of applying them one by one in order of position.
--
-- Nearly always an array holds nothing but first versions and appended turns; these commute, given parents first.
-- Otherwise it is cut into runs whose events may be applied type by type. A cut stands
--   before an event whose aggregate was last touched by a type of the same or a later rank (full states that follow
--     each other are folded to the last, appended turns are added up);
--   after the end of something others hang on, and before its revival, since both decide how its children begin.
create or replace function afterturn.project(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_run afterturn.event_store_t[];
    v_types text[];
    v_commute boolean;
begin
    select array_agg(distinct e.event_type),
           bool_and(e.aggregate_version = 1 or e.event_type = 'AgentSessionHistoryAppendedEvent')
      into v_types, v_commute from unnest(p_events) e;
    if v_commute is not false then
        perform afterturn.project_run(p_events, v_types);
        return;
    end if;
    for v_run in
        with known as (
            select e, e.position, e.event_type, e.aggregate_id, afterturn.event_rank(e.event_type) as rank,
                   e.event_type in ('AgentMemoryBankDeletedEvent', 'AgentMemoryDocDeletedEvent',
                                    'AgentMemoryUnitDeletedEvent', 'AgentMemoryEntityDeletedEvent') as ends,
                   e.aggregate_version > 1 and e.event_type in (
                       'AgentMemoryBankCreatedEvent', 'AgentMemoryDocCreatedEvent',
                       'AgentMemoryUnitRetainedEvent', 'AgentMemoryEntityCreatedEvent') as revives
              from unnest(p_events) e
        ), beside as (
            select k.*, lag(k.rank) over (partition by k.aggregate_id order by k.position) as rank_before,
                   lag(k.event_type) over w as type_before, lag(k.ends) over w as after_end,
                   lag(k.revives) over w as after_revival
              from known k window w as (order by k.position)
        ), cut as (
            select b.*, sum((
                       coalesce(b.rank <= b.rank_before and not (b.rank = b.rank_before and (
                           b.event_type like '%UpdatedEvent' or b.event_type = 'AgentSessionHistoryAppendedEvent')), false)
                    or coalesce(b.after_end and b.event_type <> b.type_before, false)
                    or (b.revives and not coalesce(b.after_revival and b.event_type = b.type_before, false))
                   )::int) over (order by b.position) as run
              from beside b
        )
        select array_agg(c.e order by c.position) from cut c group by c.run order by c.run
    loop
        perform afterturn.project_run(v_run, (select array_agg(distinct e.event_type) from unnest(v_run) e));
        perform afterturn.note_beginnings(v_run);
    end loop;
end $$;

-- A beginning of what lives already changes nothing but the version it was seen with: were it delivered again after
-- an end that leaves the version as it is (that of a bank, say), it must not begin anything.
create or replace function afterturn.note_beginnings(p_events afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_seen record;
begin
    for v_seen in
        select e.event_type as type, e.host_id as host, e.bank_id as bank, e.data as d, e.aggregate_version as version
          from unnest(p_events) e
         where e.aggregate_version > 1 and afterturn.begins(e.event_type) order by e.position
    loop
        case v_seen.type
        when 'AgentMemoryBankCreatedEvent' then
            update agent_memory_bank_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version;
        when 'AgentMemoryDocCreatedEvent' then
            update agent_memory_doc_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version
               and t.doc_id = (v_seen.d->>'docId')::uuid;
        when 'AgentMemoryUnitRetainedEvent' then
            update agent_memory_unit_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version
               and t.unit_id = (v_seen.d->>'unitId')::uuid;
        when 'AgentMemoryEntityCreatedEvent' then
            update agent_memory_entity_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version
               and t.entity_id = (v_seen.d->>'entityId')::uuid;
        when 'AgentMemoryUnitEntityLinkedEvent' then
            update agent_memory_unit_entity_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version
               and t.unit_id = (v_seen.d->>'unitId')::uuid
               and t.entity_id = (v_seen.d->>'entityId')::uuid;
        when 'AgentMemoryLinkCreatedEvent' then
            update agent_memory_link_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version
               and t.from_unit_id = (v_seen.d->>'fromUnitId')::uuid
               and t.to_unit_id = (v_seen.d->>'toUnitId')::uuid
               and t.link_type = v_seen.d->>'linkType';
        when 'AgentMemoryDirectiveCreatedEvent' then
            update agent_memory_directive_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version
               and t.directive_id = (v_seen.d->>'directiveId')::uuid;
        when 'AgentMemoryReflectionCreatedEvent' then
            update agent_memory_reflection_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version
               and t.reflection_id = (v_seen.d->>'reflectionId')::uuid;
        when 'AgentSessionHistoryCreatedEvent' then
            update agent_session_history_t t set aggregate_version = v_seen.version
             where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version
               and t.session_id = (v_seen.d->>'sessionId')::uuid;
        end case;
    end loop;
end $$;

-- Applies one run, each projector only where the run holds its type.
create or replace function afterturn.project_run(p_events afterturn.event_store_t[], p_types text[]) returns void
language plpgsql as $$
begin
    if 'AgentMemoryBankCreatedEvent' = any (p_types) then perform afterturn.project_bank_created(p_events); end if;
    if 'AgentMemoryBankUpdatedEvent' = any (p_types) then perform afterturn.project_bank_updated(p_events); end if;
    if 'AgentMemoryDocCreatedEvent' = any (p_types) then perform afterturn.project_doc_created(p_events); end if;
    if 'AgentMemoryDocUpdatedEvent' = any (p_types) then perform afterturn.project_doc_updated(p_events); end if;
    if 'AgentMemoryUnitRetainedEvent' = any (p_types) then perform afterturn.project_unit_retained(p_events); end if;
    if 'AgentMemoryUnitUpdatedEvent' = any (p_types) then perform afterturn.project_unit_updated(p_events); end if;
    if 'AgentMemoryEntityCreatedEvent' = any (p_types) then perform afterturn.project_entity_created(p_events); end if;
    if 'AgentMemoryEntityUpdatedEvent' = any (p_types) then perform afterturn.project_entity_updated(p_events); end if;
    if 'AgentMemoryUnitEntityLinkedEvent' = any (p_types) then perform afterturn.project_unit_entity_linked(p_events); end if;
    if 'AgentMemoryUnitEntityUnlinkedEvent' = any (p_types) then perform afterturn.project_unit_entity_unlinked(p_events); end if;
    if 'AgentMemoryLinkCreatedEvent' = any (p_types) then perform afterturn.project_link_created(p_events); end if;
    if 'AgentMemoryLinkUpdatedEvent' = any (p_types) then perform afterturn.project_link_updated(p_events); end if;
    if 'AgentMemoryDirectiveCreatedEvent' = any (p_types) then perform afterturn.project_directive_created(p_events); end if;
    if 'AgentMemoryDirectiveUpdatedEvent' = any (p_types) then perform afterturn.project_directive_updated(p_events); end if;
    if 'AgentMemoryReflectionCreatedEvent' = any (p_types) then perform afterturn.project_reflection_created(p_events); end if;
    if 'AgentMemoryReflectionUpdatedEvent' = any (p_types) then perform afterturn.project_reflection_updated(p_events); end if;
    if 'AgentSessionHistoryCreatedEvent' = any (p_types) then perform afterturn.project_session_created(p_events); end if;
    if 'AgentSessionHistoryAppendedEvent' = any (p_types) then perform afterturn.project_session_appended(p_events); end if;
    if 'AgentSessionHistoryCompactedEvent' = any (p_types) then perform afterturn.project_session_compacted(p_events); end if;
    if 'AgentSessionHistoryDeletedEvent' = any (p_types) then perform afterturn.project_session_deleted(p_events); end if;
    if 'AgentMemoryReflectionDeletedEvent' = any (p_types) then perform afterturn.project_reflection_deleted(p_events); end if;
    if 'AgentMemoryDirectiveDeletedEvent' = any (p_types) then perform afterturn.project_directive_deleted(p_events); end if;
    if 'AgentMemoryLinkDeletedEvent' = any (p_types) then perform afterturn.project_link_deleted(p_events); end if;
    if 'AgentMemoryEntityDeletedEvent' = any (p_types) then perform afterturn.project_entity_deleted(p_events); end if;
    if 'AgentMemoryUnitDeletedEvent' = any (p_types) then perform afterturn.project_unit_deleted(p_events); end if;
    if 'AgentMemoryDocDeletedEvent' = any (p_types) then perform afterturn.project_doc_deleted(p_events); end if;
    if 'AgentMemoryBankDeletedEvent' = any (p_types) then perform afterturn.project_bank_deleted(p_events); end if;
end $$;
