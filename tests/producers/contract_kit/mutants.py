"""Twenty-five plugins, each of which falls into one trap of contract 1.1 to 1.5; each runs as a process of its own.

`python -m tests.producers.contract_kit.mutants NAME AWAY` prints the port it listens on and serves until its standard
input ends. NAME may be `reference`: no mutant.
"""

import random
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from producers.contract_kit import flat_plugin
from producers.contract_kit.flat_plugin import Body, FlatServer, PluginError
from tests.producers.contract_kit.reference import ReferenceHandler, ReferenceStore

INTERNAL = PluginError(500, "internal", "internal error")
STOP_WORDS = {"to", "be", "or", "not", "the", "a", "is", "in", "at", "on"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A plugin that falls into the trap of a section; the kit fails exactly the cases `caught_by`."""

    trap: str
    caught_by: frozenset[str]
    store: type[ReferenceStore] = ReferenceStore
    handler: type[ReferenceHandler] = ReferenceHandler
    #: Changes the flat plugin's module in the mutant's process.
    plant: Callable[[], None] = lambda: None


MUTANTS: dict[str, Mutant] = {}


def caught_by(*cases: str, trap: str) -> Callable[[type], type]:
    """Register a mutant under the name of its class."""

    def register(mutated: type) -> type:
        part = {"store" if issubclass(mutated, ReferenceStore) else "handler": mutated}
        MUTANTS[mutated.__name__] = Mutant(trap, frozenset(cases), **part)
        return mutated

    return register


# -- 1.1 endpoints


@caught_by("outage.health_is_503", trap="1.1 the health is not asked of the store on every call")
class HealthFromACache(ReferenceHandler):
    def route(self) -> tuple[int, Body | None]:
        return (200, self.store.health()) if self.path == "/v1/health" and self.command == "GET" else super().route()


@caught_by("namespaces.upsert_keeps_what_it_does_not_name", trap="1.1 PUT resets absent fields")
class PutResetsAbsentFields(ReferenceStore):
    def upsert_namespace(self, name: str, body: Body) -> Body:
        return super().upsert_namespace(name, {"expires_at": None, "metadata": None} | body)


@caught_by("namespaces.patch_with_null_clears", trap="1.1 PATCH reads null as absent")
class PatchReadsNullAsAbsent(ReferenceStore):
    def patch_namespace(self, name: str, body: Body) -> Body:
        return super().patch_namespace(name, {key: value for key, value in body.items() if value is not None})


@caught_by(
    "writes.unknown_namespace_is_404",
    "namespaces.delete_takes_the_memories",
    trap="1.1 a missing namespace is an internal error",
)
class MissingNamespaceIsInternal(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        if flat_plugin.check_name(name) not in self.namespaces and self.memory_fields(body):
            raise INTERNAL
        return super().write(name, body)


@caught_by("ids.must_be_uuids", trap="1.1 an id that is no UUID is an internal error")
class ForeignIdIsInternal(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        try:
            return super().write(name, body)
        except PluginError as error:
            raise INTERNAL if "UUID" in str(error) else error from None


@caught_by("forget.another_namespace_forgets_nothing", trap="1.1 another namespace is told that the memory exists")
class ForgetSaysForbidden(ReferenceStore):
    def forget(self, memory_id: str, body: Body) -> None:
        try:
            super().forget(memory_id, body)
        except PluginError as error:
            if any(known == memory_id for _, known in self.memories) and error.status == 404:
                raise PluginError(403, "forbidden", "this memory belongs to another namespace") from None
            raise


@caught_by("namespaces.names_may_be_percent_encoded", trap="1.1 the name in the path is not decoded")
class NameIsNotDecoded(ReferenceHandler):
    def segments(self) -> list[str]:
        return self.path.split("/")[1:]


# -- 1.2 wire objects


@caught_by("search.nothing_found_is_an_empty_list", trap="1.2 no hits are null")
class NoHitsAreNull(ReferenceStore):
    def search(self, body: Body) -> Body:
        return {"memories": super().search(body)["memories"] or None}


@caught_by("namespaces.patch_with_empty_metadata_clears", trap="1.2 metadata {} is no mutation")
class EmptyMetadataIsNoPatch(ReferenceStore):
    def patch_namespace(self, name: str, body: Body) -> Body:
        empty = body.get("metadata") == {}
        return super().patch_namespace(name, {key: body[key] for key in body if key != "metadata" or not empty})


class NameRuleOfMatch(ReferenceStore):
    """Lets a line end pass: `$` and match instead of fullmatch."""


def _plant_match() -> None:
    rule = re.compile(r"^[a-z]+:[A-Za-z0-9_:.\-]+$")

    class Matching:
        fullmatch = rule.match

    flat_plugin._NAME = Matching()  # type: ignore[assignment]


MUTANTS["NameRuleOfMatch"] = Mutant(
    "1.2 the rule of names lets a line end pass",
    frozenset({"namespaces.names_that_are_refused"}),
    NameRuleOfMatch,
    plant=_plant_match,
)


@caught_by("namespaces.kind_may_differ_from_the_prefix", trap="1.2 kind and prefix are held against each other")
class KindMustMatchThePrefix(ReferenceStore):
    def upsert_namespace(self, name: str, body: Body) -> Body:
        prefix = name.partition(":")[0]
        if prefix in flat_plugin.NAMESPACE_KINDS - {"custom"} and body.get("kind") in flat_plugin.NAMESPACE_KINDS:
            flat_plugin.choose(body, "kind", {prefix, "custom"})
        return super().upsert_namespace(name, body)


@caught_by("search.limits", trap="1.2 a limit of 0 is no limit of 20")
class LimitZeroIsNothing(ReferenceStore):
    def search(self, body: Body) -> Body:
        found = super().search(body)
        return {"memories": []} if body.get("limit") == 0 else found


@caught_by("writes.empty_embedding_is_none", trap="1.2 an embedding of no numbers is one")
class EmptyEmbeddingIsSearched(ReferenceStore):
    def ranked(self, found: list[Body], body: Body) -> list[Body]:
        return [] if body.get("embedding") == [] else super().ranked(found, body)


# -- 1.3 capabilities


@caught_by("ttl.past_memories_are_never_returned", "ttl.memories_expire", trap="1.3 expired until a janitor comes")
class ExpiredUntilAJanitorComes(ReferenceStore):
    def is_alive(self, memory: Body) -> bool:
        return self.is_namespace_alive(memory["namespace"])


@caught_by("ttl.expired_namespaces_are_not_read", trap="1.3 the namespace's expires_at is stored and not enforced")
class ExpiredNamespaceIsRead(ReferenceStore):
    def is_namespace_alive(self, name: str) -> bool:
        return name in self.namespaces


# -- 1.4 search


@caught_by("pin.first_by_text", "pin.first_by_vector", trap="1.4 the pin counts only without a score")
class PinOnlyInListings(ReferenceStore):
    def ordered(self, found: list[Body], *, is_scored: bool) -> list[Body]:
        if is_scored:
            return [one | {"pin": pin} for one, pin in self._unpinned(found)]
        return super().ordered(found, is_scored=is_scored)

    def _unpinned(self, found: list[Body]) -> list[tuple[Body, object]]:
        pins = {one["id"]: one["pin"] for one in found}
        ordered = super().ordered([one | {"pin": None} for one in found], is_scored=True)
        return [(one, pins[one["id"]]) for one in ordered]


@caught_by("fts.wildcards_are_letters", trap="1.4 % and _ are wildcards in a query of one letter")
class WildcardsOfLike(ReferenceStore):
    def has_letter(self, content: str, letter: str) -> bool:
        return letter in "%_" or super().has_letter(content, letter)


@caught_by("fts.blank_query_is_none", trap="1.4 a blank query matches nothing")
class BlankQueryMatchesNothing(ReferenceStore):
    def ranked(self, found: list[Body], body: Body) -> list[Body]:
        return [] if len(body.get("query", "")) > 1 and body["query"].isspace() else super().ranked(found, body)


@caught_by("fts.finds_by_stop_words", trap="1.4 a query of stop words matches nothing")
class StopWordsMatchNothing(ReferenceStore):
    def text_score(self, content: str, query: str) -> float:
        left = [word for word in query.split() if word not in STOP_WORDS]
        return super().text_score(content, " ".join(left)) if left else 0.0


@caught_by("fts.finds_by_one_cjk_character", trap="1.4 a character of three bytes goes to English words")
class CjkNeedsBlanks(ReferenceStore):
    def text_score(self, content: str, query: str) -> float:
        words = set(re.findall(r"\w+", content.casefold()))
        return float(any(word in words for word in re.findall(r"\w+", query.casefold())))


@caught_by(
    "search.listing_order_is_stable",
    "fts.order_is_stable",
    "search.several_namespaces_are_one_list",
    trap="1.4 no tiebreaker among memories of the same instant",
)
class OrderWithoutTiebreak(ReferenceStore):
    #: The same disorder at every run: chance alone is sometimes order.
    chance = random.Random(7)

    def ordered(self, found: list[Body], *, is_scored: bool) -> list[Body]:  # noqa: ARG002 - another mutant asks
        self.chance.shuffle(found)
        return sorted(found, key=lambda one: (bool(one["pin"]), one.get("score", 0), one["created_at"]), reverse=True)

    def write(self, name: str, body: Body) -> Body:
        """Round created_at to the second, as a coarse clock does."""
        written = super().write(name, body)
        memory = self.memories[name, written["id"]]
        memory["created_at"] = memory["created_at"][:19] + "Z"
        return written


@caught_by("search.several_namespaces_are_one_list", trap="1.4 no common order over namespaces")
class OneNamespaceAfterAnother(ReferenceStore):
    def ordered(self, found: list[Body], *, is_scored: bool) -> list[Body]:
        ordered = super().ordered(found, is_scored=is_scored)
        return sorted(ordered, key=lambda one: str(one["namespace"]))


@caught_by("ids.do_not_collide_in_parallel", trap="1.4 a hard cap, silently below the limit that was asked for")
class CapBelowTheLimit(ReferenceStore):
    def search(self, body: Body) -> Body:
        return {"memories": super().search(body)["memories"][:50]}


# -- 1.5 storage


@caught_by("ids.same_id_elsewhere_moves_nothing", trap="1.5 the same id elsewhere moves the memory")
class IdMovesBetweenNamespaces(ReferenceStore):
    def write(self, name: str, body: Body) -> Body:
        written = super().write(name, body)
        for key in [key for key in self.memories if key[1] == written["id"] and key[0] != name]:
            del self.memories[key]
        return written


@caught_by("namespaces.null_is_as_absent_in_an_upsert", trap="1.5 metadata null breaks the insert")
class NullMetadataIsInternal(ReferenceStore):
    def upsert_namespace(self, name: str, body: Body) -> Body:
        if "metadata" in body and body["metadata"] is None:
            raise INTERNAL
        return super().upsert_namespace(name, body)


def main() -> None:
    """Serve one of them until standard input ends."""
    name, away = sys.argv[1:]
    mutant = MUTANTS.get(name, Mutant("", frozenset()))
    mutant.plant()
    with FlatServer(("127.0.0.1", 0), mutant.store(Path(away)), mutant.handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
