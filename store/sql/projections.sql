-- Projectors: one function per event type over an array of events. The same functions serve one live event and
-- thousands in replay. Every value, times included, comes from the event.
--
-- Tables of projections are named without a schema: the caller's search_path says whether the live tables are
-- meant (the log's functions do) or the shadow that a replay builds. One projector, two places.
--
-- Guards. A beginning (Created, Retained, Linked) inserts a row or revives an inactive one of a lower version; any
-- other event applies where the stored version is lower. What is stale changes nothing. That no version is missing
-- in between is the log's own rule (append_events); here an event whose row was never made is an error.
-- A child begins alive only while its parents live, and ends with them; its own version does not move by that.

-- Refuses what was offered, in a form the application knows (store/log/refusals.py). Never content.
create or replace function afterturn.refuse(p_state text, p_aggregate text, p_expected bigint, p_actual bigint) returns void
language plpgsql as $$
begin
    raise exception using errcode = p_state, message = 'the log refused an event',
        detail = jsonb_build_object('aggregate', p_aggregate, 'expected', p_expected, 'actual', p_actual)::text;
end $$;

-- Events of one type, or of one kind of aggregate, each with its data and with the id that the data holds under p_id.
--
-- What is looked up by that id must meet it as a column: under row-level security an index is asked for nothing that is
-- computed from another table's row, and a whole bank would be read for each event. OFFSET 0 keeps it a column.
create or replace function afterturn.events_about(p_events afterturn.event_store_t[], p_type text, p_id text)
returns table (host_id uuid, bank_id uuid, thing uuid, aggregate_key text, aggregate_type text, aggregate_version bigint,
               "position" bigint, event_ts timestamptz, user_id uuid, d jsonb)
language sql stable as $$
    select e.host_id, e.bank_id, (e.data->>p_id)::uuid, e.aggregate_key::text, e.aggregate_type::text,
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
            select e, e.position, e.event_type, e.bank_id, e.aggregate_key, afterturn.event_rank(e.event_type) as rank,
                   afterturn.moves_children(e.event_type) and not afterturn.begins(e.event_type) as ends,
                   e.aggregate_version > 1 and afterturn.moves_children(e.event_type)
                       and afterturn.begins(e.event_type) as revives
              from unnest(p_events) e
        ), beside as (
            select k.*, lag(k.rank) over (partition by k.bank_id, k.aggregate_key order by k.position) as rank_before,
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
