-- Words are written by the hundred: whose they are is asked once a statement, not again for each row. The wall is the same.
alter policy tenant on afterturn.posting_t with check (host_id = (select afterturn.current_host()));
alter policy tenant on afterturn.term_t with check (host_id = (select afterturn.current_host()));
