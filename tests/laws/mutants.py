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
)
