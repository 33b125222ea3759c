-- What of an event's envelope is no column is its source, where that is another than ours; hosts, banks and versions are
-- columns, and are not kept in the data again.
alter table afterturn.event_store_t add column data jsonb;
update afterturn.event_store_t e
   set data = (e.payload->'data') - array['hostId', 'bankId', 'aggregateVersion', 'newAggregateVersion'],
       metadata = case when e.payload->>'source' = '/afterturn' then e.metadata
                       else coalesce(e.metadata, '{}') || jsonb_build_object('source', e.payload->'source') end;
alter table afterturn.event_store_t alter column data set not null;
create index log_by_user on afterturn.event_store_t (host_id, user_id, position);
alter table afterturn.event_store_t drop column payload, drop column nonce;

-- Functions that take or read such events otherwise than before; the upgrade makes their successors.
drop function if exists afterturn.append_turns, afterturn.number_turns, afterturn.lock_turns, afterturn.targets_of, afterturn.priced,
    afterturn.marker, afterturn.without_messages;

-- What the application offers to append_turns: turns, each with its events whole.
create type afterturn.turn_event as (
    id uuid, type text, aggregate text, subject text, data jsonb, terms jsonb, length int);
create type afterturn.offered_turn as (
    turn uuid, bank uuid, session uuid, "user" uuid, digest bytea, gateway boolean, accepted_at timestamptz, bytes bigint,
    begins boolean, follows int, events afterturn.turn_event[]);
