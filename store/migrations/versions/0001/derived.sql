-- Derived state, made anew from the projections: the index of words, vectors, entities and facts.

create table afterturn.unit_word_t (
    host_id uuid not null,
    bank_id uuid not null,
    unit_id uuid not null,
    session_id uuid,
    seq int,
    length int not null,
    terms jsonb not null,
    posted boolean default false not null,
    primary key (host_id, bank_id, unit_id)
);
create index unit_word_waiting on afterturn.unit_word_t (host_id, bank_id) where not posted;

create table afterturn.posting_t (
    host_id uuid not null,
    bank_id uuid not null,
    term text not null,
    unit_id uuid not null,
    session_id uuid,
    seq int,
    tf int not null,
    length int not null,
    primary key (host_id, bank_id, term, unit_id)
);

create table afterturn.term_t (
    host_id uuid not null,
    bank_id uuid not null,
    term text not null,
    df bigint not null,
    primary key (host_id, bank_id, term)
) with (fillfactor = 80);

create table afterturn.bank_statistics_t (
    host_id uuid not null,
    bank_id uuid not null,
    units bigint not null,
    tokens bigint not null,
    primary key (host_id, bank_id)
);

create table afterturn.bank_language_t (
    host_id uuid not null,
    bank_id uuid not null,
    language text not null,
    former text,
    place uuid,
    changed_at timestamptz not null,
    primary key (host_id, bank_id)
);
create index bank_language_undone on afterturn.bank_language_t (changed_at) where former is not null;

create table afterturn.unit_vector_t (
    host_id uuid not null,
    bank_id uuid not null,
    unit_id uuid not null,
    chunk smallint not null,
    generation smallint not null,
    embedding halfvec(384) not null,
    primary key (host_id, bank_id, generation, unit_id, chunk)
) partition by hash (bank_id);

create table afterturn.entity_name_t (
    host_id uuid not null,
    bank_id uuid not null,
    entity_id uuid not null,
    name text not null,
    kind text not null,
    mentions int not null,
    primary key (host_id, bank_id, entity_id, name, kind)
) with (fillfactor = 80);

create table afterturn.entity_profile_t (
    host_id uuid not null,
    bank_id uuid not null,
    entity_id uuid not null,
    canonical_id uuid not null,
    name text not null,
    kind text not null,
    folded text not null,
    stem text not null,
    mentions int not null,
    primary key (host_id, bank_id, entity_id)
) with (fillfactor = 80);
create index profile_by_canonical on afterturn.entity_profile_t (host_id, bank_id, canonical_id);
create index profile_by_stem on afterturn.entity_profile_t (host_id, bank_id, stem);

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
    said bigint default 0 not null,
    denied boolean default false not null,
    weight float8 default 0 not null,
    primary key (host_id, bank_id, unit_id)
);
create index fact_by_identity on afterturn.fact_t (host_id, bank_id, fact_id, subject, key);
create index fact_by_subject on afterturn.fact_t (host_id, bank_id, subject);
create index fact_holding on afterturn.fact_t (host_id, bank_id, valid_from desc, position desc) where valid_to is null;
create index fact_of_kind on afterturn.fact_t
    (host_id, bank_id, fact_id, subject, valid_from desc, said desc, position desc, unit_id desc)
    where valid_to is null;

create table afterturn.forgotten_unit_t (
    host_id uuid not null,
    bank_id uuid not null,
    nth bigint generated always as identity,
    unit_id uuid not null,
    terms text[] not null,
    units int not null,
    tokens bigint not null,
    primary key (host_id, bank_id, nth)
);

create table afterturn.stale_entity_t (
    host_id uuid not null,
    bank_id uuid not null,
    entity_id uuid not null,
    primary key (host_id, bank_id, entity_id)
);
