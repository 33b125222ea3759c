-- The guards of turns (turn_t), rebuilt from the log: they are written with a turn's events and contain nothing else.
-- Run by the owner, in a replay.

-- The guards that the log of a tenant (null: of each) or of one of its banks implies. A turn's position is that of the
-- first of its last own units; `digest` is null where an erasure removed it from the log, or none was ever there.
create or replace function afterturn.logged_turns(p_host uuid, p_bank uuid)
returns table (host_id uuid, turn_id uuid, bank_id uuid, session_id uuid, user_id uuid, digest bytea, "position" bigint,
               accepted_at timestamptz)
language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with units as (
        select e.host_id, (e.data->>'turnId')::uuid as turn_id, e.bank_id,
               (e.data->>'sessionId')::uuid as session_id, e.user_id, max(e.position) as position, e.event_ts
          from afterturn.event_store_t e
         where (p_host is null or e.host_id = p_host) and (p_bank is null or e.bank_id = p_bank)
           and e.event_type = 'AgentMemoryUnitRetainedEvent' and e.aggregate_version = 1
           and e.data->>'origin' in ('message', 'document', 'memory')
           and e.data ? 'turnId' and e.data ? 'sessionId'
         group by 1, 2, 3, 4, 5, e.event_ts
    ), digests as (
        select e.host_id, coalesce(e.data->>'turnId', e.data->>'docId')::uuid as turn_id,
               max(coalesce(e.data->>'bodyDigest', e.data->>'contentHash')) as digest
          from afterturn.event_store_t e
         where (p_host is null or e.host_id = p_host) and (p_bank is null or e.bank_id = p_bank)
           and e.event_type in ('AgentSessionHistoryAppendedEvent', 'AgentMemoryDocCreatedEvent')
         group by 1, 2
    )
    select distinct on (u.host_id, u.turn_id)
           u.host_id, u.turn_id, u.bank_id, u.session_id, u.user_id,
           case when d.digest ~ '^[0-9a-f]{64}$' then decode(d.digest, 'hex') end, u.position, u.event_ts
      from units u left join digests d on d.host_id = u.host_id and d.turn_id = u.turn_id
     order by u.host_id, u.turn_id, u.position;
end $$;

