-- Replay: a shadow of the event-backed tables, filled from the log by the live projectors, and its way into place.
-- Run by the owner. The application never needs any of it.

-- Whether a row is of the host and bank that are replayed; null: of any.
create or replace function afterturn.in_scope(p_host uuid, p_bank uuid, p_of_host uuid, p_of_bank uuid) returns boolean
language sql immutable parallel safe
    return (p_of_host is null or p_host = p_of_host) and (p_of_bank is null or p_bank = p_of_bank);

-- Makes the shadow: tables, checks, keys and indexes under their own names in another schema. Tables that projectors
-- only clear (words, vectors, counts) stand in it empty, so that nothing of theirs is touched.
create or replace function afterturn.make_shadow(p_schema text) returns void
language plpgsql set search_path to '' as $$
declare
    v_table text;
    v_found record;
begin
    execute format('create schema %I', p_schema);
    execute format('create table %I.replay_progress (host_id uuid primary key, position bigint not null, events bigint not null)',
                   p_schema);
    execute format('create table %I.replay_erasures as select e.erasure_id, to_jsonb(e) as told from afterturn.erasure_t e',
                   p_schema);
    foreach v_table in array afterturn.event_backed() loop
        execute format('create table %I.%I (like afterturn.%I including defaults including constraints '
                       'including generated including storage)', p_schema, v_table, v_table);
        for v_found in
            select format('alter table %I.%I add constraint %I %s', p_schema, v_table, c.conname,
                          pg_get_constraintdef(c.oid)) as command
              from pg_constraint c where c.conrelid = format('afterturn.%I', v_table)::regclass and c.contype in ('p', 'u')
             union all
            select replace(pg_get_indexdef(i.indexrelid), ' ON afterturn.', format(' ON %I.', p_schema))
              from pg_index i
             where i.indrelid = format('afterturn.%I', v_table)::regclass
               and not exists (select from pg_constraint c where c.conindid = i.indexrelid and c.contype in ('p', 'u'))
             union all
            select replace(pg_get_statisticsobjdef(x.oid), ' afterturn.', format(' %I.', p_schema))
              from pg_statistic_ext x where x.stxrelid = format('afterturn.%I', v_table)::regclass
             union all
            select format('alter table %I.%I set (%s)', p_schema, v_table, array_to_string(r.reloptions, ', '))
              from pg_class r
             where r.oid = format('afterturn.%I', v_table)::regclass and r.reloptions is not null
        loop
            execute v_found.command;
        end loop;
    end loop;
    foreach v_table in array array['unit_vector_t', 'agent_memory_entity_cooccur_t'] loop
        execute format('create table %I.%I (like afterturn.%I)', p_schema, v_table, v_table);
    end loop;
    perform afterturn.first_statistics(p_schema);
end $$;

-- Whether something of a host (null: of any) was erased since the shadow was made: it may hold what the log does not any
-- more. The caller holds the log's lock alone.
create or replace function afterturn.erased_since(p_schema text, p_host uuid) returns boolean
language plpgsql set search_path to '' as $$
declare
    v_erased boolean;
begin
    if to_regclass(format('%I.replay_erasures', p_schema)) is null then
        return true;
    end if;
    execute format('select exists (select e.erasure_id, to_jsonb(e) from afterturn.erasure_t e '
                   'where $1 is null or e.host_id = $1 except select * from %I.replay_erasures)', p_schema)
       into v_erased using p_host;
    return v_erased;
end $$;

-- Projects the next events of a host (or of one bank of it) into the shadow and moves the checkpoint, in one
-- transaction: a replay that was cut off goes on where it was. Returns how many events that were.
create or replace function afterturn.replay_step(p_schema text, p_host uuid, p_bank uuid, p_upto bigint, p_limit int) returns bigint
language plpgsql as $$
declare
    v_after bigint;
    v_events afterturn.event_store_t[];
begin
    perform set_config('search_path', quote_ident(p_schema), true), set_config('enable_seqscan', 'off', true),
            set_config('plan_cache_mode', 'force_generic_plan', true);
    execute format('insert into %I.replay_progress values ($1, 0, 0) on conflict (host_id) do update '
                   'set position = replay_progress.position returning position', p_schema)
       into v_after using p_host;
    select array_agg(e order by e.position) into v_events
      from (select s.* from afterturn.event_store_t s
             where s.host_id = p_host and s.position > v_after and s.position <= p_upto
               and (p_bank is null or s.bank_id = p_bank)
             order by s.position limit p_limit) e;
    if v_events is null then
        return 0;
    end if;
    perform afterturn.project(v_events);
    execute format('update %I.replay_progress set position = $1, events = events + $2 where host_id = $3', p_schema)
      using v_events[cardinality(v_events)].position, cardinality(v_events), p_host;
    return cardinality(v_events);
