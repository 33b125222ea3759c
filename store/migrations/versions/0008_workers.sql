-- Which worker processes there are: each says so itself, again and again. Of no tenant.
create table public.afterturn_worker (
    worker text primary key,
    version text not null,
    stages text[] not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    state text not null default 'working' check (state in ('working', 'draining', 'drained'))
) with (fillfactor = 50);
alter table public.afterturn_worker enable row level security;
create policy service on public.afterturn_worker to afterturn_operator using (true) with check (true);
grant select, insert, update, delete on public.afterturn_worker to afterturn_operator;
