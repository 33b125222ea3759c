-- WHY: hosts take turns when work is claimed, so a worker asks for the oldest and the newest work of one host and stage,
-- and for the next host; what is done, or waits for another stage, is not in the index.
create index ledger_ready_by_host on afterturn.ledger_t (stage, host_id, position)
    where undone and next_attempt_at < 'infinity';
drop index afterturn.ledger_ready;