end $$;

-- Gives the shadow all that live tables have beside rows: foreign keys, row-level security and grants.
create or replace function afterturn.finish_shadow(p_schema text) returns void
language plpgsql set search_path to '' as $$
declare
    v_table text;
    v_command text;
begin
    foreach v_table in array afterturn.event_backed() loop
        for v_command in
            select format('alter table %I.%I add constraint %I %s', p_schema, v_table, c.conname,
                          case when f.relname = any (afterturn.event_backed())
                               then replace(pg_get_constraintdef(c.oid), 'REFERENCES afterturn.', format('REFERENCES %I.', p_schema))
                               else pg_get_constraintdef(c.oid) end)
              from pg_constraint c join pg_class f on f.oid = c.confrelid
             where c.conrelid = format('afterturn.%I', v_table)::regclass and c.contype = 'f'
             union all
            select format('alter table %I.%I enable row level security, force row level security', p_schema, v_table)
             union all
            select format('create policy %I on %I.%I as %s for %s to %s%s%s', p.policyname, p_schema, v_table, p.permissive,
                          p.cmd, (select string_agg(format('%I', r), ', ') from unnest(p.roles) r), ' using (' || p.qual || ')',
                          ' with check (' || p.with_check || ')')
              from pg_policies p where p.schemaname = 'afterturn' and p.tablename = v_table
             union all
            select format('grant %s on %I.%I to %s', a.privilege_type, p_schema, v_table, a.grantee::regrole)
              from pg_class r, aclexplode(r.relacl) a
             where r.oid = format('afterturn.%I', v_table)::regclass and a.grantee <> r.relowner and a.grantee <> 0
             union all
            select format('grant %s (%I) on %I.%I to %s', a.privilege_type, k.attname, p_schema, v_table, a.grantee::regrole)
              from pg_attribute k, aclexplode(k.attacl) a
             where k.attrelid = format('afterturn.%I', v_table)::regclass and a.grantee <> 0
        loop
            execute v_command;
        end loop;
        execute format('analyze %I.%I', p_schema, v_table);
    end loop;
end $$;

-- What has been counted is carried over: it is not the log's, and what it counts is the same.
create or replace function afterturn.carry_counts(p_schema text) returns void
language plpgsql as $$
begin
    execute format('update %I.agent_memory_unit_entity_t s set counted = l.counted from afterturn.agent_memory_unit_entity_t l '
                   'where (l.host_id, l.bank_id, l.unit_id, l.entity_id) = (s.host_id, s.bank_id, s.unit_id, s.entity_id) '
                   'and s.counted <> l.counted', p_schema);
    execute format('update %I.agent_memory_entity_t s set mention_count = l.mention_count from afterturn.agent_memory_entity_t l '
                   'where (l.host_id, l.bank_id, l.entity_id) = (s.host_id, s.bank_id, s.entity_id) '
                   'and s.mention_count <> l.mention_count', p_schema);
end $$;

-- Puts the shadow in the place of the live tables, which are then in the schema afterturn_before. The caller holds
-- the log's lock alone and has replayed to its end. Views and foreign keys that looked at the old tables are made
-- anew; functions find the new ones by name.
create or replace function afterturn.swap_shadow(p_schema text) returns void
language plpgsql set search_path to '' as $$
declare
    v_old oid[] := (select array_agg(format('afterturn.%I', t)::regclass::oid) from unnest(afterturn.event_backed()) t);
    v_again text[];
    v_command text;
    v_table text;
