alter table afterturn.erasure_t add column parent_id uuid;  -- the user's erasure that this one, of a bank, is part of
-- WHY: a user's erasure goes on with its banks one by one, and adds up what became of them.
create index erasure_parts on afterturn.erasure_t (host_id, parent_id) where parent_id is not null;
-- WHY: what is part of another erasure goes on with that.
grant select (parent_id) on afterturn.erasure_t to afterturn_operator;
