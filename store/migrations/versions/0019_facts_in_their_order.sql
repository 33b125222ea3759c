-- WHY the position: each turn's facts are linked to the last one before them, which would otherwise be looked for among
-- all facts of the session, again at every turn.
drop index afterturn.unit_other_by_session;
create index unit_other_by_session on afterturn.agent_memory_unit_t (host_id, bank_id, session_id, position)
    where seq is null;
