"""Small faults, one for each case that no trap's mutant fails: no case of the kit may be one that nothing can fail."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

from producers.contract_kit.flat_plugin import (
    MEMORY_KINDS,
    NAMESPACE_KINDS,
    Body,
    PluginError,
    bad_request,
    check_name,
    not_found,
    now,
)
from producers.contract_kit.wire import parse_instant
from tests.producers.contract_kit.mutants import INTERNAL
from tests.producers.contract_kit.reference import ReferenceHandler, ReferenceStore, vector


@dataclass(frozen=True, slots=True)
class Slip:
    """A faulty plugin; the kit fails each of `cases`."""

    cases: tuple[str, ...]
    store: type[ReferenceStore] = ReferenceStore
    handler: type[ReferenceHandler] = ReferenceHandler


SLIPS: dict[str, Slip] = {}
CONFLICT = PluginError(409, "bad_request", "this id is taken")


def fails(*cases: str) -> Callable[[type], type]:
    """Register a slip under the name of its class."""

    def register(faulty: type) -> type:
        if issubclass(faulty, ReferenceStore):
            SLIPS[faulty.__name__] = Slip(cases, store=faulty)
        elif issubclass(faulty, ReferenceHandler):
            SLIPS[faulty.__name__] = Slip(cases, handler=faulty)
        return faulty

    return register


@fails("health.answers")
class HealthOfAnotherContract(ReferenceStore):
    def health(self) -> Body:
        return super().health() | {"version": "2.0.0"}


@fails("health.tolerates_what_it_does_not_claim")
class RefusesWhatItDoesNotClaim(ReferenceStore):
    capabilities = ()

    def write(self, name: str, body: Body) -> Body:
        if body.keys() - {"content", "kind", "source", "id"}:
            raise bad_request("unknown field")
        return super().write(name, body)


@fails("wire.content_type_is_json")
class AnswersAsText(ReferenceHandler):
    def send_header(self, keyword: str, value: str) -> None:
        super().send_header(keyword, "text/plain" if keyword == "Content-Type" else value)


@fails("wire.errors_have_code_and_message")
class ErrorsOfAFramework(ReferenceHandler):
    def answer(self, status: int, value: Body | None) -> None:
        super().answer(status, {"detail": value} if status >= 400 else value)


@fails("wire.bodies_must_be_json_objects")
class BodyOfAnotherTypeIsInternal(ReferenceHandler):
    def read_body(self) -> bytes:
        if (raw := super().read_body()).startswith((b"[", b'"')):
            raise INTERNAL
        return raw


@fails("wire.nan_is_not_json")
class ReadsNaN(ReferenceHandler):
    def read_body(self) -> bytes:
        raw = super().read_body()
        return raw.replace(b"-Infinity", b"0.5").replace(b"Infinity", b"0.5").replace(b"NaN", b"0.5")


@fails("wire.unknown_paths_are_404")
class UnknownPathsAreFine(ReferenceHandler):
    def answer(self, status: int, value: Body | None) -> None:
        super().answer(*((200, {}) if value == {"code": "not_found", "message": "no such path"} else (status, value)))


@fails("wire.wrong_methods")
class WrongMethodIsNotFound(ReferenceHandler):
    def route(self) -> tuple[int, Body | None]:
        try:
            return super().route()
        except PluginError as error:
            raise not_found("no such path") if error.status == 405 else error from None


@fails("wire.empty_names_are_400")
class EmptyNamesAreNotFound(ReferenceHandler):
    def route(self) -> tuple[int, Body | None]:
        if self.path.endswith("/"):
            self.read_body()
            raise not_found("no such path")
        return super().route()


@fails("namespaces.upsert_answers_the_namespace")
class UpsertIsCreated(ReferenceHandler):
    def answer(self, status: int, value: Body | None) -> None:
        super().answer(201 if self.command == "PUT" and status == 200 else status, value)


@fails("namespaces.upsert_again_keeps_created_at")
class UpsertRenewsCreatedAt(ReferenceStore):
    def upsert_namespace(self, name: str, body: Body) -> Body:
        super().upsert_namespace(name, body)
        self.namespaces[name]["created_at"] = now()
        return self.namespaces[name]


@fails("namespaces.kinds")
class UnknownKindIsCustom(ReferenceStore):
    def upsert_namespace(self, name: str, body: Body) -> Body:
        known = body.get("kind") in NAMESPACE_KINDS
        return super().upsert_namespace(name, body if known else body | {"kind": "custom"})


@fails("namespaces.names_that_are_accepted")
class NamesEndAt255(ReferenceStore):
    def upsert_namespace(self, name: str, body: Body) -> Body:
        if len(name) > 255:
            raise bad_request("too long")
        return super().upsert_namespace(name, body)


@fails("namespaces.metadata_comes_back")
class MetadataLosesNulls(ReferenceStore):
    def namespace_fields(self, body: Body) -> Body:
        return {key: without_nulls(value) for key, value in super().namespace_fields(body).items()}


@fails("namespaces.patch_changes_only_what_it_names")
class PatchResetsTheRest(ReferenceStore):
    def patch_namespace(self, name: str, body: Body) -> Body:
        return super().patch_namespace(name, {"metadata": None, "expires_at": None} | body if body else body)


@fails("namespaces.patch_must_name_a_field", "namespaces.unknown_namespaces_are_404")
class PatchOfNothingIsFine(ReferenceStore):
    def patch_namespace(self, name: str, body: Body) -> Body:
        self.namespaces.setdefault(name, {"name": name, "kind": "custom", "created_at": now()})
        return super().patch_namespace(name, body or {"metadata": {}})


@fails("writes.minimal")
class WriteAnswersNoNamespace(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        return {"id": super().write(name, body)["id"]}


@fails("writes.kinds_and_sources")
class EverythingIsAFact(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        return super().memory_fields(body) | {"kind": "fact"}


@fails("writes.refuses_wrong_values")
class UnknownKindIsAFact(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        return super().memory_fields(body if body.get("kind") in MEMORY_KINDS else body | {"kind": "fact"})


@fails("writes.refuses_blank_content")
class BlankContentIsFine(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        return super().memory_fields(body | {"content": "x"}) | {"content": body["content"]}


@fails("writes.content_is_kept_verbatim")
class ContentIsTrimmed(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        fields = super().memory_fields(body)
        return fields | {"content": fields["content"].strip()}


@fails("writes.unusual_text_is_no_failure")
class NulIsInternal(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        if "\0" in str(body.get("content")):
            raise INTERNAL
        return super().memory_fields(body)


@fails("writes.null_is_as_absent")
class NullIdIsRefused(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        if body.get("id", "") is None:
            raise bad_request("id must be a UUID")
        return super().write(name, body)


@fails("writes.created_at_is_now")
class CreatedAtIsLocalTime(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        written = super().write(name, body)
        self.memories[name, written["id"]]["created_at"] = "2020-01-01T00:00:00+02:00"
        return written


@fails("ids.are_minted_when_omitted")
class IdsComeFromTheContent(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        return super().write(name, {"id": "7f9c5b0e-2f52-4f0b-9a43-0c5ad0c1a001"} | body)


@fails("ids.same_id_updates_in_place", "ids.same_id_in_parallel_is_one_memory")
class IdsAreIgnored(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        return super().write(name, body | {"id": None})


@fails("ids.same_id_replaces_every_field")
class SameIdKeepsWhatIsLeftOut(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        before = self.memories.get((name, str(body.get("id"))), {})
        written = super().write(name, body)
        kept: Body = {key: before[key] for key in ("pin", "propagation", "expires_at") if key in before}
        self.memories[name, written["id"]].update(kept)
        return written


@fails("ids.same_id_keeps_created_at")
class SameIdRenewsCreatedAt(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        written = super().write(name, body)
        self.memories[name, written["id"]]["created_at"] = now()
        return written


@fails("ids.may_come_again")
class ForgottenIdsStayTaken(ReferenceStore):
    def forget(self, memory_id: str, body: Body) -> None:
        super().forget(memory_id, body)
        self.taken = {memory_id}

    def write(self, name: str, body: Body) -> Body:
        if body.get("id") in getattr(self, "taken", ()):
            raise CONFLICT
        return super().write(name, body)


@fails("search.only_the_named_namespaces", "embedding.keeps_the_filters")
class NamespacesByPrefix(ReferenceStore):
    def search(self, body: Body) -> Body:
        stems = tuple(name.rpartition("-")[0] for name in body.get("namespaces") or () if isinstance(name, str))
        more = [name for name in self.namespaces if name.startswith(stems)] if stems else []
        return super().search(body | {"namespaces": [*body["namespaces"], *more]} if more else body)


@fails("search.unknown_namespace_has_no_memories")
class SearchOfUnknownNamespaceIs404(ReferenceStore):
    def search(self, body: Body) -> Body:
        for name in body.get("namespaces") or ():
            self.known_namespace(check_name(name))
        return super().search(body)


@fails("search.refuses_wrong_requests")
class LimitsAreClamped(ReferenceStore):
    def search(self, body: Body) -> Body:
        limit = body.get("limit", 20)
        return super().search(body | {"limit": max(0, min(limit, 100)) if type(limit) is int else limit})


@fails("search.kinds_filter")
class KindsAfterTheLimit(ReferenceStore):
    def search(self, body: Body) -> Body:
        super().search(body)
        found = super().search(body | {"kinds": []})["memories"]
        return {"memories": [one for one in found if one["kind"] in (body.get("kinds") or MEMORY_KINDS)]}


@fails("search.listing_is_newest_first")
class OldestFirst(ReferenceStore):
    def ordered(self, found: list[Body], *, is_scored: bool) -> list[Body]:
        return super().ordered(found, is_scored=is_scored)[::-1]


@fails("search.query_and_embedding_may_arrive")
class EmptyQueryIsRefused(ReferenceStore):
    def search(self, body: Body) -> Body:
        if body.get("query") == "":
            raise bad_request("query must not be empty")
        return super().search(body)


@fails("forget.removes_the_memory")
class ForgetsNothing(ReferenceStore):
    def forget(self, memory_id: str, body: Body) -> None:
        kept = dict(self.memories)
        super().forget(memory_id, body)
        self.memories = kept


@fails("forget.unknown_ids_are_404", "forget.refuses_wrong_requests")
class ForgetIsAlwaysFine(ReferenceStore):
    def forget(self, memory_id: str, body: Body) -> None:
        self.memories.pop((str(body.get("requested_by_namespace")), memory_id), None)


@fails("ttl.expires_at_comes_back")
class NanosecondsAreRefused(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        if "123456789Z" in str(body.get("expires_at")):
            raise bad_request("expires_at must be a time")
        return super().memory_fields(body)


@fails("ttl.malformed_times_are_400")
class MalformedTimesAreDropped(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        time = body.get("expires_at")
        return super().memory_fields(body if parse_instant(time) else body | {"expires_at": None})


@fails("ttl.expired_id_may_come_again")
class ExpiredIdsStayTaken(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        before = self.memories.get((name, str(body.get("id"))))
        if before is not None and not self.is_alive(before):
            raise CONFLICT
        return super().write(name, body)


@fails("pin.comes_back")
class PinIsNotReturned(ReferenceStore):
    def search(self, body: Body) -> Body:
        return {"memories": [one | {"pin": False} for one in super().search(body)["memories"]]}


@fails("pin.first_in_a_listing")
class PinIsNoOrder(ReferenceStore):
    def ordered(self, found: list[Body], *, is_scored: bool) -> list[Body]:  # noqa: ARG002 - the reference's
        return sorted(found, key=lambda one: (str(one["created_at"]), str(one["id"])), reverse=True)


@fails("propagation.comes_back_equal")
class PropagationLosesNulls(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        fields = super().memory_fields(body)
        return fields | {"propagation": without_nulls(fields.get("propagation"))}


@fails("propagation.numbers_keep_their_digits")
class NumbersAreDoubles(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        fields = super().memory_fields(body)
        return fields | {"propagation": json.loads(json.dumps(fields.get("propagation")), parse_int=float)}


@fails("propagation.must_be_an_object")
class PropagationMayBeAnything(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        return super().memory_fields(body | {"propagation": None})


@fails("fts.finds_by_word", "fts.finds_by_one_letter")
class QueryMatchesNothing(ReferenceStore):
    def text_score(self, content: str, query: str) -> float:  # noqa: ARG002 - the reference's
        return 0.0

    def has_letter(self, content: str, letter: str) -> bool:  # noqa: ARG002 - the reference's
        return False


@fails("fts.keeps_the_filters")
class TextSearchForgetsKinds(ReferenceStore):
    def search(self, body: Body) -> Body:
        return super().search(body | {"kinds": []} if body.get("query") else body)


@fails("fts.query_is_no_language")
class QueryIsALanguage(ReferenceStore):
    def text_score(self, content: str, query: str) -> float:
        if query.count('"') % 2:
            raise INTERNAL
        return super().text_score(content, query)


@fails("fts.unusual_query_is_no_failure")
class NulInAQueryIsInternal(ReferenceStore):
    def search(self, body: Body) -> Body:
        if "\0" in str(body.get("query")):
            raise INTERNAL
        return super().search(body)


@fails("embedding.nearest_is_first")
class FarthestFirst(ReferenceStore):
    def ordered(self, found: list[Body], *, is_scored: bool) -> list[Body]:
        return super().ordered([one | {"score": -one.get("score", 0.0)} for one in found], is_scored=is_scored)


@fails("embedding.may_come_without_a_query")
class VectorNeedsAQuery(ReferenceStore):
    def search(self, body: Body) -> Body:
        if body.get("embedding") and not body.get("query"):
            raise bad_request("query is required")
        return super().search(body)


@fails("embedding.other_dimension_is_no_failure")
class OtherDimensionIsInternal(ReferenceStore):
    def memory_fields(self, body: Body) -> Body:
        if len(vector(body) or ()) == 3:
            raise INTERNAL
        return super().memory_fields(body)


@fails("embedding.zero_vector_is_no_failure")
class ZeroVectorHasNoScore(ReferenceStore):
    def search(self, body: Body) -> Body:
        zeros = bool(body.get("embedding")) and not any(body["embedding"])
        found = super().search(body | {"embedding": None} if zeros else body)["memories"]
        return {"memories": [one | {"score": "NaN"} for one in found]} if zeros else {"memories": found}


@fails("embedding.must_be_numbers")
class EmbeddingIsNotChecked(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        if "inf" in str(body.get("embedding")) and math.inf in body["embedding"]:
            raise INTERNAL
        return super().write(name, body | {"embedding": None})


@fails("outage.requests_are_503")
class StaleWithoutItsStore(ReferenceHandler):
    def route(self) -> tuple[int, Body | None]:
        if self.path == "/v1/search":
            return 200, self.store.search(json.loads(self.read_body()))
        return super().route()


@fails("outage.nothing_is_lost")
class LosesItsMemories(ReferenceHandler):
    def route(self) -> tuple[int, Body | None]:
        if self.store.away.exists():
            self.store.memories.clear()
        return super().route()


def without_nulls(value: object) -> object:
    """Leave out what is null, at every depth."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value
