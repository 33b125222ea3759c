-- Quotas: what a host or a bank may hold and take in. A host without one pays one probe an append.
--
-- An append looks without a lock, writes, and pays at its end, right before it commits: whoever finds then that the
-- last of a quota was taken meanwhile (ZQ001) writes nothing and looks again, so no limit is ever passed.

-- Whether a host has quotas. Appends hold the lock shared, so that counting anew sees whole transactions.
create or replace function afterturn.has_quota(p_host uuid) returns boolean
language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(afterturn.lock_key('quota', p_host));
    return (select true from afterturn.quota_t q where q.host_id = p_host limit 1);
end $$;

-- Which offered turns do not fit: {ord: 'over LIMIT SCOPE ALLOWED SECONDS'}; seconds until a rate begins anew, else 0.
create or replace function afterturn.over_quota(p_host uuid, p_turns jsonb, p_accepted int[]) returns jsonb
language plpgsql set search_path to afterturn, public as $$
declare
    v_quotas afterturn.quota_t[] := (
        select array_agg(q order by q.scope_id <> p_host, q.scope_id) from quota_t q
         where q.host_id = p_host and (q.scope_id = p_host or q.scope_id in (
               select t.bank from jsonb_to_recordset(p_turns) as t(bank uuid))));
    v_over jsonb := '{}';
    v_made uuid[] := '{}';
    v_why text;
    v_turn record;
    q afterturn.quota_t;
begin
    for v_turn in
        select t.ord, t.bank, t.bytes, date_trunc('minute', t.accepted_at) as minute,
               60 - floor(extract(second from t.accepted_at))::int as wait,
               (select true from agent_memory_bank_t b
                 where b.host_id = p_host and b.bank_id = t.bank and b.active) is null as fresh
          from jsonb_to_recordset(p_turns) as t(ord int, bank uuid, bytes bigint, accepted_at timestamptz)
         where t.ord = any (p_accepted) order by t.ord
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

-- Which limit one more turn of so many bytes, in a new bank or not, would pass; null for none.
create or replace function afterturn.past_limit(q afterturn.quota_t, p_bytes bigint, p_banks int, p_minute timestamptz,
                                                p_wait int) returns text
language sql stable as $$
    select 'over ' || l.name || case when q.bank_name is null then ' host ' else ' bank ' end || l.allowed || ' ' || l.wait
      from (values (q.turns + 1, q.max_turns, 'max_turns', 0),
                   (q.bytes + p_bytes, q.max_bytes, 'max_bytes', 0),
                   (case when p_banks > 0 then q.banks + p_banks end, q.max_banks, 'max_banks', 0),
                   (case when q.minute = p_minute then q.minute_turns else 0 end + 1, q.turns_per_minute,
                    'turns_per_minute', p_wait)) as l(needed, allowed, name, wait)
     where l.needed > l.allowed limit 1
$$;

-- Pays for accepted turns, last in the transaction: the rows stay locked for no longer than the commit takes.
create or replace function afterturn.charge_quota(p_host uuid, p_turns jsonb, p_accepted int[], p_banks int) returns void
language plpgsql set search_path to afterturn, public as $$
declare
    v_spent int;
    v_paid int;
begin
    perform 1 from quota_t q where q.host_id = p_host and (q.scope_id = p_host or q.scope_id in (
        select t.bank from jsonb_to_recordset(p_turns) as t(ord int, bank uuid) where t.ord = any (p_accepted)))
      order by q.scope_id for no key update;
    with spent as (
        select q.scope_id, count(*) as turns, sum(t.bytes) as bytes, max(date_trunc('minute', t.accepted_at)) as minute
          from quota_t q
          join jsonb_to_recordset(p_turns) as t(ord int, bank uuid, bytes bigint, accepted_at timestamptz)
            on q.scope_id in (p_host, t.bank)
         where q.host_id = p_host and t.ord = any (p_accepted)
         group by q.scope_id
    ), paid as (
        update quota_t q
           set turns = q.turns + s.turns, bytes = q.bytes + s.bytes, minute = s.minute,
               banks = q.banks + case when q.bank_name is null then p_banks else 0 end,
               minute_turns = s.turns + case when q.minute = s.minute then q.minute_turns else 0 end
          from spent s
         where q.host_id = p_host and q.scope_id = s.scope_id
           and coalesce(q.turns + s.turns <= q.max_turns, true) and coalesce(q.bytes + s.bytes <= q.max_bytes, true)
           and (p_banks = 0 or coalesce(q.banks + p_banks <= q.max_banks, true))
           and coalesce(s.turns + case when q.minute = s.minute then q.minute_turns else 0 end <= q.turns_per_minute, true)
        returning 1
    )
    select (select count(*) from spent), (select count(*) from paid) into v_spent, v_paid;
    if v_paid < v_spent then
        raise exception using errcode = 'ZQ001', message = 'a quota was used up meanwhile';
    end if;
