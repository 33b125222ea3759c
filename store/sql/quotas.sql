-- Quotas: how much a tenant or a bank may store and take in. A tenant without a quota costs one index probe an append.
--
-- An append checks the quota without a lock, writes its rows, and charges the quota right before it commits. If another
-- append used up the rest meanwhile, charging fails (ZQ001) and the caller checks again: no limit is ever exceeded.

-- The offered turns that a quota applies to, with their sizes. Turns that are already stored, or have an outcome, are
-- left out. `ord` counts from 0.
create or replace function afterturn.priced(p_host uuid, p_turns afterturn.offered_turn[], p_outcomes text[])
returns jsonb language plpgsql as $$
begin
    return (select coalesce(jsonb_agg(jsonb_build_object(
                       'ord', t.nth - 1, 'bank', t.bank, 'bytes', t.bytes, 'minute', date_trunc('minute', t.at),
                       'wait', 60 - floor(extract(second from t.at)),
                       'fresh', (select true from afterturn.agent_memory_bank_t b
                                  where b.host_id = p_host and b.bank_id = t.bank and b.active) is null) order by t.nth), '[]')
              from unnest(p_turns) with ordinality
                   as t(turn, bank, session, "user", digest, gateway, at, bytes, begins, follows, events, nth)
             where p_outcomes[t.nth] is null
               and (select true from afterturn.turn_t g where g.host_id = p_host and g.turn_id = t.turn) is null);
end $$;

-- Which of these turns exceed a limit: {ord: 'over LIMIT SCOPE ALLOWED SECONDS'}; seconds until the rate's window ends,
-- else 0.
create or replace function afterturn.over_quota(p_host uuid, p_priced jsonb) returns jsonb
language plpgsql as $$
declare
    v_quotas afterturn.quota_t[] := (
        select array_agg(q order by q.scope_id <> p_host, q.scope_id) from afterturn.quota_t q
         where q.host_id = p_host and q.scope_id = any (
               array(select t.bank from jsonb_to_recordset(p_priced) as t(bank uuid)) || p_host));
    v_over jsonb := '{}';
    v_made uuid[] := '{}';
    v_why text;
    v_turn record;
    q afterturn.quota_t;
begin
    for v_turn in
        select t.* from jsonb_to_recordset(p_priced)
            as t(ord int, bank uuid, bytes bigint, minute timestamptz, wait int, fresh boolean) order by t.ord
    loop
        v_turn.fresh := v_turn.fresh and v_turn.bank <> all (v_made);
        v_why := null;
        foreach q in array coalesce(v_quotas, '{}') loop
            continue when q.scope_id not in (p_host, v_turn.bank) or v_why is not null;
            v_why := afterturn.past_limit(q, v_turn.bytes, v_turn.fresh::int, v_turn.minute, v_turn.wait);
        end loop;
        if v_why is not null then
            v_over := v_over || jsonb_build_object(v_turn.ord::text, v_why);
            continue;
        end if;
        v_made := v_made || case when v_turn.fresh then v_turn.bank end;
        for i in 1..coalesce(cardinality(v_quotas), 0) loop
            q := v_quotas[i];
            continue when q.scope_id not in (p_host, v_turn.bank);
            q.turns := q.turns + 1;
            q.bytes := q.bytes + v_turn.bytes;
            q.banks := q.banks + v_turn.fresh::int;
            q.minute_turns := case when q.minute = v_turn.minute then q.minute_turns else 0 end + 1;
            q.minute := v_turn.minute;
            v_quotas[i] := q;
        end loop;
    end loop;
    return v_over;
end $$;

-- Which limit one more turn of this many bytes, in a new bank or not, would exceed; null for none.
create or replace function afterturn.past_limit(q afterturn.quota_t, p_bytes bigint, p_banks int, p_minute timestamptz,
                                                p_wait int) returns text
language plpgsql immutable as $$
declare
    v_of text := case when q.bank_name is null then ' host ' else ' bank ' end;
begin
    if q.turns + 1 > q.max_turns then
        return 'over max_turns' || v_of || q.max_turns || ' 0';
    elsif q.bytes + p_bytes > q.max_bytes then
        return 'over max_bytes' || v_of || q.max_bytes || ' 0';
    elsif p_banks > 0 and q.banks + p_banks > q.max_banks then
        return 'over max_banks' || v_of || q.max_banks || ' 0';
    elsif (case when q.minute = p_minute then q.minute_turns else 0 end) + 1 > q.turns_per_minute then
        return 'over turns_per_minute' || v_of || q.turns_per_minute || ' ' || p_wait;
    end if;
    return null;
