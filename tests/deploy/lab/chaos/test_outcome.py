"""How faults are planned, what they cost, and when a run does not hold."""

import random
from dataclasses import replace
from itertools import pairwise
from uuid import UUID, uuid4

from deploy.lab.chaos.counting import TurnOutcomes
from deploy.lab.chaos.deliveries import DeliveryCounts
from deploy.lab.chaos.faults import FAULTS, plan_faults
from deploy.lab.chaos.interrupted import FaultEpisode, LedgerKey
from deploy.lab.chaos.knowledge import TURNS_PER_DOCUMENT, PlannedDirective, PlannedDocument, plan_knowledge
from deploy.lab.chaos.outcome import LONGEST_RECOVERY_S, ChaosOutcome, FaultEffect, KnowledgeCounts
from deploy.lab.chaos.run import DRAIN_S
from deploy.lab.chaos.sabotage import Sabotage
from deploy.lab.chaos.tables import TableComparison
from deploy.lab.chaos.talk import index_by_words, make_conversations
from tests.tables import each_row

ROWS: tuple[LedgerKey, ...] = tuple(("embedding", uuid4()) for _ in range(3))
NO_HOST: frozenset[UUID] = frozenset()
TURN = frozenset({uuid4()})
HELD = ChaosOutcome(
    turns=3,
    unanswered=0,
    resent=4,
    endings=TurnOutcomes(frozenset(uuid4() for _ in range(3)), NO_HOST, NO_HOST, NO_HOST, NO_HOST, NO_HOST),
    dead_as={},
    twice={"facts": 0},
    extracted_out_of_order=0,
    deliveries=DeliveryCounts(0, 0, 0, 0, 0),
    felt=[
        FaultEffect("kill_api", "api", 1.0, 0.0, 2, 4.0, 5.0),
        FaultEffect("kill_worker", "worker-1", 2.0, 0.0, 0, None, None),
    ],
    tables=[TableComparison("facts", 2, 2, 0)],
    replay_equal=True,
    seconds=10.0,
    kept=KnowledgeCounts(documents=2, directives=2, knowledge_unanswered=0, documents_lost=0, directives_lost=0),
)


def test_every_kind_of_fault_is_in_every_round_and_the_seed_says_in_which_order() -> None:
    order = plan_faults(2, random.Random(7))
    assert order == plan_faults(2, random.Random(7)) != plan_faults(2, random.Random(8))
    half = len(order) // 2
    assert set(order[:half]) == set(order[half:]) == set(FAULTS)
    gateways = [kind.startswith("gateway") for kind in order]
    assert not any(one and following for one, following in pairwise(gateways))


def test_no_two_turns_are_alike_and_sessions_are_in_order() -> None:
    sessions = make_conversations(400, seed=3)
    assert len(index_by_words(sessions)) == 400
    assert all(turn.at < following.at for session in sessions for turn, following in pairwise(session))
    assert sessions == make_conversations(400, seed=3)


def test_recovery_is_from_the_end_of_a_fault_to_the_first_row_it_interrupted() -> None:
    episode = FaultEpisode("stop_worker", "worker-1", 100.0, 110.0, frozenset(ROWS))
    assert episode.recovery({ROWS[0]: 99.0, ROWS[1]: 113.0, ROWS[2]: 120.0}) == (3.0, 10.0)
    assert episode.recovery({ROWS[0]: 105.0, ROWS[1]: 108.0}) == (0.0, 0.0)
    assert episode.recovery({ROWS[0]: 99.0}) is None
    assert episode.recovery({("embedding", uuid4()): 111.0}) is None


def test_a_run_in_which_all_held_says_so_with_the_contracts_keys() -> None:
    shown = HELD.as_json()
    assert not HELD.failures
    assert list(shown)[:13] == [
        "accepted",
        "done",
        "dead",
        "lost",
        "applied_twice",
        "out_of_order",
        "gateway_sent_twice",
        "gateway_unknown",
        "recovery_p50_s",
        "recovery_p99_s",
        "tables_equal",
        "faults",
        "seconds",
    ]
    assert (shown["accepted"], shown["done"], shown["recovery_p99_s"]) == (3, 3, 4.0)
    assert shown["faults"] == {"kill_api": 1, "kill_worker": 1}
    assert "All of it held" in HELD.in_words()


