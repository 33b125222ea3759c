-- Rows as agents of the platform wrote them directly: :banks banks of one host, each with 381 rows of every table.
create function pg_temp.id(name text) returns uuid language sql immutable as $$ select md5(name)::uuid $$;
insert into agent_memory_bank_t (host_id, bank_id, agent_def_id, user_id, bank_name, background, aggregate_version)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id('agent'),
       case when b % 2 = 0 then pg_temp.id('user') end,
       case when b % 2 = 0 then 'session-' || pg_temp.id('bank' || b) else 'shared ' || b end, 'A household.', b % 3 + 1
  from generate_series(1, :banks) b;
insert into agent_memory_doc_t (host_id, bank_id, doc_id, original_text, content_hash)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id(b || 'doc' || n), 'Paper ' || n || ' of ' || b, 'h' || n
  from generate_series(1, :banks) b, generate_series(1, 5) n;
insert into agent_memory_unit_t (host_id, bank_id, unit_id, doc_id, content, embedding, context, event_date,
       occurred_start, fact_type, metadata, source_memory_ids, aggregate_version, active, update_ts)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id(b || 'unit' || n),
       case when n <= 5 then pg_temp.id(b || 'doc' || n) end,
       'The violin number ' || n || ' of household ' || b || ' is in the attic of Karl Berger.',
       array_fill(0.05::real, array[384])::vector, case when n % 7 = 0 then 'about music' end,
       timestamptz '2026-01-01 09:00+00' + n * interval '1 hour', case when n % 3 = 0 then timestamptz '2025-12-24' end,
       (array['world', 'experience', 'opinion'])[n % 3 + 1], jsonb_build_object('session_id', 's' || n % 4),
       case when n > 90 then array[pg_temp.id(b || 'unit' || n - 90)] else '{}' end,
       n % 4 + 1, n % 25 <> 0, timestamptz '2026-02-01 09:00+00' + n * interval '1 minute'
  from generate_series(1, :banks) b, generate_series(1, 100) n;
insert into agent_memory_entity_t (host_id, bank_id, entity_id, canonical_name, mention_count, metadata)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id(b || 'entity' || n), 'Karl ' || n, 99, '{"kind": "person"}'
  from generate_series(1, :banks) b, generate_series(0, 9) n;
insert into agent_memory_unit_entity_t (host_id, bank_id, unit_id, entity_id)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id(b || 'unit' || n), pg_temp.id(b || 'entity' || (n + k) % 10)
  from generate_series(1, :banks) b, generate_series(1, 100) n, (values (0), (3)) as two(k);
insert into agent_memory_entity_cooccur_t (host_id, bank_id, entity_id_1, entity_id_2, cooccur_count)
select pg_temp.id('host'), pg_temp.id('bank' || b), least(x, y), greatest(x, y), 12345
  from generate_series(1, :banks) b, lateral (select pg_temp.id(b || 'entity0') x, pg_temp.id(b || 'entity3') y) pair;
insert into agent_memory_link_t (host_id, bank_id, from_unit_id, to_unit_id, link_type, weight, aggregate_version)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id(b || 'unit' || n), pg_temp.id(b || 'unit' || n + 1),
       (array['causes', 'temporal'])[n % 2 + 1], n / 100.0, n % 2 + 1
  from generate_series(1, :banks) b, generate_series(1, 50) n;
insert into agent_memory_directive_t (host_id, bank_id, directive_id, name, content, priority)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id(b || 'directive' || n), 'rule ' || n, 'Answer briefly.', n
  from generate_series(1, :banks) b, generate_series(1, 5) n;
insert into agent_memory_reflection_t (host_id, bank_id, reflection_id, content, embedding)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id(b || 'reflection' || n), 'They own violin ' || n,
       array_fill(0.05::real, array[384])::vector
  from generate_series(1, :banks) b, generate_series(1, 5) n;
insert into agent_session_history_t (host_id, bank_id, session_id, messages, aggregate_version)
select pg_temp.id('host'), pg_temp.id('bank' || b), pg_temp.id(b || 'session' || n),
       '[{"role": "user", "content": "Where is the violin?", "tool_call_id": "x"},
         {"role": "assistant", "content": "In the attic.", "timestamp": "2026-01-01T09:00:00Z"}, {"role": "tool"}]', 7
  from generate_series(1, :banks) b, generate_series(1, 5) n;
