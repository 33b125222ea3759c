-- Row-level security for the owner, too, on every table of a schema, partitions included. A later migration that
-- creates a table grants the service's roles their rows; that policies restrict the owner as well is set here, for all
-- tables. The owner sees every tenant's rows in a session that says so (afterturn.every_host), else those of the
-- transaction's tenant.
create or replace function afterturn.force_row_security(p_schema text, p_names text) returns void
language plpgsql set search_path to '' as $$
declare
    v_table record;
    v_rows text;
begin
    for v_table in
        select c.oid, c.oid::regclass as name, c.relrowsecurity and c.relforcerowsecurity as forced,
               exists (select from pg_catalog.pg_attribute a
                        where a.attrelid = c.oid and a.attname = 'host_id' and not a.attisdropped) as of_tenants,
               exists (select from pg_catalog.pg_policy p
                        where p.polrelid = c.oid and p.polname = 'owner' and p.polroles = array[c.relowner]) as owned
          from pg_catalog.pg_class c
         where c.relnamespace = p_schema::regnamespace and c.relkind in ('r', 'p') and c.relname like p_names
    loop
        -- WHY only where it is missing: it locks the table.
        if not v_table.forced then
            execute format('alter table %s enable row level security, force row level security', v_table.name);
        end if;
        -- WHY every_host() is asked twice: PostgreSQL evaluates both parts where a row was changed while we waited for it.
        if not v_table.owned then
            v_rows := case when v_table.of_tenants
                           then '(select afterturn.every_host()) or host_id = '
                                '(select case when afterturn.every_host() then null else afterturn.current_host() end)'
                           else 'true' end;
            execute format('drop policy if exists owner on %s', v_table.name);
            execute format('create policy owner on %s to current_user using (%s) with check (%s)', v_table.name, v_rows, v_rows);
        end if;
    end loop;
end $$;

select afterturn.force_row_security('afterturn', '%'), afterturn.force_row_security('public', 'afterturn\_%');
