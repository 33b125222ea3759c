-- The views are made anew after every upgrade. No row is rewritten: the same bytes, of no certain dimension.
drop view if exists hindsight.agent_memory_unit_t, hindsight.agent_memory_reflection_t;
do $$ begin
    for r in 0..15 loop
        execute format('drop index if exists afterturn.unit_vector_%s_near', r);
    end loop;
end $$;
alter table afterturn.unit_vector_t alter column embedding type public.halfvec;

create table public.afterturn_generation (
    generation smallint primary key check (generation > 0),
    model text not null,
    dimension integer not null check (dimension between 1 and 4000),
    state text not null check (state in ('live', 'building', 'retired', 'dropping')),
    since timestamptz not null default now(),
    source text not null default '',
    at_host uuid,
    at_bank uuid,
    at_position bigint not null default 0,
    vectors bigint not null default 0,
    behind boolean not null default false,
    complete_at timestamptz
);
create unique index afterturn_generation_live on public.afterturn_generation (state) where state = 'live';
create unique index afterturn_generation_building on public.afterturn_generation (state) where state = 'building';
alter table public.afterturn_generation enable row level security;
create policy service on public.afterturn_generation to afterturn_app, afterturn_operator using (true) with check (true);
grant select on public.afterturn_generation to afterturn_app;
grant select, insert, update, delete on public.afterturn_generation to afterturn_operator;

insert into public.afterturn_generation (generation, model, dimension, state, since)
select generation, name, 384, 'live', since from public.afterturn_live_model where generation > 0;
drop table public.afterturn_live_model;
drop function if exists afterturn.lists_to_read(uuid, bigint, integer);