begin
    execute 'lock table ' || (select string_agg(format('afterturn.%I', t), ', ') from unnest(afterturn.event_backed()) t)
        || ' in access exclusive mode';
    v_again := array(
        select format('create view %s with (%s) as %s', v.oid::regclass,
                      array_to_string(coalesce(v.reloptions, array['security_barrier=false']), ', '), pg_get_viewdef(v.oid))
          from pg_class v
         where v.oid in (select r.ev_class from pg_rewrite r join pg_depend d
                             on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
                          where d.refclassid = 'pg_class'::regclass and d.refobjid = any (v_old))
         order by v.oid)
     || array(
        select format('grant %s on %s to %s', a.privilege_type, v.oid::regclass, a.grantee::regrole)
          from pg_class v, aclexplode(v.relacl) a
         where a.grantee <> v.relowner and v.oid in (
               select r.ev_class from pg_rewrite r join pg_depend d
                   on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
                where d.refclassid = 'pg_class'::regclass and d.refobjid = any (v_old)))
     || array(
        select format('alter table %s add constraint %I %s', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid))
          from pg_constraint c
         where c.contype = 'f' and c.confrelid = any (v_old) and c.conrelid <> all (v_old));
    for v_command in
        select format('drop view %s', v.oid::regclass)
          from pg_class v
         where v.oid in (select r.ev_class from pg_rewrite r join pg_depend d
                             on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
                          where d.refclassid = 'pg_class'::regclass and d.refobjid = any (v_old))
         union all
        select format('alter table %s drop constraint %I', c.conrelid::regclass, c.conname)
          from pg_constraint c
         where c.contype = 'f' and c.confrelid = any (v_old) and c.conrelid <> all (v_old)
    loop
        execute v_command;
    end loop;
    create schema afterturn_before;
    foreach v_table in array afterturn.event_backed() loop
        for v_command in
            select format('drop statistics afterturn.%I', x.stxname)
              from pg_statistic_ext x where x.stxrelid = format('afterturn.%I', v_table)::regclass
             union all
            select format('alter statistics %I.%I set schema afterturn', p_schema, x.stxname)
              from pg_statistic_ext x where x.stxrelid = format('%I.%I', p_schema, v_table)::regclass
        loop
            execute v_command;
        end loop;
        execute format('alter table afterturn.%I set schema afterturn_before', v_table);
        execute format('alter table %I.%I set schema afterturn', p_schema, v_table);
    end loop;
    foreach v_command in array v_again loop
        execute v_command;
    end loop;
end $$;

-- Brings live rows of a host (or of one bank of it) to what the shadow holds, in place, and leaves what is counted or
-- derived alone. Returns how many rows were wrong, by table.
create or replace function afterturn.apply_shadow(p_schema text, p_host uuid, p_bank uuid)
returns table (name text, changed bigint)
language plpgsql set search_path to '' as $$
declare
    v_table text;
    v_key text;
    v_columns text;
    v_told text;
    v_extra bigint;
    v_wrong bigint;
    v_scope text := 'l.host_id = $1 and ($2 is null or l.bank_id = $2)';
begin
    foreach v_table in array (select array_agg(t order by n desc) from unnest(afterturn.event_backed()) with ordinality x(t, n)) loop
        select string_agg(format('s.%1$I = l.%1$I', a.attname), ' and ') into v_key
          from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
         where i.indrelid = format('afterturn.%I', v_table)::regclass and i.indisprimary;
        execute format('delete from afterturn.%I l where %s and not exists (select from %I.%I s where %s)',
                       v_table, v_scope, p_schema, v_table, v_key) using p_host, p_bank;
        get diagnostics v_extra = row_count;
        name := v_table;
        changed := v_extra;
        return next;
    end loop;
    execute format('delete from afterturn.agent_memory_entity_cooccur_t l where %s and not ('
                   'exists (select from afterturn.agent_memory_entity_t n '
                   'where (n.host_id, n.bank_id, n.entity_id) = (l.host_id, l.bank_id, l.entity_id_1)) and '
                   'exists (select from afterturn.agent_memory_entity_t n '
                   'where (n.host_id, n.bank_id, n.entity_id) = (l.host_id, l.bank_id, l.entity_id_2)))', v_scope)
      using p_host, p_bank;
    foreach v_table in array afterturn.event_backed() loop
        select string_agg(format('%I', a.attname), ', ' order by a.attnum) into v_key
          from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
         where i.indrelid = format('afterturn.%I', v_table)::regclass and i.indisprimary;
        select string_agg(format('%I', a.attname), ', ' order by a.attnum),
               string_agg(format('%I', a.attname), ', ' order by a.attnum)
                   filter (where a.attname not in ('counted', 'mention_count'))
          into v_columns, v_told
          from pg_attribute a
         where a.attrelid = format('afterturn.%I', v_table)::regclass and a.attnum > 0 and not a.attisdropped;
        execute format(
            'insert into afterturn.%1$I as l (%2$s) select %2$s from %3$I.%1$I s '
            'on conflict (%4$s) do update set (%5$s) = (select %6$s) where (%7$s) is distinct from (%6$s)',
            v_table, v_columns, p_schema, v_key, v_told,
            regexp_replace(v_told, '(^|, )', '\1excluded.', 'g'), regexp_replace(v_told, '(^|, )', '\1l.', 'g'));
        get diagnostics v_wrong = row_count;
        name := v_table;
        changed := v_wrong;
        return next;
    end loop;
end $$;
