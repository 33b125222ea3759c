-- What each session is about: words of its messages, each with the number of its message.
create table afterturn.session_digest_t (
    host_id    uuid not null,
    bank_id    uuid not null,
    session_id uuid not null,
    next_seq   int not null default 0,
    entries    jsonb not null default '[]',
    primary key (host_id, bank_id, session_id)
);

alter table afterturn.session_digest_t enable row level security;
create policy tenant on afterturn.session_digest_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
grant select, insert, update, delete on afterturn.session_digest_t to afterturn_app;
