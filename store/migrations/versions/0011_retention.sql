-- What was said can be erased by its age: `age` is of one bank, and `upto` where the log was young enough to be kept.
alter table afterturn.erasure_t drop constraint erasure_t_kind_check;
alter table afterturn.erasure_t add constraint erasure_t_kind_check check (kind in ('unit', 'session', 'user', 'bank', 'age'));
-- WHY: the next one begins where the last one ended; there are few beside them.
create index erasure_by_age on afterturn.erasure_t (host_id, bank_id, upto) where kind = 'age';
