"""Faults of the workers and the models, by the laws they break."""

from tests.laws.mutant import Mutant

FAULTS = (
    Mutant(
        law="L1",
        fault="the sweeper notifies of nothing",
        file="workers/sweeper.py",
        before="        for stage in stages:\n            NOTIFICATIONS",
        after="        for stage in stages[:0]:\n            NOTIFICATIONS",
        held_by="tests/workers/test_sweeper.py",
        tests=("test_lost_notifications_are_made_good",),
    ),
    Mutant(
        law="L9",
        fault="a turn whose worker died while adding is added again",
        file="workers/gateway.py",
        before='            return await self._finish(claim, row, machine.unknown_add(session, "unknown"))\n',
        after="            return await self._begin(claim, row)\n",
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
        before="self.database.tenant(host, SET_TENANT_NO_SYNC) as connection:\n"
        "            await insert_vectors(connection,",
        after="self.database.tenant(host) as connection:\n"
        "            vectors = await self.embedder.embed([unit.content for unit in units]) if units else vectors\n"
        "            await insert_vectors(connection,",
        held_by="tests/workers/test_runner.py",
        tests=("test_slow_work_holds_no_connection",),
    ),
    Mutant(
        law="L8",
        fault="a turn can close the frame in which a model reads it",
        file="workers/extraction/llm/request.py",
        before="{escaped(body)}",
        after="{escaped(body).replace(chr(92) + 'u003c', '<').replace(chr(92) + 'u003e', '>')}",
        held_by="tests/workers/extraction/test_llm_answer.py",
        tests=("test_the_turn_goes_as_data_that_cannot_close_its_frame",),
    ),
    Mutant(
        law="L7",
        fault="a model's service may send text and key on to anybody",
        file="embeddings/endpoint.py",
        before="            if target is None:\n",
        after="            target = target or response.headers['location']\n            if target is None:\n",
        held_by="tests/embeddings/test_endpoint.py",
        tests=("test_a_redirect_to_another_origin_is_not_followed",),
    ),
    Mutant(
        law="L9",
        fault="an add that got no answer in time is taken for one that never left",
        file="workers/gateway_machine.py",
        before="        return unknown_add(session, error.category)\n",
        after='        return Ending("add_failed", Event.ADD_FAILED, where, error.category, "no answer")\n',
        held_by="tests/workers/test_gateway_gate.py",
        tests=("test_an_unknown_outcome_while_looking_is_not_repeated",),
    ),
    Mutant(
        law="L9",
        fault="a flush whose worker died is made again",
        file="workers/gateway.py",
        before='        if row.status == "flushing":\n',
        after='        if row.status == "flushing" and to is None:\n',
        held_by="tests/workers/test_gateway_machine.py",
        tests=("test_whatever_happens_to_workers_and_gateway_a_delivery_is_made_once_at_most_and_told_as_it_was",),
    ),
    Mutant(
        law="L9",
        fault="a delivery under way is sent to the target that took the place of its own",
        file="store/sql/gateway_deliveries.sql",
        before="g on g.host_id = p_host and g.target_id = l.target_id\n",
        after="g on g.host_id = p_host and g.replaced_at is null\n",
        held_by="tests/workers/test_gateway_targets.py",
        tests=("test_what_was_accepted_for_a_target_goes_to_it_though_another_took_its_place",),
    ),
    Mutant(
        law="L6",
        fault="a gateway's user is given to a second tenant",
        file="store/tenancy/gateway_targets.py",
        before="    if same is not None and (same.host_id, same.bank_id) != place:\n",
        after="    same = same if same is not None and (same.host_id, same.bank_id) == place else None\n"
        "    named |= {} if same is not None else {'app': str(uuid4())}\n    if same == place:\n",
        held_by="tests/workers/test_gateway_targets.py",
        tests=("test_a_user_of_a_gateway_belongs_to_one_tenant_or_bank_for_good",),
    ),
    Mutant(
        law="L7",
        fault="a target shows its key when it is printed",
        file="producers/service/gateway_clients.py",
        before="    user_key: str = field(repr=False)\n",
        after="    user_key: str = field()\n",
        held_by="tests/workers/test_gateway_targets.py",
        tests=("test_a_key_stands_in_no_log_repr_exception_audit_or_table",),
    ),
)
