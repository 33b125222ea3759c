-- The whole log: the seed's remaining tables, what projections need to replay any history, and readers of the log.

-- What is true now: documents, directives, reflections ----------------------------------------------------

create table afterturn.agent_memory_doc_t (
    host_id uuid not null,
    doc_id uuid not null,
    bank_id uuid not null,
    original_text text,
    content_hash text,                             -- sha256 of the text, hexadecimal; not unique, as in the seed
    aggregate_version bigint not null default 1,
    active boolean not null default true,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, doc_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t on delete cascade
);
-- WHY: the same file ingested again is found by its hash.
create index doc_by_hash on afterturn.agent_memory_doc_t (host_id, bank_id, content_hash);

create table afterturn.agent_memory_directive_t (
    host_id uuid not null,
    directive_id uuid not null,
    bank_id uuid not null,
    name varchar(256) not null,
    content text not null,
    priority int not null default 0,
    aggregate_version bigint not null default 1,
    active boolean not null default true,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, directive_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t on delete cascade
);

-- A reflection's vectors stand in unit_vector_t under its own id: one kind of vector, one kind of search.
create table afterturn.agent_memory_reflection_t (
    host_id uuid not null,
    reflection_id uuid not null,
    bank_id uuid not null,
    content text not null,
    aggregate_version bigint not null default 1,
    active boolean not null default true,
    update_ts timestamptz not null,
    update_user varchar(126) not null,
    primary key (host_id, bank_id, reflection_id),
    foreign key (host_id, bank_id) references afterturn.agent_memory_bank_t on delete cascade
);

-- A unit belongs to its document, when it has one.
alter table afterturn.agent_memory_unit_t
    add foreign key (host_id, bank_id, doc_id) references afterturn.agent_memory_doc_t on delete cascade;
-- WHY: forgetting a document forgets its units.
create index unit_by_doc on afterturn.agent_memory_unit_t (host_id, bank_id, doc_id) where doc_id is not null;

-- WHY: links are followed from both ends, and forgetting a unit ends those that point at it.
create index link_by_target on afterturn.agent_memory_link_t (host_id, bank_id, to_unit_id);

-- The version that linked or unlinked: a replayed Linked(1) does not undo Unlinked(2), and Linked(3) does.
alter table afterturn.agent_memory_unit_entity_t add column aggregate_version bigint not null default 1;

-- A compacted or revived history begins here; earlier messages of the session are units still, but not history.
alter table afterturn.agent_session_history_t add column first_seq int not null default 0;
alter table afterturn.agent_session_history_t alter column session_name drop not null;

-- Messages of a history that no unit keeps: a compaction's summary, a restored history.
create table afterturn.session_message_t (
    host_id uuid not null,
    bank_id uuid not null,
    session_id uuid not null,
    seq int not null,                              -- the message's number within its session, as in the unit table
    message jsonb not null,
    primary key (host_id, bank_id, session_id, seq),
    foreign key (host_id, bank_id, session_id) references afterturn.agent_session_history_t on delete cascade
);

-- Reading the log -----------------------------------------------------------------------------------------

-- WHY: readers follow the order of commits, which positions alone do not show.
create index log_by_commit on afterturn.event_store_t (host_id, xid, position);

-- How far a subscription has read; written in the transaction of what it made of it.
create table afterturn.subscription_t (
    host_id uuid not null,
    name text not null,
    xid xid8 not null,
    position bigint not null,
    primary key (host_id, name)
) with (fillfactor = 50);

-- Which cluster gave the log its xids: they mean nothing in another one, where a dump was restored. One row of the
-- whole database, so it stands beside the schema's version and not behind the tenants' wall.
create table public.afterturn_cluster (
    one boolean primary key default true check (one),
    system_identifier bigint not null
);
insert into public.afterturn_cluster (system_identifier) select system_identifier from pg_control_system();
grant select on public.afterturn_cluster to afterturn_app, afterturn_operator;

-- Walls ---------------------------------------------------------------------------------------------------

do $$
declare t text;
begin
    foreach t in array array['agent_memory_doc_t', 'agent_memory_directive_t', 'agent_memory_reflection_t',
                             'session_message_t', 'subscription_t'] loop
        execute format('alter table afterturn.%I enable row level security', t);
        execute format('create policy tenant on afterturn.%I to afterturn_app '
                       'using (host_id = afterturn.current_host()) '
                       'with check (host_id = afterturn.current_host())', t);
        execute format('grant select, insert, update, delete on afterturn.%I to afterturn_app', t);
    end loop;
end $$;

-- The seed's exact tables, for direct readers -------------------------------------------------------------

create view hindsight.agent_memory_doc_t with (security_invoker) as
    select host_id, doc_id, bank_id, original_text, content_hash,
           aggregate_version, active, update_ts, update_user from afterturn.agent_memory_doc_t;

create view hindsight.agent_memory_directive_t with (security_invoker) as
    select host_id, directive_id, bank_id, name, content, priority,
           aggregate_version, active, update_ts, update_user from afterturn.agent_memory_directive_t;

create view hindsight.agent_memory_reflection_t with (security_invoker) as
    select r.host_id, r.reflection_id, r.bank_id, r.content,
           (select v.embedding::public.vector(384) from afterturn.unit_vector_t v
             where v.host_id = r.host_id and v.bank_id = r.bank_id and v.unit_id = r.reflection_id and v.chunk = 0
             order by v.generation desc limit 1) as embedding,
           r.aggregate_version, r.active, r.update_ts, r.update_user
      from afterturn.agent_memory_reflection_t r;

create or replace view hindsight.agent_session_history_t with (security_invoker) as
    select h.host_id, h.session_id, h.bank_id,
           coalesce((select jsonb_agg(n.message order by n.seq) from (
               select m.seq, m.message from (
                   (select u.seq, jsonb_build_object('role', u.role, 'name', u.name, 'content', u.content,
                                                     'timestamp', u.event_date) as message
                      from afterturn.agent_memory_unit_t u
                     where u.host_id = h.host_id and u.bank_id = h.bank_id and u.session_id = h.session_id
                       and u.seq is not null and u.seq >= h.first_seq and u.active
                     order by u.seq desc limit 40)
                   union all
                   (select s.seq, jsonb_build_object('role', s.message->'role', 'name', s.message->'name',
                                                     'content', coalesce(s.message->'content', to_jsonb(k.content)),
                                                     'timestamp', s.message->'timestamp')
                      from afterturn.session_message_t s
                      left join afterturn.agent_memory_unit_t k
                        on k.host_id = s.host_id and k.bank_id = s.bank_id
                       and k.unit_id = (s.message->>'unitId')::uuid and k.active
                     where s.host_id = h.host_id and s.bank_id = h.bank_id and s.session_id = h.session_id
                       and s.seq >= h.first_seq and (s.message->'content' is not null or k.content is not null)
                     order by s.seq desc limit 40)) m
                order by m.seq desc limit 40) n), '[]'::jsonb) as messages,
           h.metadata, h.aggregate_version, h.active, h.update_ts, h.update_user
      from afterturn.agent_session_history_t h;

grant select on all tables in schema hindsight to afterturn_app;