-- Makes the guards of a tenant (null: of each) or of one of its banks what the log implies. The caller holds the log's
-- lock exclusively.
--
-- A body that the log does not contain gets a digest that matches none: a caller that sends such a turn again gets a
-- conflict. The ledger is not in the log: a turn without a row counts as ended with success, as all turns did that were
-- pruned; its gateway stage as flushed where the audit says that a gateway took it, else as that of a turn without a
-- gateway, so that nothing is sent twice. The target of the delivery is not known any more.
create or replace function afterturn.rebuild_turns(p_host uuid, p_bank uuid) returns void
language plpgsql as $$
begin
    create temp table logged_turn on commit drop as select * from afterturn.logged_turns(p_host, p_bank);
    alter table pg_temp.logged_turn add primary key (host_id, turn_id);
    delete from afterturn.turn_t t
     where (p_host is null or t.host_id = p_host) and (p_bank is null or t.bank_id = p_bank)
       and not exists (select from pg_temp.logged_turn l where l.host_id = t.host_id and l.turn_id = t.turn_id);
    insert into afterturn.turn_t as t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
    select l.host_id, l.turn_id, l.bank_id, l.session_id, l.user_id,
           coalesce(l.digest, (select t.digest from afterturn.turn_t t where t.host_id = l.host_id and t.turn_id = l.turn_id),
                    decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')),
           l.position, l.accepted_at
      from pg_temp.logged_turn l
    on conflict (host_id, turn_id) do update
       set (bank_id, session_id, user_id, digest, position, accepted_at)
         = row (excluded.bank_id, excluded.session_id, excluded.user_id, excluded.digest, excluded.position,
                excluded.accepted_at)
     where (t.bank_id, t.session_id, t.user_id, t.digest, t.position, t.accepted_at)
           is distinct from (excluded.bank_id, excluded.session_id, excluded.user_id, excluded.digest, excluded.position,
                             excluded.accepted_at);
    update afterturn.turn_t t
       set ended = (select jsonb_object_agg(s.stage, jsonb_build_object(
                               'status', case s.stage when 'gateway' then 'flushed' else 'done' end,
                               'attempts', 0, 'at', t.accepted_at))
                      from afterturn.stages() s
                     where s.opened_by_turn and (
                           s.stage <> 'gateway'
                           or exists (select from afterturn.audit_event_t a
                                       where a.host_id = t.host_id and a.turn_id = t.turn_id
                                         and a.event in ('memory_gateway_add_succeeded', 'memory_gateway_flush_succeeded'))))
     where (p_host is null or t.host_id = p_host) and (p_bank is null or t.bank_id = p_bank) and t.ended is null
       and not exists (select from afterturn.ledger_t l
                        where l.host_id = t.host_id and l.turn_id = t.turn_id and l.item_id = t.turn_id);
    perform afterturn.recount_pruned(p_host);
end $$;

-- Adds the guards that the log of a bank implies and that are missing, with their rows of the ledger; returns how many.
-- Run by the application, for events that came without their turn's transaction; the caller holds the bank's lock.
--
-- The results of extraction are in the log, so that only projection is left to be done; work of missing vectors is opened
-- apart. Nothing is sent to a gateway.
create or replace function afterturn.restore_guards(p_host uuid, p_bank uuid) returns int
language plpgsql as $$
declare
    v_turns uuid[];
begin
    with added as (
        insert into afterturn.turn_t (host_id, turn_id, bank_id, session_id, user_id, digest, position, accepted_at)
        select l.host_id, l.turn_id, l.bank_id, l.session_id, l.user_id,
               coalesce(l.digest, decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')),
               l.position, l.accepted_at
          from afterturn.logged_turns(p_host, p_bank) l
         where not exists (select from afterturn.turn_t t where t.host_id = l.host_id and t.turn_id = l.turn_id)
        on conflict (host_id, turn_id) do nothing
        returning turn_id
    )
    select array_agg(turn_id) into v_turns from added;
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position, status,
                                    accepted_at)
    select t.host_id, s.stage, t.turn_id,
           case s.stream when 'session' then t.session_id when 'bank' then t.bank_id else t.turn_id end,
           t.bank_id, t.session_id, t.turn_id, t.position,
           case s.stage when 'projection' then 'pending' when 'gateway' then 'flushed' else 'done' end, t.accepted_at
      from afterturn.turn_t t, afterturn.stages() s
     where t.host_id = p_host and t.turn_id = any (v_turns) and s.opened_by_turn and (
           s.stage <> 'gateway'
           or exists (select from afterturn.audit_event_t a
                       where a.host_id = t.host_id and a.turn_id = t.turn_id
                         and a.event in ('memory_gateway_add_succeeded', 'memory_gateway_flush_succeeded')))
    on conflict do nothing;
    return coalesce(cardinality(v_turns), 0);
end $$;

-- Recounts how many turns of a tenant (null: of each) were pruned from the ledger, by the outcome of each stage. What
-- LLM extraction read is counted nowhere else, and is kept.
create or replace function afterturn.recount_pruned(p_host uuid) returns void
language plpgsql as $$
begin
    delete from afterturn.pruned_turns_t c where (p_host is null or c.host_id = p_host) and not exists (
           select from afterturn.stages() s where s.stage = c.stage and s.counts_items);
    insert into afterturn.pruned_turns_t (host_id, stage, status, turns)
    select t.host_id, e.key, e.value->>'status', count(*)
      from afterturn.turn_t t, jsonb_each(t.ended) e
     where (p_host is null or t.host_id = p_host) and t.ended is not null
       and not exists (select from afterturn.stages() s where s.stage = e.key and s.counts_items)
     group by 1, 2, 3;
end $$;
