"""Fills banks by COPY with units, words and vectors, as the stages would have left them.

Texts are random pairs of sentences from the demo's conversation with a generated name, so that words have realistic
frequencies. A vector is the sum of its sentences' real vectors plus noise. There are no events and ledger rows:
workers find nothing to do, and only the removal of the host deletes the rows.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncEngine

from deploy.lab.demo.data import load_demo
from embeddings.protocol import Embedder
from store import identity
from store.text.message_terms import analyse_message
from store.text.word_rules import AUTO, rules_of
from store.vectors import register_codec

#: Units per transaction, and per session.
BATCH = 5_000
SESSION = 20
#: Every this many units, one states a fact.
FACT_EVERY = 50
#: Standard deviation of the noise per component; the components of unit vectors average 0.05.
NOISE = 0.02
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SPEAKERS = (("user", "Ana"), ("assistant", "Guide"))
SYLLABLES = ("ka", "lo", "mi", "ren", "dor", "vas", "tel", "un", "bri", "osh", "pe", "gan", "zu", "fil", "har", "eth")
#: Facts of users in turn, drawn from messages of the bank: first each user's name, then what they like, a minute after
#: each other.
PEOPLE = """
    with message as (
        select array_agg(unit_id order by unit_id) as ids from afterturn.agent_memory_unit_t
         where host_id = $1 and bank_id = $2 and origin = 'message'
    ), said as (
        select n, ($3::uuid[])[1 + n % cardinality($3::uuid[])] as person, n < cardinality($3::uuid[]) as is_name,
               gen_random_uuid() as unit, $6::timestamptz + n * interval '1 minute' as at,
               case when n < cardinality($3::uuid[]) then ($4::text[])[1 + n] else 'thing ' || n end as value
          from generate_series(0, $5::int - 1) n
    ), unit as (
        insert into afterturn.agent_memory_unit_t
               (host_id, bank_id, unit_id, content, event_date, fact_type, user_id, origin, turn_id, position, metadata,
                source_memory_ids, update_ts, update_user)
        select $1, $2, unit, case when is_name then 'The user''s name is ' else 'The user likes ' end || value || '.',
               at, 'world', person, 'extraction', unit, 1 + n,
               jsonb_build_object('fact_id', case when is_name then 'user_name' else 'user_like' end,
                                  'key', case when is_name then 'name' else value end, 'value', value,
                                  'tier', case when is_name then 'L0' else 'L2' end,
                                  'confidence', case when is_name then '0.95' else '0.85' end),
               m.ids[1 + n % cardinality(m.ids) : 1 + n % cardinality(m.ids)], at, 'bench'
          from said, message m
    )
    insert into afterturn.fact_t
           (host_id, bank_id, unit_id, subject, fact_id, key, value, position, valid_from, said, weight)
    select $1, $2, unit, person::text, case when is_name then 'user_name' else 'user_like' end,
           case when is_name then 'name' else lower(value) end, lower(value), 1 + n, at, 1 + n,
           case when is_name then 1.3 else 1.05 end
      from said"""

TABLES = (
    "agent_memory_unit_t",
    "agent_session_history_t",
    "fact_t",
    "unit_vector_t",
    "unit_word_t",
    "posting_t",
    "term_t",
    "bank_statistics_t",
)
COLUMNS = {
    "agent_memory_bank_t": ("host_id", "bank_id", "bank_name", "update_ts", "update_user"),
    "agent_memory_unit_t": (
        *("host_id", "bank_id", "unit_id", "content", "event_date", "fact_type", "user_id", "origin", "session_id"),
        *("turn_id", "session_name", "turn_name", "ordinal", "seq", "role", "name", "position", "update_ts"),
        "update_user",
    ),
    "unit_vector_t": ("host_id", "bank_id", "unit_id", "chunk", "generation", "embedding"),
    "agent_session_history_t": (
        *("host_id", "bank_id", "session_id", "session_name", "message_count", "turn_count", "last_position"),
        *("update_ts", "update_user"),
    ),
    "fact_t": ("host_id", "bank_id", "unit_id", "subject", "fact_id", "key", "value", "position", "valid_from", "said"),
    "unit_word_t": ("host_id", "bank_id", "unit_id", "session_id", "seq", "length", "terms"),
}
# Row-level security refuses COPY, so rows are copied into a temporary table and inserted from there.
STAGE = "create temporary table stage_of_{table} on commit drop as select {columns} from afterturn.{table} with no data"
INSERT = "insert into afterturn.{table} ({columns}) select {columns} from pg_temp.stage_of_{table}"
POST = "select carried from afterturn.post_words($1, $2, $3, false)"


@dataclass(frozen=True, slots=True)
class Phrases:
    """Sentences with their vectors, shape (n, d)."""

    texts: Sequence[str] = field(repr=False)
    vectors: NDArray[np.float32] = field(repr=False)
    generation: int

    @classmethod
    async def read(cls, embedder: Embedder) -> "Phrases":
        """Return the sentences of the demo's conversation with their vectors."""
        said = (message.content for turn in load_demo().turns for message in turn.messages)
        texts = list(dict.fromkeys(sentence for text in said for sentence in re.split(r"(?<=[.!?])\s+", text)))
        return cls(texts, await embedder.embed(texts), embedder.generation)