end $$;

-- Charges accepted turns, as the last statement of the transaction, so that rows are locked for the commit alone. Rows
-- are locked in the order of their keys, so that two charges of the same banks cannot deadlock.
create or replace function afterturn.charge_quota(p_host uuid, p_priced jsonb, p_accepted int[]) returns void
language plpgsql as $$
declare
    v_spent record;
begin
    for v_spent in
        select s.scope, count(*) as turns, sum(t.bytes) as bytes, max(t.minute) as minute,
               count(distinct t.bank) filter (where t.fresh and s.scope = p_host) as banks
          from jsonb_to_recordset(p_priced) as t(ord int, bank uuid, bytes bigint, minute timestamptz, fresh boolean),
               lateral (values (p_host), (t.bank)) as s(scope)
         where t.ord = any (p_accepted)
           and (select true from afterturn.quota_t q where q.host_id = p_host and q.scope_id = s.scope)
         group by s.scope order by s.scope
    loop
        update afterturn.quota_t q
           set turns = q.turns + v_spent.turns, bytes = q.bytes + v_spent.bytes, banks = q.banks + v_spent.banks,
               minute = v_spent.minute,
               minute_turns = v_spent.turns + case when q.minute = v_spent.minute then q.minute_turns else 0 end
         where q.host_id = p_host and q.scope_id = v_spent.scope
           and coalesce(q.turns + v_spent.turns <= q.max_turns, true)
           and coalesce(q.bytes + v_spent.bytes <= q.max_bytes, true)
           and (v_spent.banks = 0 or coalesce(q.banks + v_spent.banks <= q.max_banks, true))
           and coalesce(v_spent.turns + case when q.minute = v_spent.minute then q.minute_turns else 0 end
                        <= q.turns_per_minute, true);
        if not found then
            raise exception using errcode = 'ZQ001', message = 'a quota was used up meanwhile';
        end if;
    end loop;
end $$;

-- Locks a tenant's quota exclusively, if it has one. Taken before any bank lock, because appends take the quota's lock
-- (shared) before a bank's: the other order could deadlock with them.
create or replace function afterturn.lock_quota(p_host uuid) returns void
language plpgsql set search_path to afterturn, public as $$
begin
    perform pg_advisory_xact_lock(afterturn.lock_key('quota', p_host))
      where (select true from quota_t q where q.host_id = p_host limit 1);
end $$;

-- Creates a bank before its first turn: 'created' or 'known'. Refused (ZQ002) beyond the tenant's quota of banks.
create or replace function afterturn.create_bank(p_host uuid, p_bank uuid, p_event jsonb, p_now timestamptz) returns text
language plpgsql set search_path to afterturn, public as $$
declare
    v_version bigint;
begin
    perform set_config('afterturn.host', p_host::text, true);
    perform afterturn.enter_log();
    perform afterturn.lock_quota(p_host);
    perform pg_advisory_xact_lock_shared(afterturn.lock_key('bank', p_bank));
    perform pg_advisory_xact_lock(afterturn.lock_key('new bank', p_bank));
    if (select b.active from agent_memory_bank_t b where b.host_id = p_host and b.bank_id = p_bank) then
        return 'known';
    end if;
    v_version := 1 + coalesce(afterturn.logged_version(p_host, p_event->>'subject'), 0);
    perform afterturn.append_events(p_host, jsonb_build_array(case when v_version = 1 then p_event else
        p_event || jsonb_build_object('version', v_version, 'id', md5((p_event->>'id') || '@' || v_version)::uuid) end));
    return 'created';
end $$;

-- Charges bytes to quotas of a tenant, as the last statement of the transaction that writes them, under the shared lock
-- of the quota: a recount sees both or neither. Refused (ZQ002) beyond max_bytes if p_refuse; a negative number is
-- refunded.
create or replace function afterturn.charge_bytes(p_host uuid, p_scopes uuid[], p_bytes bigint, p_refuse boolean default true)
returns void language plpgsql as $$
declare
    q record;
