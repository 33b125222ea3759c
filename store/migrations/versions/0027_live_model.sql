-- The sentence model the service embeds with now, by its generation of vectors: one row, written by each process that
-- starts. Empty until one did. WHY: direct readers of the schema hindsight must not compare vectors of another model.
create table public.afterturn_live_model (
    one boolean primary key default true check (one),
    generation smallint not null,
    name text not null,
    since timestamptz not null default now()
);
alter table public.afterturn_live_model enable row level security;
create policy service on public.afterturn_live_model to afterturn_app, afterturn_operator using (true) with check (true);
grant select on public.afterturn_live_model to afterturn_app;
grant select, insert, update on public.afterturn_live_model to afterturn_operator;

create or replace view hindsight.agent_memory_unit_t with (security_invoker) as
    select u.host_id, u.unit_id, u.bank_id, u.doc_id, u.content,
           (select v.embedding::public.vector(384) from afterturn.unit_vector_t v
             where v.host_id = u.host_id and v.bank_id = u.bank_id and v.unit_id = u.unit_id and v.chunk = 0
               and v.generation = (select m.generation from public.afterturn_live_model m)) as embedding,
           u.context, u.event_date, u.occurred_start, u.occurred_end, u.mentioned_at, u.fact_type, u.metadata,
           u.proof_count, u.source_memory_ids, u.aggregate_version, u.active, u.update_ts, u.update_user
      from afterturn.agent_memory_unit_t u;

create or replace view hindsight.agent_memory_reflection_t with (security_invoker) as
    select r.host_id, r.reflection_id, r.bank_id, r.content,
           (select v.embedding::public.vector(384) from afterturn.unit_vector_t v
             where v.host_id = r.host_id and v.bank_id = r.bank_id and v.unit_id = r.reflection_id and v.chunk = 0
               and v.generation = (select m.generation from public.afterturn_live_model m)) as embedding,
           r.aggregate_version, r.active, r.update_ts, r.update_user
      from afterturn.agent_memory_reflection_t r;
