-- WHY: every recall asks what is pinned; where nothing is, it is empty, and costs nothing.
create index unit_pinned on afterturn.agent_memory_unit_t (host_id, bank_id, position)
    where metadata->>'pinned' = 'true' and active;
