"""Generations of vectors, for operators: build a sentence model's, compare, switch, roll back, drop; never content."""

from typing import Annotated, Any

from afterturn_client.contract.embeddings import GenerationComparison, GenerationList
from fastapi import Path

from producers.http.authentication import OperatorCall
from producers.http.openapi import CallerClass
from producers.http.operation_router import OperationRouter
from producers.service.generations import ComparisonParameters, SwitchBody
from store.errors import GenerationRefused, NotFound

GenerationNumber = Annotated[str, Path(description="number of the generation, as the list shows it")]

router = OperationRouter(prefix="/api/v1/operator/embeddings", tags=["embeddings"], access=CallerClass.OPERATOR)


@router.operation(
    "GET",
    "List generations of vectors",
    "Lists the sentence models whose vectors are stored, how far each is built, and the models that settings of "
    "processes name.",
    "the generations",
)
async def list_generations(call: OperatorCall) -> GenerationList:
    return await call.operations.generations.list()


@router.operation(
    "POST /build",
    "Build the vectors of a model",
    "Workers embed all stored texts with the model that `embedding` of the settings of the process that answers "
    "names. A build that has begun goes on.",
    "the generations",
    fails=(NotFound, GenerationRefused),
)
async def build_generation(call: OperatorCall) -> GenerationList:
    return await call.operations.generations.build()


@router.operation(
    "GET /comparison",
    "Compare a generation with the live one",
    "Asks some sample questions, bank by bank, for some seconds: the nearest texts that both models have, and the "
    "share of the exact nearest that searches of the other generation find. Pages are added up.",
    "some questions",
    fails=(GenerationRefused,),
)
async def compare_generations(call: OperatorCall, asked: ComparisonParameters) -> GenerationComparison:
    return await call.operations.generations.compare(asked)


@router.operation(
    "POST /switch",
    "Make the built generation live",
    "Every process asks its model within seconds; no recall fails. The generation that was live is retired and "
    "kept up to date. It is refused while texts lack a vector of the new model, unless it is forced.",
    "the generations",
    body=SwitchBody,
    fails=(GenerationRefused,),
)
async def switch_generation(call: OperatorCall, sent: Any) -> GenerationList:
    return await call.operations.generations.switch(sent)


@router.operation(
    "POST /rollback",
    "Make the former generation live again",
    "The generation that was live last is live again, and the one that is live is retired.",
    "the generations",
    fails=(GenerationRefused,),
)
async def restore_generation(call: OperatorCall) -> GenerationList:
    return await call.operations.generations.roll_back()


@router.operation(
    "DELETE /{generation}",
    "Delete a generation",
    "Workers delete the vectors of a generation that is not live; a build in progress ends by it.",
    "the generations",
    fails=(NotFound, GenerationRefused),
)
async def delete_generation(call: OperatorCall, generation: GenerationNumber) -> GenerationList:
    return await call.operations.generations.drop(generation)
