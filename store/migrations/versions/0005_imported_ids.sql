-- The ids that an import gave to what another tenant, or another name, had: later imports of it go on with them.
create table afterturn.imported_id_t (
    host_id    uuid not null references afterturn.host_t on delete cascade,
    mapping_id uuid not null,
    old_id     uuid not null,
    new_id     uuid not null,
    primary key (host_id, mapping_id, old_id)
);
create index imported_id_new on afterturn.imported_id_t (host_id, mapping_id, new_id);

alter table afterturn.imported_id_t enable row level security;
create policy tenant on afterturn.imported_id_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
grant select, insert on afterturn.imported_id_t to afterturn_app;

alter table afterturn.snapshot_t add column mapping_id uuid;
