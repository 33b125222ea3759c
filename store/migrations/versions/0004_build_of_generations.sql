-- How far the pass of a generation is, and which sentence model a worker's settings name.
alter table public.afterturn_generation add column share double precision not null default 0;
update public.afterturn_generation set share = 1 where complete_at is not null;
alter table public.afterturn_worker add column model text, add column generation smallint;
