-- Rows that functions hand to each other while turns are appended (store/sql).
create type afterturn.accepted_turn as (
    turn uuid, bank uuid, session uuid, "user" uuid, digest bytea, target uuid, accepted_at timestamptz, bytes bigint,
    "position" bigint);
create type afterturn.said_unit as (bank uuid, unit uuid, session uuid, seq int, length int, terms jsonb);
