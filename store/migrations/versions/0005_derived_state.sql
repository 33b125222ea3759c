-- What a bank is more than its turns: facts with the time they hold, names that mean the same, and the to-do lists by
-- which the projection stage keeps its counts true when something is forgotten. None of it is in the log.

-- Chunks of a document are units beside messages and facts.
alter table afterturn.agent_memory_unit_t drop constraint agent_memory_unit_t_origin_check;
alter table afterturn.agent_memory_unit_t
    add constraint agent_memory_unit_t_origin_check check (origin in ('message', 'extraction', 'document'));

-- How this unit names the entity and as what: the majority of mentions is what the entity is called.
alter table afterturn.agent_memory_unit_entity_t add column name text;
alter table afterturn.agent_memory_unit_entity_t add column kind text;

-- Units that ended, or whose words did, since the projection stage last looked: what is to be taken out of its counts.
create table afterturn.forgotten_unit_t (
    host_id uuid not null,
    bank_id uuid not null,
    nth bigint generated always as identity,
    unit_id uuid not null,
    turn_id uuid,
    terms text[] not null,
    units int not null,                            -- 1: the unit ended; 0: its text is another now
    tokens bigint not null,
    primary key (host_id, bank_id, nth)
);

-- Entities whose names changed without a mention coming or going.
create table afterturn.stale_entity_t (
    host_id uuid not null,
    bank_id uuid not null,
    entity_id uuid not null,
    primary key (host_id, bank_id, entity_id)
);

-- How often an entity is called what, and taken for what; '' where the mention does not say.
create table afterturn.entity_name_t (
    host_id uuid not null,
    bank_id uuid not null,
    entity_id uuid not null,
    name text not null,
    kind text not null,
    mentions int not null,
    primary key (host_id, bank_id, entity_id, name, kind)
) with (fillfactor = 80);

-- What each mentioned entity is called, and which entity it is the same as (itself, unless it is an alias).
create table afterturn.entity_profile_t (
    host_id uuid not null,
    bank_id uuid not null,
    entity_id uuid not null,
    canonical_id uuid not null,
    name text not null,
    kind text not null,
    folded text not null,                          -- the name without case and accents
    stem text not null,                            -- its first word: only entities of one stem can be the same
    mentions int not null,
    primary key (host_id, bank_id, entity_id)
) with (fillfactor = 80);
-- WHY: a changed entity is compared with those of its stem, and with no others.
create index profile_by_stem on afterturn.entity_profile_t (host_id, bank_id, stem);
-- WHY: what is said of an entity is said of its aliases.
create index profile_by_canonical on afterturn.entity_profile_t (host_id, bank_id, canonical_id);

-- Facts that were drawn from turns. A fact holds until another value of the same subject and key is stated.
create table afterturn.fact_t (
    host_id uuid not null,
    bank_id uuid not null,
    unit_id uuid not null,
    subject text not null,
    fact_id text not null,
    key text not null,
    value text not null,
    position bigint not null,
    valid_from timestamptz not null,
    valid_to timestamptz,
    superseded_by uuid,
    primary key (host_id, bank_id, unit_id)
);
-- WHY: a new fact is put in line with those of its subject and key.
create index fact_by_identity on afterturn.fact_t (host_id, bank_id, fact_id, subject, key);

do $$
declare t text;
begin
    foreach t in array array['forgotten_unit_t', 'stale_entity_t', 'entity_name_t', 'entity_profile_t', 'fact_t'] loop
        execute format('alter table afterturn.%I enable row level security', t);
        execute format('create policy tenant on afterturn.%I to afterturn_app '
                       'using (host_id = afterturn.current_host()) '
                       'with check (host_id = afterturn.current_host())', t);
        execute format('grant select, insert, update, delete on afterturn.%I to afterturn_app', t);
    end loop;
end $$;
grant usage, select on all sequences in schema afterturn to afterturn_app;

-- Facts with the time they hold, for readers that ask about time; an open end means that it holds still.
create view afterturn.fact_v with (security_invoker) as
    select f.host_id, f.bank_id, f.unit_id, f.subject, f.fact_id, u.metadata->>'key' as key,
           u.metadata->>'value' as value, u.content, f.valid_from, f.valid_to, f.superseded_by
      from afterturn.fact_t f
      join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
     where u.active;
grant select on afterturn.fact_v to afterturn_app;
