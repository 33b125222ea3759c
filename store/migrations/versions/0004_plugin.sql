-- Banks that were upserted as namespaces through the memory plugin. Outside the log, as keys and quotas are.
create table afterturn.plugin_namespace_t (
    host_id    uuid not null references afterturn.host_t on delete cascade,
    bank_id    uuid not null,
    name       text not null,
    kind       text not null check (kind in ('workspace', 'team', 'org', 'custom')),
    expires_at timestamptz,
    metadata   text,                                -- JSON, digit for digit as it came
    created_at timestamptz not null,
    ending     boolean not null default false,      -- it is being deleted: its memories end, then this row goes
    primary key (host_id, bank_id)
);

-- Vectors that callers of the memory plugin bring, of unit length. Originals outside the log: nothing makes them again.
-- A memory's metadata hold the digest of its vector, so that one written for another version of it is never read.
create table afterturn.plugin_vector_t (
    host_id    uuid not null references afterturn.host_t on delete cascade,
    bank_id    uuid not null,
    session_id uuid not null,                       -- of the memory (store/memory/memories.py)
    digest     text not null,
    dimension  int not null check (dimension between 1 and 4096),
    norm       float8 not null,                     -- what the vector's length was
    embedding  public.vector not null check (public.vector_dims(embedding) = dimension),
    written_at timestamptz not null,
    primary key (host_id, bank_id, session_id, digest)
);
-- WHY: a search reads the vectors of its dimension alone.
create index plugin_vector_of_dimension on afterturn.plugin_vector_t (host_id, bank_id, dimension);

alter table afterturn.plugin_namespace_t enable row level security;
alter table afterturn.plugin_vector_t enable row level security;
create policy tenant on afterturn.plugin_namespace_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
create policy tenant on afterturn.plugin_vector_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
grant select, insert, update, delete on afterturn.plugin_namespace_t, afterturn.plugin_vector_t to afterturn_app;
