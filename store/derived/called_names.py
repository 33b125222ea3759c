"""Resolves a name to a speaker of a bank, by address ("Hey Kate") or introduction ("I'm Kate").

Messages keep marks of such names beside their words (`store/text/rules/called_names.py`); here the marks are counted.
So an erased, forgotten or ended message no longer counts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Integer, Select, Text, any_, bindparam, exists, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.driver_rows import fetch_rows
from store.schema import POSTING, UNIT_WORD
from store.tenancy.languages import choose_rules, read_languages
from store.text.rules.called_names import ADDRESSED, OWN
from store.text.terms import question_terms, split_words

#: How often a speaker must be addressed by a name before it is an alias; one introduction counts as much.
LEAST = 3
#: How many times more often a speaker must be called so than all other speakers together.
TIMES = 5
#: The most messages that are counted for a mark, and the most in which the name is looked for as an ordinary word:
#: each that many of the word index, and that many that wait for it.
VOTES, TEXTS = 32, 64
#: Characters of a text that are searched for the word.
CHARACTERS = 4096
#: Banks in which one name is looked up.
BANKS = 64
#: The newest turns that decide whether a bank has a single user.
TURNS = 200
#: Messages before and after an address whose speakers may be addressed.
AROUND = 8

# The addressed speaker is the only other one nearby; with more than two speakers none is. A speaker without a name
# is identified by the role, `user` only if the bank's newest turns are of one user. A word in lower case is no name.
CALLED = text("""
    with alone as materialized (
        select count(distinct x.user_id) = 1 as is_so
          from (select t.user_id from afterturn.turn_t t
                 where t.host_id = :host and t.bank_id = :bank order by t.position desc limit :turns) x
    ), told as materialized (
        select n.name, n.own, u.speaker, u.session_id, u.seq
          from unnest(cast(:marks as text[]), cast(:names as text[]), cast(:owns as bool[])) n(mark, name, own),
               lateral (
               (select p.unit_id from afterturn.posting_t p
                 where p.host_id = :host and p.bank_id = :bank and p.term = n.mark limit :votes)
                union all
               (select w.unit_id from afterturn.unit_word_t w
                 where w.host_id = :host and w.bank_id = :bank and not w.posted and w.terms ? n.mark
                 limit :votes)) h,
               lateral (select coalesce(u.name, u.role) as speaker, u.session_id, u.seq
                          from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.unit_id = h.unit_id and u.active
                           and u.seq is not null and (u.expires_at is null or u.expires_at > :now) limit 1) u
    ), meant as (
        select t.name, t.own, case when t.own then t.speaker else o.only end as speaker
          from told t
          left join lateral (
               select min(m.speaker) as only
                 from (select coalesce(m.name, m.role) as speaker from afterturn.agent_memory_unit_t m
                        where not t.own and m.host_id = :host and m.bank_id = :bank and m.session_id = t.session_id
                          and m.seq between t.seq - :around and t.seq + :around and m.active
                          and (m.name is not null or m.role in ('user', 'assistant'))) m
                where m.speaker <> t.speaker
               having count(distinct m.speaker) = 1) o on true
    ), small as (
        select distinct c.name
          from unnest(cast(:words as text[]), cast(:named as text[])) c(word, name),
               lateral (
               (select p.unit_id from afterturn.posting_t p
                 where p.host_id = :host and p.bank_id = :bank and p.term = c.word limit :texts)
                union all
               (select w.unit_id from afterturn.unit_word_t w
                 where w.host_id = :host and w.bank_id = :bank and not w.posted and w.terms ? c.word
                 limit :texts)) h,
               lateral (select left(u.content, :characters) as content from afterturn.agent_memory_unit_t u
                         where u.host_id = :host and u.bank_id = :bank and u.unit_id = h.unit_id and u.active
                           and u.seq is not null limit 1) u
         where strpos(u.content, c.name) > 0 and u.content ~ ('\\m' || c.name || '\\M')
    )
    select m.name, m.speaker, m.own, count(*) as times
      from meant m
     where m.speaker is not null and m.name not in (select s.name from small s)
       and (m.speaker <> 'user' or (select a.is_so from alone a))
     group by 1, 2, 3""")
_MARKS = bindparam("marks", type_=ARRAY(Text))


@cache
def _select_holders(banks: Select[UUID, str]) -> Select[UUID]:
    """Return the query of the banks in which a speaker is called by a name."""
    seen = banks.cte("banks").prefix_with("materialized")
    posting, word = POSTING.alias("p"), UNIT_WORD.alias("w")
    posted = exists().where(
        posting.c.host_id == bindparam("host"),
        posting.c.bank_id == seen.c.bank_id,
        posting.c.term == any_(_MARKS),
    )
    waiting = exists().where(
        word.c.host_id == bindparam("host"),
        word.c.bank_id == seen.c.bank_id,
        ~word.c.posted,
        word.c.terms.has_any(_MARKS),
    )
    return select(seen.c.bank_id).where(or_(posted, waiting)).limit(bindparam("most", type_=Integer))


@dataclass(frozen=True, slots=True)
class CalledName:
    """How often a speaker is called by a name: addressed by another, or by own account."""

    name: str = field(repr=False)
    speaker: str = field(repr=False)
    own: bool
    times: int


async def read_aliases(
    connection: AsyncConnection, host: UUID, bank: UUID, names: Mapping[str, Iterable[str]], now: datetime | None
) -> Mapping[str, str]:
    """Return the speaker that each of these folded names means, for names that the speaker's own does not contain.

    `names` come with their index terms in the bank: a name that stands in lower case anywhere in the texts that are
    searched is an ordinary word. Messages that ended by `now` do not count.
    """
    if not names:
        return {}
    marks = [(mark + name, name, mark == OWN) for name in names for mark in (ADDRESSED, OWN)]
    words = [(word, name) for name, terms in names.items() for word in terms]
    arguments = {
        "marks": [mark for mark, _, _ in marks],
        "names": [name for _, name, _ in marks],
        "owns": [own for _, _, own in marks],
        "words": [word for word, _ in words],
        "named": [name for _, name in words],
        "votes": VOTES,
        "texts": TEXTS,
        "characters": CHARACTERS,
        "around": AROUND,
        "turns": TURNS,
        "now": now,
    }
    rows = await fetch_rows(connection, CALLED, {"host": host, "bank": bank, **arguments})
    return choose_speakers([CalledName(*row) for row in rows])


async def find_called(
    connection: AsyncConnection, banks: Select[UUID, str], asked: Mapping[str, Any], name: str
) -> set[str]:
    """Return the speakers who are called by a name in these banks, up to BANKS of them.

    `banks` is a query of `bank_id` that takes what is `asked` (with `host` and `now`).
    """
    match split_words(name):
        case [folded]:
            marks = [ADDRESSED + folded, OWN + folded]
        case _:
            return set()
    arguments = {**asked, "marks": marks, "most": BANKS}
    holders = (await connection.execute(_select_holders(banks), arguments)).scalars().all()
    rules = await read_languages(connection, asked["host"]) if holders else {}
    found: set[str] = set()
    for bank in holders:
        terms = question_terms(folded, choose_rules(rules, bank).asking)
        aliases = await read_aliases(connection, asked["host"], bank, {folded: terms} if terms else {}, asked["now"])
        found.update(aliases.values())
    return found


def choose_speakers(called: Sequence[CalledName]) -> Mapping[str, str]:
    """Return the speaker each name means: called so at least LEAST times, and TIMES times as often as all others."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for one in called:
        counted[one.name][one.speaker] += one.times * (LEAST if one.own else 1)
    found = {name: (*speakers.most_common(1)[0], speakers.total()) for name, speakers in counted.items()}
    return {
        name: speaker
        for name, (speaker, times, total) in found.items()
        if times >= LEAST and times >= TIMES * (total - times) and name not in split_words(speaker)
    }
