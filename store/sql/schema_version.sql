-- Which revision the schema is at, and which code works with it: processes of the service ask before they begin.

-- Makes afterturn.schema_version(). p_oldest_code: the newest revision that the oldest code knows that works with this
-- schema; older code misses what a revision has taken away since.
create or replace function afterturn.set_schema_version(p_revision text, p_oldest_code text) returns void
language plpgsql as $body$
begin
    execute format($version$
        create or replace function afterturn.schema_version() returns table (revision text, oldest_code text)
        language sql immutable parallel safe rows 1 as $$ select %L::text, %L::text $$$version$, p_revision, p_oldest_code);
end $body$;
