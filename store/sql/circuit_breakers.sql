-- Circuit breaker and rate limit of an external service: whether a call may start, or how long it waits. One row a
-- service, on the database's clock, shared by all workers and interfaces. Losing the last moment of it in a crash costs
-- one call too many, so no commit waits for the disk.

-- Asks to call. An open breaker, or a pause that the service asked for, refuses; after that, one caller at a time
-- probes until a call succeeds. Then the token bucket: a token that is not there yet is lent for at most p_patience_s,
-- and the caller waits that long before it calls.
create or replace function afterturn.gate_enter(p_gate text, p_threshold int, p_cooldown_s float8, p_rate float8,
                                                p_burst float8, p_patience_s float8)
returns table (granted boolean, wait_s float8, probing boolean, failures int)
language plpgsql as $$
#variable_conflict use_column
declare
    g public.afterturn_gate;
    v_now timestamptz;
    v_tokens float8;
begin
    perform set_config('synchronous_commit', 'off', true);
    insert into public.afterturn_gate (gate) values (p_gate) on conflict do nothing;
    select * into g from public.afterturn_gate t where t.gate = p_gate for no key update;
    v_now := clock_timestamp();
    if g.shut_until > v_now then
        return query select false, extract(epoch from g.shut_until - v_now)::float8, false, g.failures;
        return;
    end if;
    v_tokens := coalesce(g.tokens, p_burst);
    if p_rate > 0 then
        v_tokens := least(p_burst, v_tokens + extract(epoch from v_now - g.filled_at)::float8 * p_rate);
        if (1 - v_tokens) / p_rate > p_patience_s then
            return query select false, (1 - v_tokens) / p_rate, false, g.failures;
            return;
        end if;
        v_tokens := v_tokens - 1;
    end if;
    update public.afterturn_gate t
       set tokens = v_tokens, filled_at = v_now,
           shut_until = case when g.failures >= p_threshold then v_now + make_interval(secs => p_cooldown_s)
                             else t.shut_until end
     where t.gate = p_gate;
    return query select true, case when p_rate > 0 then greatest(0, -v_tokens / p_rate) else 0 end,
                        g.failures >= p_threshold, g.failures;
end $$;

-- Records the outcome of a call: a failure (p_well false) counts towards the threshold, which opens the breaker for
-- p_cooldown_s; a success closes it. p_pause_s: the service is reachable and asked for this pause.
create or replace function afterturn.gate_report(p_gate text, p_threshold int, p_cooldown_s float8, p_well boolean,
                                                 p_pause_s float8)
returns table (wait_s float8, failures int)
language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz;
begin
    perform set_config('synchronous_commit', 'off', true);
    insert into public.afterturn_gate (gate) values (p_gate) on conflict do nothing;
    perform from public.afterturn_gate t where t.gate = p_gate for no key update;
    v_now := clock_timestamp();
    return query
    update public.afterturn_gate t
       set failures = case when p_well then 0 else t.failures + 1 end,
           shut_until = case when p_pause_s > 0 then greatest(t.shut_until, v_now + make_interval(secs => p_pause_s))
                             when not p_well and t.failures + 1 >= p_threshold
                                 then v_now + make_interval(secs => p_cooldown_s)
                             when p_well and t.failures >= p_threshold then v_now
                             else t.shut_until end
     where t.gate = p_gate
    returning greatest(0, extract(epoch from t.shut_until - v_now))::float8, t.failures;
end $$;

-- Delays rows and releases their claim: nothing was tried, so no attempt is counted. With a gateway target, a bounded
-- number of other ready rows of that target are delayed as long: a claim of them would be in vain.
-- False: another worker has the claim, and nothing was written.
create or replace function afterturn.put_off(p_host uuid, p_stage text, p_stream uuid, p_epoch bigint, p_items uuid[],
                                             p_status text, p_retry_in interval, p_target uuid default null)
returns boolean
language plpgsql as $$
begin
    perform set_config('afterturn.host', p_host::text, true);
    if afterturn.drop_claims(p_host, p_stage, array[p_stream], array[p_epoch]) = '{}' then
        return false;
    end if;
    update afterturn.ledger_t l
       set status = p_status, attempts = greatest(0, l.attempts - 1), next_attempt_at = now() + p_retry_in, updated_at = now()
     where l.host_id = p_host and l.stage = p_stage and l.item_id = any (p_items);
    if p_target is not null then
        update afterturn.ledger_t l set next_attempt_at = now() + p_retry_in
          from (select w.item_id from afterturn.ledger_t w
                 where w.host_id = p_host and w.target_id = p_target and w.undone and w.stage = p_stage
                   and w.status = 'pending' and w.next_attempt_at <= now()
                 order by w.position limit 500 for update skip locked) o
         where l.host_id = p_host and l.stage = p_stage and l.item_id = o.item_id;
    end if;
    return true;
end $$;
