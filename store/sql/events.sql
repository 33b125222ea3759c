-- The registry of aggregates and events (store/log/catalog.py) as SQL reads it. Every upgrade hands it in, right after this
-- script and before all others.

-- Makes of the registry:
--   event_rank(type)      its place in the order in which a run of events is projected
--   begins(type)          whether it begins an aggregate's life, or begins it again
--   moves_children(type)  whether it begins or ends what others hang on
--   event_backed()        the tables that the log alone decides, parents first
--   kept_fields()         the data fields that a marker of an erased event keeps
--   project_run(events, types)  applies one run, each projector only where the run holds its type
--   note_beginnings(events)     notes the versions of beginnings that began nothing
-- p_registry: {events: [{type, table, ids: {field: column}, projector, begins, moves_children}], tables, kept}.
create or replace function afterturn.set_events(p_registry jsonb) returns void
language plpgsql as $body$
declare
    v_types constant text[] := array(select e->>'type' from jsonb_array_elements(p_registry->'events') e);
    v_tables constant text[] := array(select jsonb_array_elements_text(p_registry->'tables'));
    v_projected text;
    v_noted text;
begin
    execute format('create or replace function afterturn.event_rank(p_type text) returns int '
                   'language sql immutable parallel safe return array_position(%L::text[], p_type)', v_types);
    execute format('create or replace function afterturn.begins(p_type text) returns boolean '
                   'language sql immutable parallel safe return p_type = any (%L::text[])',
                   array(select e->>'type' from jsonb_array_elements(p_registry->'events') e where (e->>'begins')::boolean));
    execute format('create or replace function afterturn.moves_children(p_type text) returns boolean '
                   'language sql immutable parallel safe return p_type = any (%L::text[])',
                   array(select e->>'type' from jsonb_array_elements(p_registry->'events') e
                          where (e->>'moves_children')::boolean));
    -- Messages that no unit keeps belong to their history.
    execute format('create or replace function afterturn.event_backed() returns text[] '
                   'language sql immutable parallel safe return %L::text[]', v_tables || array['session_message_t']);
    execute format('create or replace function afterturn.kept_fields() returns text[] '
                   'language sql immutable parallel safe return %L::text[]',
                   array(select jsonb_array_elements_text(p_registry->'kept')));

    select string_agg(format('if %L = any (p_types) then perform afterturn.%I(p_events); end if;',
                             e.value->>'type', e.value->>'projector'), chr(10) order by e.nth)
      into v_projected from jsonb_array_elements(p_registry->'events') with ordinality as e(value, nth);
    execute format($run$
        create or replace function afterturn.project_run(p_events afterturn.event_store_t[], p_types text[]) returns void
        language plpgsql as $$
        begin
            %s
        end $$$run$, v_projected);

    -- A beginning of what lives already changes nothing but the version it was seen with: were it delivered again after an
    -- end that leaves the version as it is (that of a bank, say), it must not begin anything. Tables are named without a
    -- schema: see projections.sql.
    select string_agg(format(
               'when %L then update %I t set aggregate_version = v_seen.version '
               'where t.host_id = v_seen.host and t.bank_id = v_seen.bank and t.aggregate_version < v_seen.version%s;',
               e->>'type', e->>'table',
               (select string_agg(format(' and t.%I = (v_seen.d->>%L)::%s', i.value, i.key, format_type(a.atttypid, null)), '')
                  from jsonb_each_text(e->'ids') i
                  join pg_attribute a on a.attrelid = format('afterturn.%I', e->>'table')::regclass and a.attname = i.value)),
               chr(10))
      into v_noted from jsonb_array_elements(p_registry->'events') e where (e->>'begins')::boolean;
    execute format($note$
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
                %s
                end case;
            end loop;
        end $$$note$, v_noted);
end $body$;
