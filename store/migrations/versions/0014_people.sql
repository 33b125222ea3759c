-- WHY: a person's facts in one bank are found by the person's name, and not by reading all facts of the bank.
create index fact_by_subject on afterturn.fact_t (host_id, bank_id, subject);
-- WHY: the facts a user's turns gave are found in whatever banks they stand. Partial: messages cost nothing.
create index unit_of_user on afterturn.agent_memory_unit_t (host_id, user_id) where origin = 'extraction' and active;