end $$;

-- Makes a bank before its first turn: 'created', 'known', or 'over ...' as above.
create or replace function afterturn.create_bank(p_host uuid, p_bank uuid, p_event jsonb, p_now timestamptz) returns text
language plpgsql set search_path to afterturn, public as $$
declare
    v_quota quota_t;
    v_over text;
    v_version bigint;
begin
    perform set_config('afterturn.host', p_host::text, true), pg_advisory_xact_lock_shared(afterturn.log_lock());
    perform pg_advisory_xact_lock_shared(afterturn.lock_key('bank', p_bank));
    perform pg_advisory_xact_lock(afterturn.lock_key('new bank', p_bank));
    if (select b.active from agent_memory_bank_t b where b.host_id = p_host and b.bank_id = p_bank) then
        return 'known';
    end if;
    if afterturn.has_quota(p_host) then
        select q.* into v_quota from quota_t q where q.host_id = p_host and q.scope_id = p_host for no key update;
        v_over := (select 'over max_banks host ' || v_quota.max_banks || ' 0' where v_quota.banks >= v_quota.max_banks);
        if v_over is not null then
            return v_over;
        end if;
        update quota_t q set banks = q.banks + 1 where q.host_id = p_host and q.scope_id = p_host;
    end if;
    v_version := 1 + coalesce(afterturn.logged_version(p_host, p_event->>'subject'), 0);
    perform afterturn.append_events(p_host, jsonb_build_array(case when v_version = 1 then p_event else
        p_event || jsonb_build_object(
            'version', v_version, 'id', md5((p_event->>'id') || '@' || v_version)::uuid,
            'payload', p_event->'payload' || jsonb_build_object(
                'id', md5((p_event->>'id') || '@' || v_version)::uuid,
                'data', p_event->'payload'->'data' || jsonb_build_object(
                    'aggregateVersion', v_version - 1, 'newAggregateVersion', v_version))) end));
    return 'created';
end $$;

-- Counts anew what a host and its banks hold. The caller holds the quota's lock alone.
create or replace function afterturn.count_quota(p_host uuid, p_now timestamptz) returns void
language plpgsql set search_path to afterturn, public as $$
begin
    update quota_t q
       set turns = (select count(*) from turn_t t
                     where t.host_id = p_host and (q.bank_name is null or t.bank_id = q.scope_id)),
           bytes = (select coalesce(sum(octet_length(u.content)), 0) from agent_memory_unit_t u
                     where u.host_id = p_host and u.origin = 'message' and u.active
                       and (q.bank_name is null or u.bank_id = q.scope_id)),
           banks = (select count(*) from agent_memory_bank_t b where b.host_id = p_host and b.active
                       and q.bank_name is null),
           counted_at = p_now
     where q.host_id = p_host;
end $$;

-- Before a total is held against somebody it is counted anew, at most once a minute: what was erased is free again.
create or replace function afterturn.recount_quota(p_host uuid, p_now timestamptz) returns boolean
language plpgsql set search_path to afterturn, public as $$
begin
    perform set_config('afterturn.host', p_host::text, true);
    if (select max(q.counted_at) from quota_t q where q.host_id = p_host) > p_now - interval '1 minute' then
        return false;
    end if;
    perform pg_advisory_xact_lock(afterturn.lock_key('quota', p_host));
    perform afterturn.count_quota(p_host, p_now);
    return true;
end $$;

-- Sets all limits of a host (p_bank null) or of a bank; without any limit the quota is gone. The operator's alone.
-- WHY as the owner: the operator counts what is there and reads none of it.
create or replace function afterturn.set_quota(p_host uuid, p_scope uuid, p_bank text, p_limits jsonb, p_now timestamptz)
returns void language plpgsql security definer set search_path to afterturn, public, pg_temp as $$
begin
    perform pg_advisory_xact_lock(afterturn.lock_key('quota', p_host));
    if p_limits = '{}' then
        delete from quota_t q where q.host_id = p_host and q.scope_id = p_scope;
        return;
    end if;
    insert into quota_t as q (host_id, scope_id, bank_name, max_turns, max_bytes, max_banks, turns_per_minute)
    select p_host, p_scope, p_bank, l.* from jsonb_to_record(p_limits)
           as l(max_turns bigint, max_bytes bigint, max_banks bigint, turns_per_minute bigint)
    on conflict (host_id, scope_id) do update
       set (max_turns, max_bytes, max_banks, turns_per_minute)
         = row (excluded.max_turns, excluded.max_bytes, excluded.max_banks, excluded.turns_per_minute);
    perform afterturn.count_quota(p_host, p_now);
end $$;
revoke all on function afterturn.set_quota(uuid, uuid, text, jsonb, timestamptz) from public;
grant execute on function afterturn.set_quota(uuid, uuid, text, jsonb, timestamptz) to afterturn_operator;
