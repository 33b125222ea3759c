"""One small fault of our own code for each law, and the tests that must turn red when it is planted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: in `file`, `before` (found exactly once) becomes `after`; then each of `tests` in `held_by` fails."""

    law: str
    fault: str
    file: str
    before: str
    after: str
    held_by: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        law="L1",
        fault="an accepted turn opens no work for extraction",
        file="store/functions/20_append.sql",
        before="                           ('extraction', t.session, 'pending', now()),\n",
        after="",
        held_by="tests/store/test_turns.py",
        tests=("test_an_accepted_turn_is_in_the_log_in_the_projections_and_in_the_ledger",),
    ),
    Mutant(
        law="L2",
        fault="a claim is given back whatever its epoch",
        file="store/functions/30_ledger.sql",
        before=" and c.epoch = p_epoch;\n",
        after=";\n",
        held_by="tests/store/test_ledger.py",
        tests=(
            "test_a_late_finisher_changes_nothing",
            "test_the_result_of_a_late_finisher_is_rolled_back_with_its_claim",
        ),
    ),
    Mutant(
        law="L2",
        fault="a turn that is known is accepted again",
        file="store/functions/20_append.sql",
        before="g.turn_id = t.turn) is null;\n",
        after="g.turn_id <> t.turn) is null;\n",
        held_by="tests/store/test_turns.py",
        tests=("test_the_same_turn_again_changes_nothing_and_answers_with_the_first_position",),
    ),
    Mutant(
        law="L3",
        fault="writers of a session do not wait for each other",
        file="store/functions/20_append.sql",
        before="    perform pg_advisory_xact_lock(k.key)\n",
        after="    perform pg_advisory_xact_lock_shared(k.key)\n",
        held_by="tests/store/test_turns.py",
        tests=("test_writers_that_meet_in_a_session_leave_it_numbered_without_gaps_in_order_of_position",),
    ),
    Mutant(
        law="L6",
        fault="the wall stands open",
        file="store/migrations/versions/0001_first_light.sql",
        before="                       'using (host_id = afterturn.current_host()) '\n",
        after="                       'using (true) '\n",
        held_by="tests/store/test_walls.py",
        tests=("test_a_tenant_sees_its_own_rows_of_every_table_and_no_others",),
    ),
    Mutant(
        law="L7",
        fault="an accident is told in its own words",
        file="producers/http/door.py",
        before="            self._error = type(error).__name__\n",
        after="            self._error = repr(error)\n",
        held_by="tests/producers/test_api_errors.py",
        tests=("test_an_accident_tells_its_kind_and_nothing_else",),
    ),
    Mutant(
        law="L7",
        fault="the door's log tells the path that was asked for",
        file="producers/http/door.py",
        before='        told = {"method": method, "route": route,',
        after='        told = {"method": method, "route": self._scope["path"],',
        held_by="tests/producers/test_leaks.py",
        tests=("test_no_value_of_a_caller_reaches_log_metrics_or_redis",),
    ),
    Mutant(
        law="L8",
        fault="recalled text is kept as if somebody had said it",
        file="producers/turns.py",
        before="        return Content(strip(storable(value)))\n",
        after="        return Content(storable(value))\n",
        held_by="tests/producers/test_turn_rules.py",
        tests=(
            "test_recalled_text_is_taken_out_before_a_turn_is_kept",
            "test_a_turn_that_is_nothing_but_an_echo_is_refused",
        ),
    ),
    Mutant(
        law="L8",
        fault="stored text can close its frame",
        file="producers/client/afterturn_client/reference.py",
        before='for sign in "<>&\\u2028\\u2029"})',
        after='for sign in "&\\u2028\\u2029"})',
        held_by="tests/producers/test_framing.py",
        tests=("test_no_stored_text_can_close_its_frame",),
    ),
    Mutant(
        law="L6",
        fault="a key's banks are not looked at",
        file="producers/banks.py",
        before="    if not (grant.allows(bank) or (",
        after="    if grant.banks == frozenset() and not (grant.allows(bank) or (",
        held_by="tests/producers/test_tenant_walls.py",
        tests=("test_a_scoped_key_reaches_its_banks_and_no_other",),
    ),
    Mutant(
        law="L6",
        fault="a name reaches whatever bank is called so",
        file="producers/banks.py",
        before="    return fitting(await banks.resolve(grant.host_id, space, bank))\n",
        after="    return fitting(bank)\n",
        held_by="tests/deploy/walls/test_siege.py",
        tests=("test_nothing_foreign_is_seen_nor_told_from_what_is_absent",),
    ),
    Mutant(
        law="L6",
        fault="the banks of other users are not hidden",
        file="store/migrations/versions/0003_scopes_and_quotas.sql",
        before="using ((user_id is null or ",
        after="using ((true or ",
        held_by="tests/producers/test_scopes.py",
        tests=("test_a_bank_of_another_user_looks_like_one_that_is_not_there",),
    ),
    Mutant(
        law="L6",
        fault="a key of one user may write as another",
        file="producers/banks.py",
        before="    if grant.user is not None and user not in (None, grant.user):\n",
        after="    if grant.user == user == '':\n",
        held_by="tests/producers/test_scopes.py",
        tests=("test_a_key_of_a_user_writes_as_that_user_alone",),
    ),
    Mutant(
        law="L2",
        fault="a message that is added again is another turn",
        file="producers/gateway.py",
        before="        turn_id=_digest(body, message),\n",
        after="        turn_id=str(id(message)),\n",
        held_by="tests/producers/test_gateway_door.py",
        tests=("test_the_same_message_twice_is_one_message",),
    ),
    Mutant(
        law="L4",
        fault="a read pretends that it shows the position it was told to",
        file="producers/recalls.py",
        before="            met = await self._waiter.shown(host, body.min_position, body.wait_ms)\n",
        after="            await self._waiter.shown(host, body.min_position, body.wait_ms)\n",
        held_by="tests/producers/test_api_recall.py",
        tests=("test_a_read_that_cannot_show_a_position_waits_and_says_so",),
    ),
    Mutant(
        law="L1",
        fault="a ring whose flag is down is not enqueued again",
        file="producers/doorbell.py",
        before="        with suppress(*FAULTS):\n            self._broker.client.delete(",
        after="        with suppress(*FAULTS):\n            self._broker.client.exists(",
        held_by="tests/producers/test_doorbell.py",
        tests=("test_whoever_commits_before_the_flag_falls_is_seen_or_rings_anew",),
    ),
    Mutant(
        law="L4",
        fault="what has no vector is not read with the question",
        file="store/recall/recaller.py",
        before="        unknown = [fresh for fresh in prepared.tail if fresh.unit_id not in known]\n",
        after="        unknown = prepared.tail[:0]\n",
        held_by="tests/store/recall/test_recaller.py",
        tests=(
            "test_a_turn_is_found_by_its_meaning_before_any_worker_saw_it",
            "test_the_newest_message_of_the_own_session_is_read_whatever_the_time",
        ),
    ),
    Mutant(
        law="L4",
        fault="a word is not known before it was counted",
        file="store/recall/preparation.py",
        before="                                         limit 5000) p) end as df) f\n",
        after="                                         limit 0) p) end as df) f\n",
        held_by="tests/store/recall/test_recaller.py",
        tests=("test_a_turn_is_found_by_its_word_as_soon_as_it_is_acknowledged",),
    ),
    Mutant(
        law="L10",
        fault="a transaction is open while the model works",
        file="store/recall/recaller.py",
        before="        vector, tail = await self._embed(question, prepared)\n",
        after="        async with self._database.tenant(host):\n"
        "            vector, tail = await self._embed(question, prepared)\n",
        held_by="tests/store/recall/test_recaller.py",
        tests=("test_no_transaction_is_open_while_the_model_works",),
    ),
    Mutant(
        law="L8",
        fault="the agent puts recalled text into a system role",
        file="producers/client/afterturn_client/prompt.py",
        before='[{"role": "user", "content": reference}]\n',
        after='[{"role": "system", "content": reference}]\n',
        held_by="tests/client/hybrid/test_run.py",
        tests=(
            "test_messages_stand_in_the_order_system_skills_reference_history_current",
            "test_recalled_text_is_outside_the_system_prompt_and_before_the_current_prompt",
        ),
    ),
    Mutant(
        law="L8",
        fault="the agent keeps a frame that was echoed as something said",
        file="producers/client/afterturn_client/layers.py",
        before="    prompt, answer = strip(turn.prompt), strip(turn.answer)\n",
        after="    prompt, answer = turn.prompt, turn.answer\n",
        held_by="tests/client/hybrid/test_run.py",
        tests=("test_a_frame_that_was_pasted_or_echoed_is_not_stored_again",),
    ),
    Mutant(
        law="L7",
        fault="an error about the agent's configuration shows the value",
        file="producers/client/afterturn_client/settings.py",
        before='        _refuse("topK", "must be an integer from 1 to 100")\n',
        after='        _refuse("topK", f"must be an integer from 1 to 100, not {value}")\n',
        held_by="tests/client/hybrid/test_leaks.py",
        tests=("test_no_error_or_warning_of_loading_shows_the_key",),
    ),
    Mutant(
        law="L1",
        fault="the sweeper rings for nothing",
        file="workers/sweeper.py",
        before="        for stage in stages:\n            RINGS",
        after="        for stage in stages[:0]:\n            RINGS",
        held_by="tests/workers/test_sweeper.py",
        tests=("test_lost_nudges_are_made_good",),
    ),
    Mutant(
        law="L3",
        fault="a session's turns overtake its head that waits",
        file="store/ledger.py",
        before='            "ordered": stage in ORDERED,\n',
        after='            "ordered": False,\n',
        held_by="tests/workers/test_gateway.py",
        tests=("test_what_was_never_sent_is_tried_again_in_its_place",),
    ),
    Mutant(
        law="L9",
        fault="a turn whose worker died while adding is added again",
        file="workers/gateway.py",
        before='            return await self._finish(claim, row, machine.unknown_add(session, "unknown"))\n',
        after="            return await self._begin(claim, row, self.client)\n",
        held_by="tests/workers/test_gateway.py",
        tests=("test_a_turn_whose_worker_died_while_adding_is_unknown_and_not_sent_again",),
    ),
    Mutant(
        law="L9",
        fault="an add whose outcome nobody knows is tried again",
        file="workers/gateway_machine.py",
        before="        return unknown_add(session, error.category)\n",
        after='        return Ending("add_failed", Event.ADD_FAILED, where, error.category, "again", back="pending")\n',
        held_by="tests/workers/test_gateway.py",
        tests=(
            "test_an_add_whose_outcome_nobody_knows_is_never_repeated",
            "test_a_connection_cut_after_the_request_left_is_unknown_too",
        ),
    ),
    Mutant(
        law="L10",
        fault="a batch is embedded inside the transaction that writes its vectors",
        file="workers/embedding.py",
        before="        vectors = await self.embedder.embed([unit.content for unit in units]) if units else None\n"
        "        outcomes = [Outcome(row.item_id) for claim in claims for row in claim.rows]\n"
        "        async with self.database.tenant(host) as connection:\n",
        after="        outcomes = [Outcome(row.item_id) for claim in claims for row in claim.rows]\n"
        "        async with self.database.tenant(host) as connection:\n"
        "            vectors = await self.embedder.embed([unit.content for unit in units]) if units else None\n",
        held_by="tests/workers/test_runner.py",
        tests=("test_slow_work_holds_no_connection",),
    ),
)
