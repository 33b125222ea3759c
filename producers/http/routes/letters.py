"""Turn queues and their dead letters, for operators: listed, retried, dropped; never content."""

from typing import Any

from afterturn_client.contract.letters import DeadLetterCount, DeadLetterPage, LettersChanged, TurnQueueList

from producers.http.authentication import OperatorCall
from producers.http.openapi import CallerClass
from producers.http.operation_router import OperationRouter
from producers.service.operator_letters import LetterFilter, LettersBody, LettersParameters, MatchingLettersBody

router = OperationRouter(prefix="/api/v1/operator", tags=["letters"], access=CallerClass.OPERATOR)


@router.operation(
    "GET /queues",
    "List turn queues",
    "Lists the turn queues of the process that answers, and how much waits in each.",
    "the queues",
)
async def list_turn_queues(call: OperatorCall) -> TurnQueueList:
    return await call.operations.letters.list_queues()


@router.operation(
    "GET /letters",
    "List dead letters",
    "Lists messages of turn queues that were never accepted, page by page, the oldest first: reasons and sizes.",
    "a page",
)
async def list_dead_letters(call: OperatorCall, asked: LettersParameters) -> DeadLetterPage:
    return await call.operations.letters.list_letters(asked, names=call.operator.makes_keys)


@router.operation(
    "GET /letters/count",
    "Count dead letters",
    "Counts the dead letters that match, and those of them that can be retried.",
    "the count",
)
async def count_dead_letters(call: OperatorCall, asked: LetterFilter) -> DeadLetterCount:
    return await call.operations.letters.count_letters(asked)


@router.operation(
    "POST /letters",
    "Retry or drop dead letters",
    "Messages go back to the end of their turn queue with a fresh attempt budget, or letters are deleted for good. "
    "A letter whose content was not kept (`queue.keep_dead_content`) cannot be retried.",
    "the number of changed letters",
    body=LettersBody,
)
async def change_dead_letters(call: OperatorCall, sent: Any) -> LettersChanged:
    return call.note(await call.operations.letters.change_letters(sent))


@router.operation(
    "POST /letters/matching",
    "Change all dead letters that match",
    "Retries or drops every dead letter that a filter selects and that was there when `GET "
    "/api/v1/operator/letters/count` counted. One call changes letters for ten seconds at most; the `cursor` that "
    "it answers asks for the rest.",
    "the number of changed letters",
    body=MatchingLettersBody,
)
async def change_matching_letters(call: OperatorCall, sent: Any) -> LettersChanged:
    return call.note(await call.operations.letters.change_matching(sent))
