-- WHY: the documents of a bank are listed page by page, those written last first.
create index doc_by_time on afterturn.agent_memory_doc_t (host_id, bank_id, update_ts desc, doc_id desc) where active;
