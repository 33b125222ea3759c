"""Faults of the workers and the models, by the laws they break."""

from tests.laws.mutant import Mutant

FAULTS = (
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
        before="self.database.tenant(host, SET_TENANT_NO_SYNC) as connection:\n            await insert(connection,",
        after="self.database.tenant(host) as connection:\n"
        "            vectors = await self.embedder.embed([unit.content for unit in units]) if units else vectors\n"
        "            await insert(connection,",
        held_by="tests/workers/test_runner.py",
        tests=("test_slow_work_holds_no_connection",),
    ),
    Mutant(
        law="L8",
        fault="a turn can close the frame in which a model reads it",
        file="workers/extraction/llm_request.py",
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
        before='        if row.status == "flushing" or self.client is None',
        after="        if self.client is None",
        held_by="tests/workers/test_delivery_machine.py",
        tests=("test_whatever_happens_to_workers_and_gateway_a_delivery_is_made_once_at_most_and_told_as_it_was",),
    ),
)
