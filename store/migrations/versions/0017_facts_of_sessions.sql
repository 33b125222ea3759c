-- WHY: a search in one session alone looks for its facts, too; without it, every unit of the bank is read. The messages
-- of a session have an index already (unit_by_session), and pay nothing for this one.
create index unit_other_by_session on afterturn.agent_memory_unit_t (host_id, bank_id, session_id) where seq is null;
