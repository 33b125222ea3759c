-- Where a unit first names an entity. WHY: only the entities that it names first make pairs, which grow with the square.
alter table afterturn.agent_memory_unit_entity_t add column place int not null default 0;

-- What the texts of a turn weigh. WHY: a claim is bounded by it, and who claims over all tenants reads no text.
alter table afterturn.ledger_t add column bytes bigint not null default 0;

-- WHY: before a job is opened, those that its tenant still has are counted.
create index recall_job_of_host on afterturn.recall_job_t (host_id, expires_at);
