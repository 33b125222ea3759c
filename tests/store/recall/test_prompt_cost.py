"""What a prompt pays for an answer, on a chat of 40 turns and by two public tokenizers: as budgeted, never more."""

from statistics import median
from typing import Any

from afterturn_client.reference import frame

from store.memory.turns import NewMessage
from store.recall.answer_end import MOST_UNSURE
from store.recall.printing import describe_unit
from store.recall.query import RecallAnswer
from tests.producers.forty_turns import read_chat, read_questions
from tests.public_tokenizers import load_tokenizers, one_process
from tests.store.recall.conftest import Memory

#: How a question is asked, the most results of half of the answers, and the least share that hold what was asked for.
ASKED: tuple[tuple[dict[str, Any], int, float], ...] = (
    ({"max_tokens": None}, 15, 0.95),
    ({"max_tokens": 1000, "helpful": True}, 15, 0.95),
    ({"max_tokens": 300}, 15, 0.9),
)


#: What the chat does not tell, about what it tells of.
UNTOLD = ("What is my blood type?", "How much is my rent?", "Which football club do I support?", "What was my GPA?")


async def tell_chat(memory: Memory) -> None:
    for turn in read_chat():
        said = (NewMessage("user", turn.user), NewMessage("assistant", turn.assistant))
        await memory.say(*said, session=f"{turn.said_at:%d}-{turn.number}", occurred_at=turn.said_at)
    await memory.embed_all()


def print_block(answer: RecallAnswer) -> str:
    return frame([describe_unit(one) for one in answer.items]) or ""


@one_process
async def test_an_answer_costs_what_was_allowed_and_holds_what_was_asked_for(memory: Memory) -> None:
    await tell_chat(memory)
    for asked, most, least in ASKED:
        answers = [(await memory.ask(question, **asked), words) for question, words in read_questions()]
        paid: dict[str, list[int]] = {"tokens": [answer.tokens for answer, _ in answers]}
        for name, tokenizer in load_tokenizers().items():
            paid[name] = [len(tokenizer.encode(print_block(answer))) for answer, _ in answers]
            assert all(count <= told for count, told in zip(paid[name], paid["tokens"], strict=True))
        assert max(paid["tokens"]) <= (asked["max_tokens"] or 2000)
        results = [len(answer.items) for answer, _ in answers]
        print(asked, median(results), {name: (median(one), max(one)) for name, one in paid.items()})
        assert median(results) <= most
        held = [words in print_block(answer) for answer, words in answers]
        assert sum(held) >= least * len(held)


async def test_a_question_without_an_answer_gets_a_short_one(memory: Memory) -> None:
    await tell_chat(memory)
    for question in UNTOLD:
        assert len((await memory.ask(question, max_tokens=None)).items) <= MOST_UNSURE
        assert len((await memory.ask(question, k=20)).items) == 20


async def test_a_least_score_leaves_out_what_scores_less(memory: Memory) -> None:
    await tell_chat(memory)
    question = read_questions()[0][0]
    whole = await memory.ask(question, k=20)
    assert min(one.score for one in whole.items) < 0.5
    strict = await memory.ask(question, k=20, min_score=0.5)
    assert min(one.score for one in strict.items) >= 0.5
    assert strict.tokens < whole.tokens
