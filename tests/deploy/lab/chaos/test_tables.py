"""What a chaos run compares: every table that is made of the log, or it is said why not."""

import re
from pathlib import Path

import store
from deploy.lab.chaos.tables import COMPARED

PAGE = (Path(store.__file__).parent / "SCHEMA.md").read_text(encoding="utf-8")
MADE_OF_THE_LOG = set(re.findall(r"^\| (\w+) \| (?:log|pipeline) \|", PAGE, re.MULTILINE))
NOT_COMPARED = {
    "event_store_t": "positions and versions follow who came first; the tables a replay makes of it are compared",
    "unit_word_t": "words on their way to posting_t, where they are compared",
    "bank_language_t": "only where somebody chose another language, which no run does",
    "fact_v": "a view of fact_t and agent_memory_unit_t, which are compared",
    "forgotten_unit_t": "to do, and nothing is forgotten in a run",
    "session_digest_t": "its messages are compared; how far it has read them depends on when batches ended",
    "stale_entity_t": "to do: what comes of it stands in entity_profile_t, which is compared",
    "subscription_t": "how far a reader has come: positions",
}


def test_every_table_that_is_made_of_the_log_is_compared_or_it_is_said_why_not() -> None:
    compared = {name for query in COMPARED.values() for name in re.findall(r"\bafterturn\.(\w+)", query)}
    assert MADE_OF_THE_LOG - compared == set(NOT_COMPARED)
