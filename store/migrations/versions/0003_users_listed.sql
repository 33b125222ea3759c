-- WHY: users of a tenant are listed from one to the next; equal entries of a user are kept once.
create index unit_by_user on afterturn.agent_memory_unit_t (host_id, user_id, bank_id) where active;
