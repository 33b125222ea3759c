-- Facts of one moment follow in the order of their turns, and not in the order in which these were read.
alter table afterturn.fact_t add column said bigint;
update afterturn.fact_t f
   set said = coalesce((select g.position from afterturn.turn_t g
                         where g.host_id = u.host_id and g.turn_id = u.turn_id), f.position)
  from afterturn.agent_memory_unit_t u
 where u.host_id = f.host_id and u.bank_id = f.bank_id and u.unit_id = f.unit_id;
update afterturn.fact_t set said = position where said is null;
-- WHY a default: workers of before, while they are still at it, name no such column.
alter table afterturn.fact_t alter column said set not null, alter column said set default 0;

with lined as (
    select f.*, sum((f.value is distinct from f.before)::int) over w as stretch
      from (select f.*, lag(f.value) over w as before from afterturn.fact_t f
            window w as (partition by f.host_id, f.bank_id, f.fact_id, f.subject, f.key
                         order by f.valid_from, f.said, f.position, f.unit_id)) f
    window w as (partition by f.host_id, f.bank_id, f.fact_id, f.subject, f.key
                 order by f.valid_from, f.said, f.position, f.unit_id)
), begun as (
    select distinct on (f.host_id, f.bank_id, f.fact_id, f.subject, f.key, f.stretch) f.* from lined f
     order by f.host_id, f.bank_id, f.fact_id, f.subject, f.key, f.stretch, f.valid_from, f.said, f.position, f.unit_id
)
update afterturn.fact_t f set valid_to = b.valid_from, superseded_by = b.unit_id
  from lined l
  left join begun b on b.host_id = l.host_id and b.bank_id = l.bank_id and b.fact_id = l.fact_id
                   and b.subject = l.subject and b.key = l.key and b.stretch = l.stretch + 1
 where f.host_id = l.host_id and f.bank_id = l.bank_id and f.unit_id = l.unit_id
   and (f.valid_to, f.superseded_by) is distinct from (b.valid_from, b.unit_id);
