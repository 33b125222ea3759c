"""Builds the queries of a search by words, with the sizes of the banks, and of memories that contain a text.

One round trip reads the postings of a search's words, the units without a vector, and the size of each bank, as rows of
one shape (`_ROW`), in which unused columns are null.
"""

from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    CTE,
    BigInteger,
    ColumnElement,
    CompoundSelect,
    FromClause,
    Integer,
    LargeBinary,
    Select,
    SelectBase,
    SmallInteger,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    case,
    cast,
    column,
    exists,
    func,
    null,
    or_,
    select,
    true,
    union_all,
)

from store.ledger.stages import Stage
from store.plugin.marks import ASKED_KINDS, BANKS, HOST, KINDS, is_memory_of, read_field
from store.plugin.namespaces import LASTING
from store.recall.pending_word_queries import (
    WORD,
    match_terms,
    open_words,
    pack_postings_alone,
    select_pending_postings,
)
from store.schema import BANK_STATISTICS, LEDGER, POSTING, TERM, UNIT, UNIT_VECTOR
from store.sql_constants import ONE, ZERO, inline

#: A row holds the postings of a term in a bank; or a unit without a vector and its text; or a memory of a rare kind; or
#: the size of a bank and how many lists of its index are probed (null: all vectors are compared); or in `units` a
#: number: the document frequency of a term that was not read, or, without a term, the number of memories of rare kinds.
_ROW = {
    "term": Text,
    "packed": LargeBinary,
    "unit_id": Uuid,
    "content": Text,
    "bank_id": Uuid,
    "units": BigInteger,
    "lists": Integer,
}
_TERMS, _WORDS = bindparam("terms", type_=ARRAY(Text)), bindparam("words", type_=ARRAY(Text))
_POSTINGS, _CHUNKS = bindparam("postings", type_=Integer), bindparam("chunks", type_=Integer)
_TOO_MANY = bindparam("too_many", type_=Integer)
_UNIT, _POSTING = UNIT.alias("u"), POSTING.alias("p")
#: The banks of the namespaces that exist and have not expired.
_LIVING = LASTING.cte("living").prefix_with("materialized")


def _unnest_terms(terms: ColumnElement[Any], column_name: str) -> FromClause:
    return func.unnest(terms).table_valued(column(column_name, Text)).render_derived("q")


