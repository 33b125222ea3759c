-- The platform's own memory tables (light-portal, genai): what agents wrote directly, without events.
create extension if not exists vector;
create table agent_memory_bank_t (
    host_id uuid not null, bank_id uuid not null, agent_def_id uuid, user_id uuid, bank_name varchar(126) not null,
    disposition jsonb not null default '{"skepticism": 3, "literalism": 3, "empathy": 3}', background text,
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user, primary key (host_id, bank_id));
create table agent_memory_doc_t (
    host_id uuid not null, doc_id uuid not null, bank_id uuid not null, original_text text, content_hash text,
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user, primary key (host_id, bank_id, doc_id),
    foreign key (host_id, bank_id) references agent_memory_bank_t on delete cascade);
create table agent_memory_unit_t (
    host_id uuid not null, unit_id uuid not null, bank_id uuid not null, doc_id uuid, content text not null,
    embedding vector(384), context text, event_date timestamptz not null default now(), occurred_start timestamptz,
    occurred_end timestamptz, mentioned_at timestamptz,
    fact_type varchar(32) not null default 'world'
        check (fact_type in ('world', 'experience', 'opinion', 'observation', 'mental_model')),
    metadata jsonb default '{}', proof_count int default 1, source_memory_ids uuid[] default '{}',
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user, primary key (host_id, bank_id, unit_id),
    foreign key (host_id, bank_id) references agent_memory_bank_t on delete cascade,
    foreign key (host_id, bank_id, doc_id) references agent_memory_doc_t on delete cascade);
create table agent_memory_entity_t (
    host_id uuid not null, entity_id uuid not null, bank_id uuid not null, user_id uuid, canonical_name text not null,
    mention_count int default 1, metadata jsonb default '{}',
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user, primary key (host_id, bank_id, entity_id),
    foreign key (host_id, bank_id) references agent_memory_bank_t on delete cascade);
create table agent_memory_unit_entity_t (
    host_id uuid not null, bank_id uuid not null, unit_id uuid not null, entity_id uuid not null,
    primary key (host_id, bank_id, unit_id, entity_id),
    foreign key (host_id, bank_id, unit_id) references agent_memory_unit_t on delete cascade,
    foreign key (host_id, bank_id, entity_id) references agent_memory_entity_t on delete cascade);
create table agent_memory_entity_cooccur_t (
    host_id uuid not null, bank_id uuid not null, entity_id_1 uuid not null, entity_id_2 uuid not null,
    cooccur_count int default 1, last_cooccurred timestamptz default now(),
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user, primary key (host_id, bank_id, entity_id_1, entity_id_2),
    check (entity_id_1 < entity_id_2));
create table agent_memory_link_t (
    host_id uuid not null, bank_id uuid not null, from_unit_id uuid not null, to_unit_id uuid not null,
    link_type varchar(32) not null
        check (link_type in ('temporal', 'semantic', 'entity', 'causes', 'caused_by', 'enables', 'prevents')),
    weight float not null default 1.0,
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user,
    primary key (host_id, bank_id, from_unit_id, to_unit_id, link_type),
    foreign key (host_id, bank_id, from_unit_id) references agent_memory_unit_t on delete cascade,
    foreign key (host_id, bank_id, to_unit_id) references agent_memory_unit_t on delete cascade);
create table agent_memory_directive_t (
    host_id uuid not null, directive_id uuid not null, bank_id uuid not null, name varchar(256) not null,
    content text not null, priority int not null default 0,
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user, primary key (host_id, bank_id, directive_id),
    foreign key (host_id, bank_id) references agent_memory_bank_t on delete cascade);
create table agent_memory_reflection_t (
    host_id uuid not null, reflection_id uuid not null, bank_id uuid not null, content text not null,
    embedding vector(384),
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user, primary key (host_id, bank_id, reflection_id),
    foreign key (host_id, bank_id) references agent_memory_bank_t on delete cascade);
create table agent_session_history_t (
    host_id uuid not null, session_id uuid not null, bank_id uuid not null, messages jsonb not null default '[]',
    metadata jsonb default '{}',
    aggregate_version bigint not null default 1, active boolean default true, update_ts timestamptz default now(),
    update_user varchar(126) default session_user, primary key (host_id, bank_id, session_id),
    foreign key (host_id, bank_id) references agent_memory_bank_t on delete cascade);
