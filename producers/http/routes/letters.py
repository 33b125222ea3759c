"""Turn queues and their dead letters, for operators: listed, retried, dropped; never content."""

from afterturn_client.contract.letters import DeadLetterCount, DeadLetterPage, LettersChanged, TurnQueueList
from fastapi import APIRouter, Request, Response

from producers.http.authentication import OperatorCall
from producers.http.openapi import CallerClass, DescribedAnswer, describe_route
from producers.http.reads import add_read
from producers.http.requests import json_response, read_body
from producers.service.operator_letters import LetterFilter, LettersBody, LettersParameters, MatchingLettersBody

router = APIRouter(prefix="/api/v1/operator", tags=["letters"])


@router.get(
    "/queues",
    **describe_route(
        "List turn queues",
        "Lists the turn queues of the process that answers, and how much waits in each.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the queues", (TurnQueueList,))},
    ),
)
async def list_turn_queues(call: OperatorCall) -> Response:
    return json_response(await call.operations.letters.list_queues())


@add_read(
    router,
    "/letters",
    "List dead letters",
    "Lists messages of turn queues that were never accepted, page by page, the oldest first: reasons and sizes.",
    "a page",
    access=CallerClass.OPERATOR,
)
async def list_dead_letters(call: OperatorCall, asked: LettersParameters) -> DeadLetterPage:
    return await call.operations.letters.list_letters(asked, names=call.operator.makes_keys)


@add_read(
    router,
    "/letters/count",
    "Count dead letters",
    "Counts the dead letters that match, and those of them that can be retried.",
    "the count",
    access=CallerClass.OPERATOR,
)
async def count_dead_letters(call: OperatorCall, asked: LetterFilter) -> DeadLetterCount:
    return await call.operations.letters.count_letters(asked)


@router.post(
    "/letters",
    **describe_route(
        "Retry or drop dead letters",
        "Messages go back to the end of their turn queue with a fresh attempt budget, or letters are deleted for good. "
        "A letter whose content was not kept (`queue.keep_dead_content`) cannot be retried.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the number of changed letters", (LettersChanged,))},
        body=LettersBody,
    ),
)
async def change_dead_letters(request: Request, call: OperatorCall) -> Response:
    tenant, answer = await call.operations.letters.change_letters(await read_body(request))
    call.note_tenant(tenant)
    return json_response(answer)


@router.post(
    "/letters/matching",
    **describe_route(
        "Change all dead letters that match",
        "Retries or drops every dead letter that a filter selects and that was there when `GET "
        "/api/v1/operator/letters/count` counted. One call changes letters for ten seconds at most; the `cursor` that "
        "it answers asks for the rest.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the number of changed letters", (LettersChanged,))},
        body=MatchingLettersBody,
    ),
)
async def change_matching_letters(request: Request, call: OperatorCall) -> Response:
    tenant, answer = await call.operations.letters.change_matching(await read_body(request))
    call.note_tenant(tenant)
    return json_response(answer)
