-- On whose authority a call writes, judged where it writes: after the locks that an erasure takes alone, so that a write either
-- is in the log before the erasure reads it, or sees the erasure's mark (its row in erasure_t).

-- What has become of a call's authority: null while it holds, `revoked` for a key that is not there, revoked or expired,
-- `erased` where one of p_about (user, session, bank) was erased since the call began, or the call's own user since its token
-- was made. p_call null: the service's own work, which is not judged.
create or replace function afterturn.judge_call(p_host uuid, p_call afterturn.call_authority, p_about uuid[]) returns text
language plpgsql set search_path to afterturn, public as $$
begin
    if p_call is null then
        return null;
    end if;
    if p_call.key_id is not null and (
        select true from api_key_t k where k.host_id = p_host and k.key_id = p_call.key_id and k.revoked_at is null
           and coalesce(k.expires_at > clock_timestamp(), true)) is null then
        return 'revoked';
    end if;
    if (select true from erasure_t e
         where e.host_id = p_host and e.target_id = any (p_about || p_call.user_id) and e.kind in ('user', 'session', 'bank', 'document', 'memory')
           and e.requested_at > case when e.target_id = p_call.user_id then least(p_call.issued_at, p_call.began_at)
                                     else p_call.began_at end limit 1) then
        return 'erased';
    end if;
    return null;
end $$;

-- The same for the authority that the transaction names (afterturn.authority), and refused: ZA010 revoked, ZA011 erased.
create or replace function afterturn.require_call(p_host uuid, p_about uuid[]) returns void
language plpgsql as $$
declare
    v_call afterturn.call_authority := nullif(current_setting('afterturn.authority', true), '')::afterturn.call_authority;
    v_judged text := afterturn.judge_call(p_host, v_call, p_about);
begin
    if v_judged is not null then
        raise exception using errcode = case v_judged when 'revoked' then 'ZA010' else 'ZA011' end, message = v_judged;
    end if;
end $$;

-- The same for what a call keeps beside the log, under the locks that a writer of these banks holds.
create or replace function afterturn.admit_call(p_host uuid, p_banks uuid[], p_about uuid[]) returns void
language plpgsql as $$
begin
    perform afterturn.enter_log(p_host);
    perform pg_advisory_xact_lock_shared(k.key)
       from (select distinct afterturn.lock_key('bank', b) as key from unnest(p_banks) b order by 1) k;
    perform afterturn.require_call(p_host, p_banks || p_about);
end $$;

-- Judges the authority of each of these turns under the locks that erasures take alone, taken in the order of append_turns.
-- Null: all of them hold. Otherwise the outcome of each turn: `revoked`, `erased`, or `held` for those to be offered again,
-- without these or (without p_wait) when another writer no longer holds the bank.
create or replace function afterturn.judge_turns(
    p_host uuid, p_turns afterturn.offered_turn[], p_calls afterturn.call_authority[], p_wait boolean)
returns text[] language plpgsql as $$
declare
    v_judged text[] := '{}';
    v_key bigint;
    v_done boolean;
begin
    v_done := set_config('afterturn.host', p_host::text, true) is null
           or afterturn.enter_log() is null
           or pg_advisory_xact_lock_shared(afterturn.lock_key('quota', p_host)) is null;
    if p_wait then
        foreach v_key in array array(
            select distinct afterturn.lock_key('bank', w.bank) as k from unnest(p_turns) as w order by k) loop
            v_done := pg_advisory_xact_lock_shared(v_key) is null;
        end loop;
    end if;
    for t in 1..cardinality(p_turns) loop
        if not p_wait and not pg_try_advisory_xact_lock_shared(afterturn.lock_key('bank', p_turns[t].bank)) then
            v_judged[t] := 'held';
        else
            -- The first event makes the bank, where the turn brings that, and names the bank's owner.
            v_judged[t] := afterturn.judge_call(
                p_host, p_calls[t], array[p_turns[t]."user", p_turns[t].session, p_turns[t].bank,
                                          (((p_turns[t].events)[1]).data->>'userId')::uuid]);
        end if;
    end loop;
    if array_remove(v_judged, null) = '{}' then
        return null;
    end if;
    return array(select coalesce(j.judged, 'held') from unnest(v_judged) with ordinality as j(judged, nth) order by j.nth);
end $$;