begin
    for q in
        select c.scope_id, c.bank_name, c.max_bytes from afterturn.quota_t c
         where c.host_id = p_host and c.scope_id = any (p_scopes) order by c.scope_id
    loop
        update afterturn.quota_t c set bytes = greatest(c.bytes + p_bytes, 0)
         where c.host_id = p_host and c.scope_id = q.scope_id
           and (not p_refuse or coalesce(c.bytes + p_bytes <= c.max_bytes, true));
        if not found then
            raise exception using errcode = 'ZQ002', message = 'a quota of bytes is used up',
                detail = jsonb_build_object('limit', 'max_bytes', 'scope', case when q.bank_name is null then 'host' else 'bank' end,
                                            'allowed', q.max_bytes)::text;
        end if;
    end loop;
end $$;

-- Charges a recall job for what its row stores: the question, then the answer, nothing after it expired. Only a
-- question is refused. The quota's lock comes before row locks: a recount or an erasure takes it exclusively and locks
-- rows afterwards.
create or replace function afterturn.lock_quota_of_job() returns trigger
language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(afterturn.lock_key('quota', h.host_id))
       from (select nullif(current_setting('afterturn.host', true), '')::uuid as host_id) h where h.host_id is not null;
    return null;
end $$;

create or replace function afterturn.charge_job() returns trigger
language plpgsql as $$
declare
    v_job afterturn.recall_job_t := coalesce(new, old);
    v_bytes bigint := coalesce(new.bytes, 0) - coalesce(old.bytes, 0);
begin
    -- When the operator deletes jobs that expired, no quota is charged.
    if v_bytes <> 0 and nullif(current_setting('afterturn.host', true), '') is not null then
        perform afterturn.charge_bytes(v_job.host_id, array(
            select q.scope_id from afterturn.quota_t q
             where q.host_id = v_job.host_id
               and (q.bank_name is null or (q.bank_name = v_job.request->>'bank' and not v_job.request ? 'banks'))),
            v_bytes, tg_op = 'INSERT');
    end if;
    return null;
end $$;

create or replace trigger lock_quota before insert or update or delete on afterturn.recall_job_t
    for each statement execute function afterturn.lock_quota_of_job();
create or replace trigger charge after insert or update or delete on afterturn.recall_job_t
    for each row execute function afterturn.charge_job();

-- The same for what callers of the memory plugin write beside the log: a namespace with its metadata, and vectors, of four
-- bytes a number.
create or replace function afterturn.bytes_of_namespace(p_row afterturn.plugin_namespace_t) returns bigint
language sql immutable parallel safe
return coalesce(octet_length(p_row.name) + coalesce(octet_length(p_row.metadata), 0), 0);

create or replace function afterturn.bytes_of_vector(p_row afterturn.plugin_vector_t) returns bigint
language sql immutable parallel safe
return coalesce(4 * p_row.dimension, 0);

create or replace function afterturn.charge_namespace() returns trigger
language plpgsql as $$
begin
    perform afterturn.charge_beside_log(coalesce(new.host_id, old.host_id), coalesce(new.bank_id, old.bank_id),
                                        afterturn.bytes_of_namespace(new) - afterturn.bytes_of_namespace(old));
    return null;
end $$;

create or replace function afterturn.charge_vector() returns trigger
language plpgsql as $$
begin
    perform afterturn.charge_beside_log(coalesce(new.host_id, old.host_id), coalesce(new.bank_id, old.bank_id),
                                        afterturn.bytes_of_vector(new) - afterturn.bytes_of_vector(old));
    return null;
end $$;

create or replace function afterturn.charge_beside_log(p_host uuid, p_bank uuid, p_bytes bigint) returns void
language plpgsql as $$
begin
    -- Where a tenant's rows go with the tenant, or a replay carries them, no quota is charged.
    if p_bytes <> 0 and nullif(current_setting('afterturn.host', true), '') is not null then
        perform afterturn.charge_bytes(p_host, array[p_host, p_bank], p_bytes, p_bytes > 0);
    end if;
end $$;

-- And for a turn that memory_run_turn prepared, which holds its request until its output arrives. The operator's pruning
-- of expired ones refunds nothing: the next recount does.
create or replace function afterturn.bytes_of_open_turn(p_row afterturn.open_turn_t) returns bigint
language sql immutable parallel safe
return coalesce(octet_length(p_row.request), 0);

