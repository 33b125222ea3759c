-- WHY: a recall of what was known at a moment looks for what was changed since; few units ever are.
create index unit_changed on afterturn.agent_memory_unit_t (host_id, bank_id, update_ts)
    where aggregate_version > 1 and active;
