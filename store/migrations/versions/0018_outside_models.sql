-- Models behind somebody else's door, and at which door each was asked: what an erasure cannot reach. Written when a
-- process starts that may ask; holds no host and nothing of what was said.
create table public.afterturn_outside_model (
    purpose text not null,              -- embedding, extraction
    name text not null,                 -- a generation of vectors; a version of an extractor
    endpoint text not null,             -- the machine's name
    first_used timestamptz not null default now(),
    primary key (purpose, name, endpoint)
);
grant select on public.afterturn_outside_model to afterturn_app;
grant select, insert on public.afterturn_outside_model to afterturn_operator;