create or replace function afterturn.charge_open_turn() returns trigger
language plpgsql as $$
begin
    perform afterturn.charge_beside_log(coalesce(new.host_id, old.host_id), coalesce(new.bank_id, old.bank_id),
                                        afterturn.bytes_of_open_turn(new) - afterturn.bytes_of_open_turn(old));
    return null;
end $$;

create or replace trigger lock_quota before insert or update or delete on afterturn.open_turn_t
    for each statement execute function afterturn.lock_quota_of_job();
create or replace trigger charge after insert or update or delete on afterturn.open_turn_t
    for each row execute function afterturn.charge_open_turn();

-- WHY these columns: who deletes a namespace says so while it holds the bank, and a quota's lock comes before that.
create or replace trigger lock_quota before insert or update of name, metadata or delete on afterturn.plugin_namespace_t
    for each statement execute function afterturn.lock_quota_of_job();
create or replace trigger charge after insert or update of name, metadata or delete on afterturn.plugin_namespace_t
    for each row execute function afterturn.charge_namespace();
create or replace trigger lock_quota before insert or update or delete on afterturn.plugin_vector_t
    for each statement execute function afterturn.lock_quota_of_job();
create or replace trigger charge after insert or update or delete on afterturn.plugin_vector_t
    for each row execute function afterturn.charge_vector();

-- The bytes written by callers that a tenant, or one of its banks, stores now.
create or replace function afterturn.bytes_held(p_host uuid, p_bank uuid, p_name text) returns bigint
language sql stable as $$
    select coalesce(sum(h.bytes), 0)::bigint from (
        select sum(u.bytes) as bytes from afterturn.agent_memory_unit_t u
         where u.host_id = p_host and u.active and (p_name is null or u.bank_id = p_bank)
        union all
        select sum(o.bytes) from afterturn.agent_memory_doc_t o
         where o.host_id = p_host and o.active and (p_name is null or o.bank_id = p_bank)
        union all
        select sum(l.bytes) from afterturn.agent_memory_link_t l
         where l.host_id = p_host and l.active and (p_name is null or l.bank_id = p_bank)
        union all
        select sum(v.bytes) from afterturn.agent_memory_directive_t v
         where v.host_id = p_host and v.active and (p_name is null or v.bank_id = p_bank)
        union all
        select sum(afterturn.bytes_of_namespace(n)) from afterturn.plugin_namespace_t n
         where n.host_id = p_host and (p_name is null or n.bank_id = p_bank)
        union all
        select sum(afterturn.bytes_of_vector(v)) from afterturn.plugin_vector_t v
         where v.host_id = p_host and (p_name is null or v.bank_id = p_bank)
        union all
        select sum(afterturn.bytes_of_open_turn(t)) from afterturn.open_turn_t t
         where t.host_id = p_host and (p_name is null or t.bank_id = p_bank)
        union all
        select sum(j.bytes) from afterturn.recall_job_t j
         where j.host_id = p_host and (p_name is null or (j.request->>'bank' = p_name and not j.request ? 'banks'))) h
$$;

-- Recounts what a tenant and its banks store: turns and documents with any content left, bytes, living banks; p_now is
-- the time of the count. Writers go on meanwhile: their rows and their charges become visible together, so one
-- statement sees the error of the quota, which later charges do not change. One recount at a time; rows are locked in
-- the order of their keys.
create or replace function afterturn.count_quota(p_host uuid, p_now timestamptz) returns void
language plpgsql set search_path to afterturn, public as $$
declare
    v_off record;
begin
    perform pg_advisory_xact_lock(afterturn.lock_key('recount', p_host));
    for v_off in
        select q.scope_id,
               (select count(distinct u.turn_id) from agent_memory_unit_t u
                 where u.host_id = p_host and u.origin in ('message', 'document', 'memory') and u.active
                   and (q.bank_name is null or u.bank_id = q.scope_id)) - q.turns as turns,
               afterturn.bytes_held(p_host, q.scope_id, q.bank_name) - q.bytes as bytes,
               (select count(*) from agent_memory_bank_t b where b.host_id = p_host and b.active
                   and q.bank_name is null) - q.banks as banks
          from quota_t q where q.host_id = p_host order by q.scope_id
    loop
        update quota_t q
           set turns = greatest(q.turns + v_off.turns, 0), bytes = greatest(q.bytes + v_off.bytes, 0),
               banks = greatest(q.banks + v_off.banks, 0), counted_at = p_now
         where q.host_id = p_host and q.scope_id = v_off.scope_id;
    end loop;
