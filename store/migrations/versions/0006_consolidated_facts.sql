-- Of equal facts that hold, each but the newest is consolidated by the next. Rows of facts that were said once stay as
-- they are.
alter table afterturn.fact_t add column consolidated_by uuid;

update afterturn.fact_t f set consolidated_by = n.next
  from (select host_id, bank_id, unit_id,
               lead(unit_id) over (partition by host_id, bank_id, fact_id, subject, key, value
                                   order by valid_from, said, position, unit_id) as next
          from afterturn.fact_t where valid_to is null and not denied) n
 where n.next is not null and f.host_id = n.host_id and f.bank_id = n.bank_id and f.unit_id = n.unit_id;