def test_a_run_without_faults_needs_no_recovery() -> None:
    assert not replace(HELD, felt=[]).failures


def test_rows_that_never_end_are_waited_for_longer_than_a_recovery_may_take() -> None:
    assert DRAIN_S > LONGEST_RECOVERY_S


@each_row(
    "outcome, named",
    [
        (replace(HELD, unanswered=1), "unanswered is 1"),
        (replace(HELD, endings=replace(HELD.endings, lost=TURN)), "lost is 1"),
        (
            replace(HELD, endings=replace(HELD.endings, dead=TURN, strays=TURN), dead_as={"projection dead busy": 1}),
            "dead_elsewhere is 1 among the dead, projection dead busy: 1",
        ),
        (replace(HELD, twice={"facts": 2}), "applied_twice is 2"),
        (replace(HELD, extracted_out_of_order=1), "out_of_order is 1"),
        (replace(HELD, deliveries=DeliveryCounts(1, 0, 0, 0, 0)), "gateway_sent_twice is 1"),
        (replace(HELD, deliveries=DeliveryCounts(0, 1, 0, 0, 0)), "gateway_flushed_twice is 1"),
        (replace(HELD, deliveries=DeliveryCounts(0, 0, 1, 0, 0)), "out_of_order is 1"),
        (replace(HELD, deliveries=DeliveryCounts(0, 0, 0, 1, 0)), "gateway_foreign is 1"),
        (replace(HELD, deliveries=DeliveryCounts(0, 0, 0, 0, 1)), "gateway_untrue is 1"),
        (replace(HELD, tables=[TableComparison("facts", 2, 1, 1)]), "table facts differs in 1 rows"),
        (replace(HELD, sabotage=Sabotage.REORDER), "reorder was not seen in out_of_order"),
        (replace(HELD, kept=replace(HELD.kept, knowledge_unanswered=1)), "knowledge_unanswered is 1"),
        (replace(HELD, kept=replace(HELD.kept, documents_lost=1)), "documents_lost is 1"),
        (replace(HELD, kept=replace(HELD.kept, directives_lost=1)), "directives_lost is 1"),
        (replace(HELD, replay_equal=False), "the replayed log gives other tables"),
        (replace(HELD, felt=[replace(HELD.felt[0], recovery_s=61.0)]), "recovery_p99_s is 61.0"),
        (replace(HELD, felt=[HELD.felt[1]]), "recovery_samples is 0"),
        (replace(HELD, seconds=721.0), "seconds is 721.0"),
    ],
)
def test_each_figure_that_is_wrong_is_named(outcome: ChaosOutcome, named: str) -> None:
    assert outcome.failures == [named]
    assert named in outcome.in_words()


def test_a_drop_must_be_seen_in_turns_documents_and_directives() -> None:
    unseen = [f"drop was not seen in {name}" for name in ("lost", "documents_lost", "directives_lost")]
    assert replace(HELD, sabotage=Sabotage.DROP).failures == unseen


def test_documents_and_directives_are_spread_over_the_turns_and_over_all_banks() -> None:
    lanes = plan_knowledge(400, seed=3)
    assert lanes == plan_knowledge(400, seed=3)
    assert all(one.number <= following.number for lane in lanes for one, following in pairwise(lane))
    papers = [one for lane in lanes for one in lane if isinstance(one, PlannedDocument)]
    rules = [one for lane in lanes for one in lane if isinstance(one, PlannedDirective)]
    assert len({one.id for one in papers}) == len(papers) == len(rules) == 400 // TURNS_PER_DOCUMENT
    assert len({one.bank for one in papers}) == len({one.bank for one in rules}) == 3
    assert len({one.id for one in rules}) < len(rules)
    assert any(one.content is None for one in rules)


def test_a_turn_the_gateway_left_unknown_is_dead_and_nothing_that_does_not_hold() -> None:
    unknown = replace(HELD, endings=replace(HELD.endings, dead=TURN, unknown=TURN))
    assert not unknown.failures
    assert (unknown.as_json()["dead"], unknown.as_json()["gateway_unknown"]) == (1, 1)
