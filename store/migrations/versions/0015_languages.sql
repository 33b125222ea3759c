-- How the words of a bank are cut, where that is not the usual way. The language itself is an event of the bank; this
-- row says how far its words have followed. No row: all words are cut the usual way.
create table afterturn.bank_language_t (
    host_id uuid not null,
    bank_id uuid not null,
    language text not null,             -- of the words that are written now, and of questions
    former text,                        -- of words that were not cut anew yet; null: there are none
    place uuid,                         -- units up to this one were looked at
    changed_at timestamptz not null,
    primary key (host_id, bank_id)
);
-- WHY: maintenance looks over all hosts for banks whose words are to be cut anew.
create index bank_language_undone on afterturn.bank_language_t (changed_at) where former is not null;

alter table afterturn.bank_language_t enable row level security;
create policy tenant on afterturn.bank_language_t to afterturn_app
    using (host_id = afterturn.current_host()) with check (host_id = afterturn.current_host());
create policy operator on afterturn.bank_language_t to afterturn_operator using (true);
grant select, insert, update, delete on afterturn.bank_language_t to afterturn_app;
grant select on afterturn.bank_language_t to afterturn_operator;

-- Words in scripts that were not told apart before: Greek, Cyrillic, Armenian, Hebrew, Arabic, Devanagari, Tamil.
insert into afterturn.bank_language_t (host_id, bank_id, language, former, changed_at)
select w.host_id, w.bank_id, 'auto', 'first', now()
  from (select t.host_id, t.bank_id from afterturn.term_t t
         where t.term ~ '[\u0370-\u06ff\u0750-\u077f\u0900-\u097f\u0b80-\u0bff]'
        union
        select w.host_id, w.bank_id from afterturn.unit_word_t w
         where not w.posted and cast(w.terms as text) ~ '[\u0370-\u06ff\u0750-\u077f\u0900-\u097f\u0b80-\u0bff]') w
  join afterturn.agent_memory_bank_t b on b.host_id = w.host_id and b.bank_id = w.bank_id and b.active;
