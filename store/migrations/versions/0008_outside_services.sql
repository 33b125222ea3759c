-- Whether somebody else's service may be called now. Beside the tenants' wall: a service is called for all of them.
create table public.afterturn_gate (
    gate text primary key,                         -- the kind of service and a digest of where and as whom
    failures int not null default 0,               -- calls that failed in a row
    shut_until timestamptz not null default '-infinity',
    tokens float8,                                 -- null: nobody has asked yet, the bucket is full
    filled_at timestamptz not null default now()
) with (fillfactor = 50);
grant select, insert, update on public.afterturn_gate to afterturn_app;
grant select on public.afterturn_gate to afterturn_operator;

-- A stage of its own: a model that is slow or away holds up no rule.
alter table afterturn.ledger_t drop constraint ledger_t_stage_check;
alter table afterturn.ledger_t add constraint ledger_t_stage_check
    check (stage in ('gateway', 'extraction', 'enrichment', 'embedding', 'projection'));
