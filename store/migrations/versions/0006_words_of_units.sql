-- The words of a unit are one row beside it; posting_t, the index from words to units, is filled from these rows by
-- the projection stage. A row for each word of a message, with its index entries, was most of what a turn cost.

create table afterturn.unit_word_t (
    host_id uuid not null,
    bank_id uuid not null,
    unit_id uuid not null,
    session_id uuid,
    seq int,
    length int not null,                           -- its words, stop words left out
    terms jsonb not null,                          -- {term: how often}
    posted boolean not null default false,         -- its postings are written and counted
    primary key (host_id, bank_id, unit_id)
);
-- WHY: a recall reads what is not in posting_t yet here, and the projection stage finds its work.
create index unit_word_waiting on afterturn.unit_word_t (host_id, bank_id) where not posted;

alter table afterturn.unit_word_t enable row level security;
create policy tenant on afterturn.unit_word_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
grant select, insert, update, delete on afterturn.unit_word_t to afterturn_app;

-- What the projection stage has not counted yet waits anew.
insert into afterturn.unit_word_t (host_id, bank_id, unit_id, session_id, seq, length, terms, posted)
select p.host_id, p.bank_id, p.unit_id, u.session_id, u.seq, max(p.length), jsonb_object_agg(p.term, p.tf),
       (select true from afterturn.ledger_t l
         where l.host_id = p.host_id and l.stage = 'projection' and l.item_id = u.turn_id and l.status = 'done') is true
  from afterturn.posting_t p join afterturn.agent_memory_unit_t u using (host_id, bank_id, unit_id)
 group by p.host_id, p.bank_id, p.unit_id, u.session_id, u.seq, u.turn_id;
delete from afterturn.posting_t p using afterturn.unit_word_t w
 where w.host_id = p.host_id and w.bank_id = p.bank_id and w.unit_id = p.unit_id and not w.posted;

drop index afterturn.posting_by_unit;
alter table afterturn.forgotten_unit_t drop column turn_id;
