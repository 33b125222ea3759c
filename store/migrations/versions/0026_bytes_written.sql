-- The bytes that callers wrote for each thing, over all its versions: quotas are charged these and counted from these.
-- What a stage derived has none.
alter table afterturn.agent_memory_unit_t      add column bytes bigint not null default 0;
alter table afterturn.agent_memory_link_t      add column bytes bigint not null default 0;
alter table afterturn.agent_memory_directive_t add column bytes bigint not null default 0;

-- What is said of a document is kept once, here, and not with each of its units.
alter table afterturn.agent_memory_doc_t
    add column title       text,
    add column metadata    jsonb not null default '{}',
    add column occurred_at timestamptz,
    add column bytes       bigint not null default 0;

-- Question and answer of a recall job; an expired one keeps neither.
alter table afterturn.recall_job_t add column bytes bigint not null generated always as
    (case when error_category is distinct from 'expired'
          then octet_length(request::text) + coalesce(octet_length(result::text), 0) else 0 end) stored;