def _select_row(**told: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Select rows of the common shape; columns that are not given are null."""
    return select(*(told.get(name, cast(null(), kind)).label(name) for name, kind in _ROW.items()))


# Words that are read -------------------------------------------------------------------------------------------------


def _count_asked() -> CTE:
    """Return the document frequency of each asked term in each bank, its rank from the rarest, and the running sum."""
    asked, known = _unnest_terms(_TERMS, "term"), TERM.alias("t")
    frequency = (
        select(known.c.df)
        .where(known.c.host_id == HOST, known.c.bank_id == _LIVING.c.bank_id, known.c.term == asked.c.term)
        .limit(ONE)
        .lateral("t")
    )
    df = func.coalesce(frequency.c.df, ZERO)
    rarest_first = (df, asked.c.term)
    nth = func.row_number().over(partition_by=_LIVING.c.bank_id, order_by=rarest_first)
    spent = func.sum(df).over(partition_by=_LIVING.c.bank_id, order_by=rarest_first)
    return (
        select(_LIVING.c.bank_id, asked.c.term, df.label("df"), nth.label("nth"), spent.label("spent"))
        .join_from(_LIVING, asked, true())
        .join(frequency, true(), isouter=True)
        .cte("asked")
        .prefix_with("materialized")
    )


_ASKED = _count_asked()
# The rarest word is always read; of the others, rarest first, those whose postings fit the budget together, as in a
# recall (`store.recall.lexical.choose_terms`).
_IS_AFFORDABLE = or_(_ASKED.c.nth == ONE, _ASKED.c.spent <= _POSTINGS)


def _select_memory(bank: ColumnElement[Any], unit_id: ColumnElement[Any]) -> FromClause:
    """Return a row without columns if a unit is a memory, else none.

    This is one probe of an index: a plain join would read all memories of the banks for each unit.
    """
    memory = select().select_from(_UNIT).where(is_memory_of(bank, _UNIT), _UNIT.c.unit_id == unit_id)
    return memory.limit(ONE).lateral("u")


def _group_by_term(posting: FromClause) -> Select[str, UUID, bytes]:
    """Select the postings of each term in each bank."""
    packed = pack_postings_alone(posting).label("packed")
    return select(posting.c.term, posting.c.bank_id, packed).group_by(posting.c.term, posting.c.bank_id)


def _select_words(*, of_memories: bool) -> CompoundSelect[*tuple[Any, ...]]:
    """Select the postings of words in the index, and the pending ones.

    `of_memories`: those of memories alone, and of all words, also of those that exceed the budget. Units that were
    derived from memories have no number in their session and are left out.
    """
    posting = (
        select(*(_POSTING.c[name] for name in ("bank_id", "unit_id", "term", "tf", "length")))
        .where(
            _POSTING.c.host_id == HOST,
            _POSTING.c.bank_id == _ASKED.c.bank_id,
            _POSTING.c.term == _ASKED.c.term,
            _POSTING.c.seq.is_not(None),
        )
        .limit(_POSTINGS)
        .lateral("p")
    )
    posted = _group_by_term(posting).join_from(_ASKED, posting, true())
    living = func.array(select(_LIVING.c.bank_id).scalar_subquery())
    word = select_pending_postings(and_(WORD.c.host_id == HOST, WORD.c.bank_id == any_(living))).subquery("p")
    waiting = _group_by_term(word).where(word.c.seq >= ZERO)
    if not of_memories:
        return union_all(posted.where(_IS_AFFORDABLE), waiting)
    return union_all(
        posted.join(_select_memory(posting.c.bank_id, posting.c.unit_id), true()),
        waiting.join(_select_memory(any_(living), word.c.unit_id), true()),
    )


# Memories of rare kinds ----------------------------------------------------------------------------------------------


def _select_of_kind(kind: str) -> Select[*tuple[Any, ...]]:
    """Select the memories of a kind, up to `too_many`.

    The kind is a literal, as in the predicate of its index, which a parameter would not match under row-level security.
    """
    of_kind = inline(kind)
    memory = (
        select(_UNIT.c.bank_id, _UNIT.c.unit_id)
        .where(is_memory_of(_LIVING.c.bank_id, _UNIT), read_field(_UNIT, "kind") == of_kind)
        .limit(_TOO_MANY)
        .lateral("u")
    )
    return select(memory).join_from(_LIVING, memory, true()).where(of_kind == any_(ASKED_KINDS))


_COUNTED = union_all(*map(_select_of_kind, KINDS)).cte("counted").prefix_with("materialized")
_NUMBER = select(func.count()).select_from(_COUNTED)
_FEW = select(_COUNTED).where(_NUMBER.scalar_subquery() < _TOO_MANY).cte("few").prefix_with("materialized")


def _select_words_of_few() -> Select[*tuple[Any, ...]]:
    """Select the postings of words in the few memories of rare kinds; the terms of each are unpacked once."""
    row = (
        select(WORD.c.unit_id, WORD.c.length, WORD.c.terms)
        .where(WORD.c.host_id == HOST, WORD.c.bank_id == _FEW.c.bank_id, WORD.c.unit_id == _FEW.c.unit_id)
        .limit(ONE)
        .lateral("w")
    )
    opened = open_words(row)
    match = match_terms(opened)
    posting = (
        select(match.c.term, _FEW.c.bank_id, row.c.unit_id, match.c.tf, row.c.length)
        .join_from(_FEW, row, true())
        .join(opened, true())
        .join(match, true())
        .subquery("p")
    )
    return _group_by_term(posting)


# Units without a vector, and sizes -----------------------------------------------------------------------------------


def _select_fresh() -> Select[*tuple[Any, ...]]:
    """Select the memories that no worker has embedded yet, the newest first.

    Each is one look-up: a plain join would read all vectors of a tenant for a few pending memories.
    """
    undone, vector = LEDGER.alias("l"), UNIT_VECTOR.alias("v")
    waiting = (
        select(undone.c.bank_id, undone.c.turn_id, undone.c.position)
        .where(
            undone.c.host_id == HOST,
            undone.c.bank_id == _LIVING.c.bank_id,
            undone.c.stage == inline(Stage.EMBEDDING),
            undone.c.undone,
        )
        .order_by(undone.c.position.desc())
        .limit(_CHUNKS)
        .lateral("l")
    )
    unit = (
        select(_UNIT.c.bank_id, _UNIT.c.unit_id, _UNIT.c.content, _UNIT.c.mentioned_at)
        .where(is_memory_of(waiting.c.bank_id, _UNIT), _UNIT.c.turn_id == waiting.c.turn_id)
        .limit(ONE)
        .lateral("u")
    )
    stored = (
        select(true())
        .where(
            vector.c.host_id == HOST,
            vector.c.bank_id == unit.c.bank_id,
            vector.c.generation == bindparam("generation", type_=SmallInteger),
            vector.c.unit_id == unit.c.unit_id,
        )
        .limit(ONE)
        .scalar_subquery()
    )
    content = func.left(unit.c.content, bindparam("characters", type_=Integer)).label("content")
    return (
        select(unit.c.unit_id, content)
        .join_from(_LIVING, waiting, true())
        .join(unit, true())
        .where(stored.is_(None))
        .order_by(unit.c.mentioned_at.desc())
        .limit(_CHUNKS)
    )


def _tell_sizes() -> Select[*tuple[Any, ...]]:
    """Select the number of units of each bank, those with pending words included, and how many lists are probed."""
    counted = BANK_STATISTICS.alias("s")
    waiting = (
        select(func.count())
        .where(WORD.c.host_id == HOST, WORD.c.bank_id == _LIVING.c.bank_id, ~WORD.c.posted)
        .scalar_subquery()
    )
    read = func.afterturn.lists_to_read(
        _LIVING.c.bank_id,
        counted.c.units,
        bindparam("read_units", type_=Integer),
        bindparam("generation", type_=SmallInteger),
    )
    return _select_row(
        bank_id=_LIVING.c.bank_id,
        units=func.coalesce(counted.c.units, ZERO) + waiting,
        lists=case((counted.c.units > bindparam("exact_units", type_=BigInteger), read)),
    ).join_from(_LIVING, counted, and_(counted.c.host_id == HOST, counted.c.bank_id == _LIVING.c.bank_id), isouter=True)


def _read_with(words: SelectBase, *beside: Select[*tuple[Any, ...]]) -> CompoundSelect[*tuple[Any, ...]]:
    """Return the query that reads these words, units without a vector, sizes, and the rows of `beside`."""
    word, fresh = words.subquery("w"), _select_fresh().subquery("f")
    return union_all(
        _select_row(term=word.c.term, bank_id=word.c.bank_id, packed=word.c.packed),
        _select_row(unit_id=fresh.c.unit_id, content=fresh.c.content),
        _tell_sizes(),
        *beside,
    )


#: Reads the words of units of any kind, and the document frequencies of common words whose postings are not read.
READ_WORDS = _read_with(
    _select_words(of_memories=False), _select_row(term=_ASKED.c.term, units=_ASKED.c.df).where(~_IS_AFFORDABLE)
)
#: Reads the words of memories alone: of each word up to `postings` postings.
READ_WORDS_OF_MEMORIES = _read_with(_select_words(of_memories=True))
#: Reads the words of few memories of rare kinds, these memories, and their number (`too_many` if there are more).
READ_FEW = _read_with(
    _select_words_of_few(),
    _select_row(bank_id=_FEW.c.bank_id, unit_id=_FEW.c.unit_id),
    _select_row(units=func.count()).select_from(_COUNTED),
)


# Memories that contain the query itself ------------------------------------------------------------------------------


def _select_containing() -> Select[*tuple[Any, ...]]:
    """Select the memories whose text contains the query, or each of its words, in either case."""
    word, text = _unnest_terms(_WORDS, "word"), _UNIT.c.content
    query = bindparam("query", type_=Text)
    missing = exists().where(func.strpos(func.afterturn.folded(text), word.c.word) == ZERO)
    return (
        select(_UNIT.c.bank_id, _UNIT.c.unit_id)
        .where(
            is_memory_of(any_(BANKS), _UNIT),
            or_(
                func.strpos(func.lower(text), func.lower(query)) > ZERO,
                and_(func.cardinality(_WORDS) > ZERO, ~missing),
            ),
        )
        .order_by(_UNIT.c.mentioned_at.desc(), _UNIT.c.unit_id)
        .limit(bindparam("most", type_=Integer))
    )


CONTAINING = _select_containing()
CONTAINING_AMONG_FEW = CONTAINING.where(_UNIT.c.unit_id == any_(bindparam("few", type_=ARRAY(Uuid))))
