-- Beside the tenants' tables, since it belongs to none: what looks for a tenant's key never meets these.
create table public.afterturn_operator_key (
    key_id uuid primary key,
    key_hash bytea not null unique,
    label text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
alter table public.afterturn_operator_key enable row level security;
create policy service on public.afterturn_operator_key to afterturn_operator using (true) with check (true);
-- Hashes are compared by afterturn.find_operator_key alone; the operator writes them and reads none.
grant select (key_id, label, created_at, expires_at, revoked_at), insert (key_id, key_hash, label, expires_at),
      update (revoked_at) on public.afterturn_operator_key to afterturn_operator;