end $$;

-- Charges banks that were created or ended by other means than a turn, after their events were projected; what an ended
-- bank stored is refunded by the next recount. Refuses (ZQ002) banks beyond the tenant's quota. The caller must not
-- hold the quota's lock shared; a caller that holds a bank's lock exclusively must already hold the quota's
-- (lock_quota).
create or replace function afterturn.account_banks(p_host uuid, p_new afterturn.event_store_t[]) returns void
language plpgsql as $$
declare
    v_began boolean;
    v_allowed bigint;
begin
    select bool_or(e.event_type = 'AgentMemoryBankCreatedEvent') into v_began from unnest(p_new) e
     where e.event_type in ('AgentMemoryBankCreatedEvent', 'AgentMemoryBankDeletedEvent');
    if v_began is null or (select true from afterturn.quota_t q where q.host_id = p_host limit 1) is null then
        return;
    end if;
    perform pg_advisory_xact_lock(afterturn.lock_key('quota', p_host));
    update afterturn.quota_t q
       set banks = (select count(*) from afterturn.agent_memory_bank_t b where b.host_id = p_host and b.active)
     where q.host_id = p_host and q.bank_name is null;
    v_allowed := (select q.max_banks from afterturn.quota_t q
                   where q.host_id = p_host and q.bank_name is null and q.banks > q.max_banks);
    if v_began and v_allowed is not null then
        raise exception using errcode = 'ZQ002', message = 'a host holds no more banks',
            detail = jsonb_build_object('limit', 'max_banks', 'scope', 'host', 'allowed', v_allowed)::text;
    end if;
end $$;

-- A total is recounted before it refuses a call, at most once a minute, and always after an erasure (p_least 0): erased
-- content no longer counts.
create or replace function afterturn.recount_quota(p_host uuid, p_now timestamptz, p_least interval default '1 minute')
returns boolean language plpgsql set search_path to afterturn, public as $$
begin
    perform set_config('afterturn.host', p_host::text, true);
    if (select max(q.counted_at) from quota_t q where q.host_id = p_host) > p_now - p_least then
        return false;
    end if;
    if (select true from quota_t q where q.host_id = p_host limit 1) is null then
        return false;
    end if;
    perform afterturn.count_quota(p_host, p_now);
    return true;
end $$;

-- Sets all limits of a tenant (p_bank null) or of a bank; without any limit the quota is removed. For operators only.
-- WHY security definer: the operator counts rows that it may not read. Policies restrict it to this tenant.
create or replace function afterturn.set_quota(p_host uuid, p_scope uuid, p_bank text, p_limits jsonb, p_now timestamptz)
returns void language plpgsql security definer set search_path to afterturn, public, pg_temp as $$
declare
    v_before text := coalesce(current_setting('afterturn.host', true), '');
begin
    perform set_config('afterturn.host', p_host::text, true), set_config('afterturn.every_host', 'off', true);
    perform pg_advisory_xact_lock(afterturn.lock_key('quota', p_host));
    if p_limits = '{}' then
        delete from quota_t q where q.host_id = p_host and q.scope_id = p_scope;
        perform set_config('afterturn.host', v_before, true);
        return;
    end if;
    insert into quota_t as q (host_id, scope_id, bank_name, max_turns, max_bytes, max_banks, turns_per_minute)
    select p_host, p_scope, p_bank, l.* from jsonb_to_record(p_limits)
           as l(max_turns bigint, max_bytes bigint, max_banks bigint, turns_per_minute bigint)
    on conflict (host_id, scope_id) do update
       set (max_turns, max_bytes, max_banks, turns_per_minute)
         = row (excluded.max_turns, excluded.max_bytes, excluded.max_banks, excluded.turns_per_minute);
    perform afterturn.count_quota(p_host, p_now);
    perform set_config('afterturn.host', v_before, true);
end $$;
revoke all on function afterturn.set_quota(uuid, uuid, text, jsonb, timestamptz) from public;
grant execute on function afterturn.set_quota(uuid, uuid, text, jsonb, timestamptz) to afterturn_operator;
