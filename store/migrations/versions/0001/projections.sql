-- Projections of the log: banks, documents, units, entities, links, directives, reflections and sessions.

create table afterturn.agent_memory_bank_t (
    host_id uuid not null,
    bank_id uuid not null,
    agent_def_id uuid,
    user_id uuid,
    bank_name varchar(256) not null,
    disposition jsonb default '{"empathy": 3, "literalism": 3, "skepticism": 3}' not null,
    background text,
    aggregate_version bigint default 1 not null,
    active boolean default true not null,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    expires_at timestamptz,
    primary key (host_id, bank_id),
    foreign key (host_id) references afterturn.host_t (host_id)
);
create index bank_expiring on afterturn.agent_memory_bank_t (host_id, expires_at) where expires_at is not null and bank_name <> '';

create table afterturn.agent_memory_doc_t (
    host_id uuid not null,
    doc_id uuid not null,
    bank_id uuid not null,
    original_text text,
    content_hash text,
    aggregate_version bigint default 1 not null,
    active boolean default true not null,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    title text,
    metadata jsonb default '{}' not null,
    occurred_at timestamptz,
    bytes bigint default 0 not null,
    primary key (host_id, bank_id, doc_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t (host_id, bank_id) on delete cascade
);
create index doc_by_hash on afterturn.agent_memory_doc_t (host_id, bank_id, content_hash);
create index doc_by_time on afterturn.agent_memory_doc_t (host_id, bank_id, update_ts desc, doc_id desc) where active;

create table afterturn.agent_memory_unit_t (
    host_id uuid not null,
    unit_id uuid not null,
    bank_id uuid not null,
    doc_id uuid,
    content text not null,
    context text,
    event_date timestamptz not null,
    occurred_start timestamptz,
    occurred_end timestamptz,
    mentioned_at timestamptz,
    fact_type varchar(32) default 'world' not null,
    metadata jsonb default '{}' not null,
    proof_count int default 1 not null,
    source_memory_ids uuid[] default '{}' not null,
    user_id uuid not null,
    origin text not null,
    session_id uuid,
    turn_id uuid,
    session_name text,
    turn_name text,
    ordinal int,
    seq int,
    role text,
    name text,
    position bigint not null,
    aggregate_version bigint default 1 not null,
    active boolean default true not null,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    bytes bigint default 0 not null,
    expires_at timestamptz,
    primary key (host_id, bank_id, unit_id),
    check (fact_type in ('world', 'experience', 'opinion', 'observation', 'mental_model')),
    check (origin in ('message', 'extraction', 'document', 'memory')),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t (host_id, bank_id) on delete cascade,
    foreign key (host_id, bank_id, doc_id) references afterturn.agent_memory_doc_t (host_id, bank_id, doc_id) on delete cascade
);
create index unit_by_doc on afterturn.agent_memory_unit_t (host_id, bank_id, doc_id) where doc_id is not null;
create index unit_by_occurrence on afterturn.agent_memory_unit_t (host_id, bank_id, (
case
    when occurred_start is null then event_date
    else occurred_start
end)) where active;
create index unit_by_session on afterturn.agent_memory_unit_t (host_id, bank_id, session_id, seq) where seq is not null;
create index unit_by_turn on afterturn.agent_memory_unit_t (host_id, bank_id, turn_id);
create index unit_by_user on afterturn.agent_memory_unit_t (host_id, user_id, bank_id) where active;
create index unit_changed on afterturn.agent_memory_unit_t (host_id, bank_id, update_ts) where aggregate_version > 1 and active;
create index unit_checkpoint_by_plugin on afterturn.agent_memory_unit_t (host_id, bank_id)
    where origin = 'memory' and active and jsonb_exists(metadata, 'plugin') and metadata->'plugin'->>'kind' = 'checkpoint';
create index unit_expired on afterturn.agent_memory_unit_t (host_id, bank_id, update_ts)
    where expires_at is not null and not active and content <> '';
create index unit_expiring on afterturn.agent_memory_unit_t (host_id, bank_id, expires_at) where expires_at is not null and active;
create index unit_fact_by_plugin on afterturn.agent_memory_unit_t (host_id, bank_id)
    where origin = 'memory' and active and jsonb_exists(metadata, 'plugin') and metadata->'plugin'->>'kind' = 'fact';
create index unit_listed_by_plugin on afterturn.agent_memory_unit_t
    (host_id, bank_id, mentioned_at, ((metadata->'plugin'->>'id')::uuid))
    where origin = 'memory' and active and jsonb_exists(metadata, 'plugin');
create index unit_of_user on afterturn.agent_memory_unit_t (host_id, user_id) where origin = 'extraction' and active;
create index unit_other_by_session on afterturn.agent_memory_unit_t (host_id, bank_id, session_id, position) where seq is null;
create index unit_pinned on afterturn.agent_memory_unit_t (host_id, bank_id, position)
    where metadata->>'pinned' = 'true' and active;
create index unit_pinned_by_plugin on afterturn.agent_memory_unit_t
    (host_id, bank_id, mentioned_at, ((metadata->'plugin'->>'id')::uuid))
    where origin = 'memory' and active and jsonb_exists(metadata, 'plugin') and metadata->'plugin'->>'pin' = 'true';
create index unit_summary_by_plugin on afterturn.agent_memory_unit_t (host_id, bank_id)
    where origin = 'memory' and active and jsonb_exists(metadata, 'plugin') and metadata->'plugin'->>'kind' = 'summary';

create table afterturn.agent_memory_entity_t (
    host_id uuid not null,
    entity_id uuid not null,
    bank_id uuid not null,
    user_id uuid,
    canonical_name text not null,
    mention_count int default 0 not null,
    metadata jsonb default '{}' not null,
    aggregate_version bigint default 1 not null,
    active boolean default true not null,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, entity_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t (host_id, bank_id) on delete cascade
);

create table afterturn.agent_memory_unit_entity_t (
    host_id uuid not null,
    bank_id uuid not null,
    unit_id uuid not null,
    entity_id uuid not null,
    mentions int default 1 not null,
    removed_at timestamptz,
    counted boolean default false not null,
    aggregate_version bigint default 1 not null,
    name text,
    kind text,
    place int default 0 not null,
    primary key (host_id, bank_id, unit_id, entity_id),
    foreign key (host_id, bank_id, unit_id) references afterturn.agent_memory_unit_t (host_id, bank_id, unit_id) on delete cascade,
    foreign key (host_id, bank_id, entity_id) references afterturn.agent_memory_entity_t (host_id, bank_id,
        entity_id) on delete cascade
);
create index unit_entity_by_entity on afterturn.agent_memory_unit_entity_t (host_id, bank_id, entity_id);
create index unit_entity_uncounted on afterturn.agent_memory_unit_entity_t (host_id, bank_id) where counted <> (removed_at is null);

create table afterturn.agent_memory_entity_cooccur_t (
    host_id uuid not null,
    bank_id uuid not null,
    entity_id_1 uuid not null,
    entity_id_2 uuid not null,
    cooccur_count int default 1 not null,
    last_cooccurred timestamptz not null,
    primary key (host_id, bank_id, entity_id_1, entity_id_2),
    check (entity_id_1 < entity_id_2)
);
create index cooccur_by_second on afterturn.agent_memory_entity_cooccur_t (host_id, bank_id, entity_id_2);

create table afterturn.agent_memory_link_t (
    host_id uuid not null,
    bank_id uuid not null,
    from_unit_id uuid not null,
    to_unit_id uuid not null,
    link_type varchar(32) not null,
    weight float8 default 1.0 not null,
    aggregate_version bigint default 1 not null,
    active boolean default true not null,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    bytes bigint default 0 not null,
    primary key (host_id, bank_id, from_unit_id, to_unit_id, link_type),
    check (link_type in ('temporal', 'semantic', 'entity', 'causes', 'caused_by', 'enables', 'prevents')),
    foreign key (host_id, bank_id, from_unit_id) references afterturn.agent_memory_unit_t (host_id, bank_id,
        unit_id) on delete cascade,
    foreign key (host_id, bank_id, to_unit_id) references afterturn.agent_memory_unit_t (host_id, bank_id,
        unit_id) on delete cascade
);
create index link_by_target on afterturn.agent_memory_link_t (host_id, bank_id, to_unit_id);

create table afterturn.agent_memory_directive_t (
    host_id uuid not null,
    directive_id uuid not null,
    bank_id uuid not null,
    name varchar(256) not null,
    content text not null,
    priority int default 0 not null,
    aggregate_version bigint default 1 not null,
    active boolean default true not null,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    bytes bigint default 0 not null,
    laid_down_by text,
    primary key (host_id, bank_id, directive_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t (host_id, bank_id) on delete cascade
);

create table afterturn.agent_memory_reflection_t (
    host_id uuid not null,
    reflection_id uuid not null,
    bank_id uuid not null,
    content text not null,
    aggregate_version bigint default 1 not null,
    active boolean default true not null,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, reflection_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t (host_id, bank_id) on delete cascade
);

create table afterturn.agent_session_history_t (
    host_id uuid not null,
    session_id uuid not null,
    bank_id uuid not null,
    metadata jsonb default '{}' not null,
    session_name text,
    message_count int default 0 not null,
    turn_count int default 0 not null,
    last_position bigint not null,
    aggregate_version bigint default 1 not null,
    active boolean default true not null,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    first_seq int default 0 not null,
    primary key (host_id, bank_id, session_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t (host_id, bank_id) on delete cascade
);

create table afterturn.session_message_t (
    host_id uuid not null,
    bank_id uuid not null,
    session_id uuid not null,
    seq int not null,
    message jsonb not null,
    primary key (host_id, bank_id, session_id, seq),
    foreign key (host_id, bank_id, session_id) references afterturn.agent_session_history_t (host_id, bank_id,
        session_id) on delete cascade
);
