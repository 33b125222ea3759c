"""Generations of vectors, for operators: build a sentence model's, compare, switch, roll back, drop; never content."""

from typing import Annotated

from afterturn_client.contract.embeddings import GenerationComparison, GenerationList
from fastapi import APIRouter, Path, Request, Response

from producers.http.authentication import OperatorCall
from producers.http.openapi import CallerClass, DescribedAnswer, describe_route
from producers.http.reads import add_read
from producers.http.requests import json_response, read_body
from producers.service.generations import ComparisonParameters, SwitchBody
from store.errors import GenerationRefused, NotFound

GenerationNumber = Annotated[str, Path(description="number of the generation, as the list shows it")]

router = APIRouter(prefix="/api/v1/operator/embeddings", tags=["embeddings"])


@router.get(
    "",
    **describe_route(
        "List generations of vectors",
        "Lists the sentence models whose vectors are stored, how far each is built, and the models that settings of "
        "processes name.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the generations", (GenerationList,))},
    ),
)
async def list_generations(call: OperatorCall) -> Response:
    return json_response(await call.operations.generations.list())


@router.post(
    "/build",
    **describe_route(
        "Build the vectors of a model",
        "Workers embed all stored texts with the model that `embedding` of the settings of the process that answers "
        "names. A build that has begun goes on.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the generations", (GenerationList,))},
        fails=(NotFound, GenerationRefused),
    ),
)
async def build_generation(call: OperatorCall) -> Response:
    return json_response(await call.operations.generations.build())


@add_read(
    router,
    "/comparison",
    "Compare a generation with the live one",
    "Asks some sample questions, bank by bank, for some seconds: the nearest texts that both models have, and the "
    "share of the exact nearest that searches of the other generation find. Pages are added up.",
    "some questions",
    access=CallerClass.OPERATOR,
    fails=(GenerationRefused,),
)
async def compare_generations(call: OperatorCall, asked: ComparisonParameters) -> GenerationComparison:
    return await call.operations.generations.compare(asked)


@router.post(
    "/switch",
    **describe_route(
        "Make the built generation live",
        "Every process asks its model within seconds; no recall fails. The generation that was live is retired and "
        "kept up to date. It is refused while texts lack a vector of the new model, unless it is forced.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the generations", (GenerationList,))},
        body=SwitchBody,
        fails=(GenerationRefused,),
    ),
)
async def switch_generation(request: Request, call: OperatorCall) -> Response:
    return json_response(await call.operations.generations.switch(await read_body(request)))


@router.post(
    "/rollback",
    **describe_route(
        "Make the former generation live again",
        "The generation that was live last is live again, and the one that is live is retired.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the generations", (GenerationList,))},
        fails=(GenerationRefused,),
    ),
)
async def restore_generation(call: OperatorCall) -> Response:
    return json_response(await call.operations.generations.roll_back())


@router.delete(
    "/{generation}",
    **describe_route(
        "Delete a generation",
        "Workers delete the vectors of a generation that is not live; a build in progress ends by it.",
        CallerClass.OPERATOR,
        {200: DescribedAnswer("the generations", (GenerationList,))},
        fails=(NotFound, GenerationRefused),
    ),
)
async def delete_generation(call: OperatorCall, generation: GenerationNumber) -> Response:
    return json_response(await call.operations.generations.drop(generation))
