-- Rows of the application's calls and of functions that call each other (store/sql).

-- The authority of a call: its key, the user of its token or key, when that was made, and when the call began.
create type afterturn.call_authority as (key_id uuid, user_id uuid, issued_at timestamptz, began_at timestamptz);

-- The application offers these to append_turns: turns, each with its whole events.
create type afterturn.turn_event as (
    id uuid, type text, aggregate text, subject text, data jsonb, terms jsonb, length int);
create type afterturn.offered_turn as (
    turn uuid, bank uuid, session uuid, "user" uuid, digest bytea, gateway boolean, accepted_at timestamptz, bytes bigint,
    begins boolean, follows int, events afterturn.turn_event[]);

-- Functions hand these to each other while turns are appended.
create type afterturn.accepted_turn as (
    turn uuid, bank uuid, session uuid, "user" uuid, digest bytea, target uuid, accepted_at timestamptz, bytes bigint,
    "position" bigint);
create type afterturn.said_unit as (bank uuid, unit uuid, session uuid, seq int, length int, terms jsonb);