@dataclass(frozen=True, slots=True)
class BankFiller:
    """Fills the banks of one host; `engine` has the owner's rights."""

    engine: AsyncEngine
    host: UUID
    phrases: Phrases

    async def fill(self, bank: str, units: int) -> None:
        """Create a bank with this number of units; the same name gives the same units."""
        async with self.engine.connect() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            await register_codec(raw)
            bank_id = identity.bank_id(self.host, bank)
            async with raw.transaction():
                await _copy_rows(raw, "agent_memory_bank_t", [(self.host, bank_id, bank, BEGIN, "bench")])
            made = _GeneratedUnits(self.host, bank_id, self.phrases)
            for start in range(0, units, BATCH):
                async with raw.transaction():
                    await self._insert_batch(raw, made, range(start, min(start + BATCH, units)))

    async def fill_sessions(self, bank: str, units: int) -> None:
        """Create the sessions of a filled bank's units, and a current fact for one in FACT_EVERY units."""
        async with self.engine.connect() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            bank_id = identity.bank_id(self.host, bank)
            async with raw.transaction():
                sessions = [self._build_session(bank_id, n, units) for n in range(-(-units // SESSION))]
                await _copy_rows(raw, "agent_session_history_t", sessions)
                facts = [self._build_fact(bank_id, number) for number in range(0, units, FACT_EVERY)]
                await _copy_rows(raw, "fact_t", facts)

    def _build_session(self, bank: UUID, number: int, units: int) -> tuple[Any, ...]:
        name, last = f"s-{number}", min((number + 1) * SESSION, units)
        said = last - number * SESSION
        key = (self.host, bank, identity.session_id(bank, name))
        return (*key, name, said, said, last, BEGIN + timedelta(minutes=last), "bench")

    def _build_fact(self, bank: UUID, number: int) -> tuple[Any, ...]:
        turn = identity.turn_id(identity.session_id(bank, f"s-{number // SESSION}"), f"t-{number}")
        subject, at = SPEAKERS[number % 2][1].lower(), BEGIN + timedelta(minutes=number)
        value = self.phrases.texts[number % len(self.phrases.texts)]
        key = (self.host, bank, identity.unit_id(turn, 0))
        return (*key, subject, f"{subject}.like.{number}", "like", value, number + 1, at, 1)

    async def fill_people(self, bank: str, users: Sequence[str], facts: int) -> None:
        """Create current facts of a bank's users in turn, each beginning with the name that `name_person` gives."""
        arguments = (
            self.host,
            identity.bank_id(self.host, bank),
            [identity.user_id(self.host, user) for user in users],
            [name_person(nth) for nth in range(len(users))],
            facts,
            BEGIN,
        )
        async with self.engine.connect() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            await raw.execute(PEOPLE, *arguments)

    async def settle(self) -> None:
        """Vacuum and analyze the tables, as autovacuum would do later."""
        async with self.engine.connect() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            for table in TABLES:
                await raw.execute(f"vacuum (analyze) afterturn.{table}")

    async def _insert_batch(self, raw: Any, made: "_GeneratedUnits", numbers: range) -> None:
        rows = list(made.rows(numbers))
        for table, nth in (("agent_memory_unit_t", 0), ("unit_vector_t", 1), ("unit_word_t", 2)):
            await _copy_rows(raw, table, [row[nth] for row in rows])
        await raw.fetch(POST, self.host, made.bank, len(rows))


def name_person(number: int) -> str:
    """Return the name of a user with this number, in letters."""
    return "".join(SYLLABLES[int(digit)] for digit in f"{number:03}").capitalize()


async def _copy_rows(raw: Any, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    names = {"table": table, "columns": ", ".join(f'"{column}"' for column in COLUMNS[table])}
    await raw.execute(STAGE.format(**names))
    await raw.copy_records_to_table(f"stage_of_{table}", schema_name="pg_temp", columns=COLUMNS[table], records=rows)
    await raw.execute(INSERT.format(**names))


class _GeneratedUnits:
    """Generates the units of a bank, in order."""

    def __init__(self, host: UUID, bank: UUID, phrases: Phrases) -> None:
        self.bank = bank
        self._host, self._phrases = host, phrases
        self._user = identity.user_id(host, None)
        self._chance = random.Random(bank.int)  # noqa: S311 - a seed, not a secret
        self._noise = np.random.default_rng(bank.int)

    def rows(self, numbers: range) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]]:
        """Yield, for each number, the rows of its unit, vector and words."""
        for number in numbers:
            first, second = self._chance.choices(range(len(self._phrases.texts)), k=2)
            yield self._build_unit(number, f"{self._phrases.texts[first]} {self._phrases.texts[second]}", first, second)

    def _build_unit(
        self, number: int, said: str, first: int, second: int
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        session, turn, at = f"s-{number // SESSION}", f"t-{number}", BEGIN + timedelta(minutes=number)
        (role, name), seq = SPEAKERS[number % 2], number % SESSION
        session_id = identity.session_id(self.bank, session)
        turn_id = identity.turn_id(session_id, turn)
        unit_id = identity.unit_id(turn_id, 0)
        key = (self._host, self.bank, unit_id)
        content = f"{said} ({self._choose_name()})"
        terms = analyse_message(name, at, content, rules_of(AUTO))
        unit = (*key, content, at, "experience", self._user, "message", session_id, turn_id, session, turn, 0, seq)
        return (
            (*unit, role, name, number + 1, at, "bench"),
            (*key, 0, self._phrases.generation, self._mix_vectors(first, second)),
            (*key, session_id, seq, terms.length, orjson.dumps(terms.counts).decode()),
        )

    def _choose_name(self) -> str:
        """Return a generated name; a few names are frequent, most are rare."""
        nth = int(self._chance.paretovariate(0.6)) % len(SYLLABLES) ** 4
        return "".join(SYLLABLES[nth // len(SYLLABLES) ** place % len(SYLLABLES)] for place in range(4)).title()

    def _mix_vectors(self, first: int, second: int) -> NDArray[np.float32]:
        vectors = self._phrases.vectors
        noise = self._noise.standard_normal(vectors.shape[1], dtype=np.float32) * NOISE
        mixed = vectors[first] + vectors[second] + noise
        return np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float32)
