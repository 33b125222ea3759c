"""PUT, PATCH and DELETE /v1/namespaces/{name}."""

import asyncio
from urllib.parse import quote
from uuid import uuid4

from producers.contract_kit.cases.clause import case
from producers.contract_kit.client import PluginReply
from producers.contract_kit.findings import as_text
from producers.contract_kit.probe import BAD_REQUEST, CREATED, NO_CONTENT, NOT_FOUND, OK, Probe
from producers.contract_kit.wire import LONGEST_NAME, NAMESPACE_KINDS, parse_instant, same_json

#: Percent-encoded as they stand in a path: each breaks the rule of names.
REFUSED_NAMES = (
    "nocolon",
    ":nothing-before",
    "custom:",
    "Custom:upper-case-before",
    "cus2tom:digit-before",
    "custom:a%20space",
    "custom:a%0A",
    "custom:%0A",
    "custom%253Aencoded-twice",
    "custom:%C3%A9",
    "custom:%D9%A3",
    "%D1%81ustom:look-alike",
    "custom:a%00",
    "custom:" + "n" * 250,
    "custom:" + "n" * 260,
)
METADATA = {"team": "Zürich", "limits": {"rows": 7, "none": None}, "tags": ["a", "b"], "on": True}
LATER, MUCH_LATER = "2098-05-04T09:08:28Z", "2099-05-04T09:08:28Z"
#: Longer than the second that a plugin's times may be rounded to.
A_SECOND_PASSES = 1.05


@case("1.1 PUT, 1.2 Namespace", mend="Answer 200 (not 201) with name, kind and created_at, for a new namespace too.")
async def test_upsert_answers_the_namespace(probe: Probe) -> None:
    """PUT is 200 with the namespace: its name, kind and created_at; what is unset is left out or null."""
    name = probe.names.new()
    answer = await probe.put(name, kind="workspace")
    if probe.expect(answer, OK):
        probe.judge(answer, f"`name` {name}", holds=answer.get("name") == name)
        probe.judge(answer, "`kind` workspace", holds=answer.get("kind") == "workspace")
        probe.judge(answer, "`created_at` in RFC 3339", holds=parse_instant(answer.get("created_at")) is not None)
        probe.judge(answer, "no `metadata`, for none was given", holds=not answer.get("metadata"))


@case("1.1 PUT", mend="Upsert: on conflict change the kind and keep created_at.")
async def test_upsert_again_keeps_created_at(probe: Probe) -> None:
    """PUT of a namespace that exists is 200, takes over the kind, keeps created_at and its memories."""
    name = probe.names.new()
    first = await probe.put(name, kind="custom")
    probe.require(first, OK)
    await probe.remember(name)
    await asyncio.sleep(A_SECOND_PASSES)
    again = await probe.put(name, kind="team")
    if probe.expect(again, OK):
        probe.judge(again, "`kind` team", holds=again.get("kind") == "team")
        created, kept = parse_instant(first.get("created_at")), parse_instant(again.get("created_at"))
        probe.judge(again, f"`created_at` {first.get('created_at')}", holds=created is not None and created == kept)
    listed = await probe.found(name)
    probe.judge_last("the one memory", holds=len(listed) == 1, saw=f"{len(listed)} memories")


@case(
    "1.1 PUT",
    mend="Callers upsert before every write with `kind` alone: write only the fields that are present, or each write "
    "clears what PATCH has set.",
)
async def test_upsert_keeps_what_it_does_not_name(probe: Probe) -> None:
    """PUT with `kind` alone keeps the metadata (and with ttl the expires_at) of a namespace that exists."""
    ttl = {"expires_at": LATER} if probe.claims("ttl") else {}
    name = await probe.namespace(metadata=METADATA, **ttl)
    answer = await probe.put(name, kind="custom")
    if probe.expect(answer, OK):
        _judge_metadata(probe, answer, METADATA)
    if ttl:
        _judge_expiry(probe, answer, LATER)


@case("1.2 NamespaceUpsert", mend="Accept the four kinds and answer anything else, none at all included, with 400.")
async def test_kinds(probe: Probe) -> None:
    """The kinds are workspace, team, org and custom; another one, or none, is 400."""
    for kind in NAMESPACE_KINDS:
        answer = await probe.put(probe.names.new(), kind=kind)
        probe.expect(answer, OK)
    for wrong in ({"kind": "group"}, {"kind": "Team"}, {"kind": ""}, {"kind": 1}, {"kind": None}, {}):
        answer = await probe.put(probe.names.new(), **wrong)
        probe.expect(answer, BAD_REQUEST, code="bad_request")


@case("1.2 Namespace name", mend="The part before the colon is part of the name: do not hold it against the kind.")
async def test_kind_may_differ_from_the_prefix(probe: Probe) -> None:
    """The kind and what stands before the colon of the name need not agree."""
    probe.expect(await probe.put(probe.names.new(prefix="team"), kind="org"), OK)
    probe.expect(await probe.put(probe.names.new(prefix="anything"), kind="workspace"), OK)


@case("1.2 Namespace name", mend="The rule is ^[a-z]+:[A-Za-z0-9_:.\\-]+$ and at most 256 bytes; 256 is allowed.")
async def test_names_that_are_accepted(probe: Probe) -> None:
    """Every name that keeps the rule is accepted, up to 256 bytes, and holds memories."""
    for prefix, ending in (
        ("workspace", f":{uuid4()}"),
        ("org", "-Acme-Corp"),
        ("custom", ".abc.def"),
        ("team", ":abc:def"),
        ("custom", "_under_score"),
        ("a", "-1"),
    ):
        name = probe.names.new(prefix=prefix, ending=ending)
        answer = await probe.put(name, kind="custom")
        if probe.expect(answer, OK):
            probe.judge(answer, f"`name` {name}", holds=answer.get("name") == name)
            probe.expect(await probe.write(name), CREATED)
    probe.expect(await probe.put(probe.names.new(length=LONGEST_NAME), kind="custom"), OK)


@case(
    "1.2 Namespace name",
    mend="Match the whole name (Python: fullmatch, for `$` lets a line end pass), ASCII only, after decoding the path "
    "once; hold every place a name may come in to the same rule.",
)
async def test_names_that_are_refused(probe: Probe) -> None:
    """A name that breaks the rule is 400, in the path as in a body; one with a slash may be 404, too."""
    for name in REFUSED_NAMES:
        answer = await probe.send("PUT", f"/v1/namespaces/{name}", {"kind": "custom"})
        if not probe.expect(answer, BAD_REQUEST, code="bad_request"):
            await probe.send("DELETE", f"/v1/namespaces/{name}")
    slashed = await probe.send("PUT", "/v1/namespaces/custom:a%2Fb", {"kind": "custom"})
    probe.expect(slashed, BAD_REQUEST, NOT_FOUND)
    for name in ("nocolon", "custom:a\n", "Custom:a", "custom:é"):
        encoded = quote(name)
        for method, body in (("PATCH", {"metadata": {}}), ("DELETE", None)):
            answer = await probe.send(method, f"/v1/namespaces/{encoded}", body)
            probe.expect(answer, BAD_REQUEST, code="bad_request")
        memory = {"content": "x", "kind": "fact", "source": "agent"}
        written = await probe.send("POST", f"/v1/namespaces/{encoded}/memories", memory)
        probe.expect(written, BAD_REQUEST, code="bad_request")
        probe.expect(await probe.search(name), BAD_REQUEST, code="bad_request")
        probe.expect(await probe.forget(str(uuid4()), name), BAD_REQUEST, code="bad_request")


@case("1.1", mend="Decode the path's segments once, after splitting it: `custom%3Aa` and `custom:a` are one name.")
async def test_names_may_be_percent_encoded(probe: Probe) -> None:
    """A name is the same whether its colon comes as it is or as %3A, on every route."""
    name = await probe.namespace()
    path = f"/v1/namespaces/{quote(name, safe='')}"
    upserted = await probe.send("PUT", path, {"kind": "custom"})
    if probe.expect(upserted, OK):
        probe.judge(upserted, f"`name` {name}", holds=upserted.get("name") == name)
    memory = {"content": "encoded", "kind": "fact", "source": "agent"}
    probe.expect(await probe.send("POST", f"{path}/memories", memory), CREATED)
    listed = await probe.found(name)
    probe.judge_last("the memory written to the encoded name", holds=len(listed) == 1, saw=f"{len(listed)} memories")
    probe.expect(await probe.send("PATCH", path, {"metadata": {"a": 1}}), OK)
    probe.expect(await probe.send("DELETE", path), NO_CONTENT)


@case("1.2 NamespaceUpsert", mend="Keep metadata as JSON and return it as it came; refuse what is no object.")
async def test_metadata_comes_back(probe: Probe) -> None:
    """Metadata is any JSON object and comes back equal; something else is 400."""
    name = probe.names.new()
    answer = await probe.put(name, kind="custom", metadata=METADATA)
    if probe.expect(answer, OK):
        _judge_metadata(probe, answer, METADATA)
    wrongs: tuple[object, ...] = ([], "text", 7)
    for wrong in wrongs:
        answer = await probe.put(probe.names.new(), kind="custom", metadata=wrong)
        probe.expect(answer, BAD_REQUEST, code="bad_request")


@case("1.2 NamespaceUpsert, 1.5", mend="Null is as good as absent: send a JSON null to the store, and read it so.")
async def test_null_is_as_absent_in_an_upsert(probe: Probe) -> None:
    """`metadata` and `expires_at` may be null in a PUT: 200, and neither is set."""
    answer = await probe.put(probe.names.new(), kind="custom", metadata=None, expires_at=None)
    if probe.expect(answer, OK):
        probe.judge(answer, "no `metadata`", holds=answer.get("metadata") is None)
        probe.judge(answer, "no `expires_at`", holds=answer.get("expires_at") is None)


@case("1.1 PATCH", mend="Change only the fields that the body has.")
async def test_patch_changes_only_what_it_names(probe: Probe) -> None:
    """PATCH is 200 with the namespace and leaves kind, created_at and every field it does not name as they are."""
    name = probe.names.new()
    ttl = {"expires_at": LATER} if probe.claims("ttl") else {}
    before = await probe.put(name, kind="org", metadata={"a": 1}, **ttl)
    probe.require(before, OK)
    answer = await probe.patch(name, metadata={"b": 2})
    if probe.expect(answer, OK):
        _judge_metadata(probe, answer, {"b": 2})
        probe.judge(answer, "`kind` org", holds=answer.get("kind") == "org")
        same = parse_instant(answer.get("created_at")) == parse_instant(before.get("created_at"))
        probe.judge(answer, f"`created_at` {before.get('created_at')}", holds=same)
    if ttl:
        _judge_expiry(probe, answer, LATER)
        answer = await probe.patch(name, expires_at=MUCH_LATER)
        _judge_expiry(probe, answer, MUCH_LATER)
        _judge_metadata(probe, answer, {"b": 2})


@case("1.1 PATCH", mend="Tell a field that is null (clear it) from one that is absent (leave it).")
async def test_patch_with_null_clears(probe: Probe) -> None:
    """A null in a PATCH clears the field: metadata, and with ttl expires_at."""
    ttl = {"expires_at": LATER} if probe.claims("ttl") else {}
    name = await probe.namespace(metadata={"a": 1}, **ttl)
    if ttl:
        answer = await probe.patch(name, expires_at=None)
        if probe.expect(answer, OK):
            probe.judge(answer, "no `expires_at`", holds=answer.get("expires_at") is None)
            _judge_metadata(probe, answer, {"a": 1})
    answer = await probe.patch(name, metadata=None)
    if probe.expect(answer, OK):
        probe.judge(answer, "no `metadata`", holds=not answer.get("metadata"))


@case("1.2 NamespacePatch", mend="`metadata: {}` names a field: it clears the metadata and is no empty patch.")
async def test_patch_with_empty_metadata_clears(probe: Probe) -> None:
    """PATCH with `metadata` {} is 200 and clears the metadata."""
    name = await probe.namespace(metadata={"a": 1})
    answer = await probe.patch(name, metadata={})
    if probe.expect(answer, OK):
        probe.judge(answer, "no `metadata`, or {}", holds=not answer.get("metadata"))


@case("1.2 NamespacePatch", mend="A patch that names none of its two fields is a bad request.")
async def test_patch_must_name_a_field(probe: Probe) -> None:
    """PATCH with {} is 400."""
    name = await probe.namespace(metadata={"a": 1})
    probe.expect(await probe.patch(name), BAD_REQUEST, code="bad_request")


@case("1.1 PATCH, DELETE", mend="A namespace that was never upserted, or was deleted, does not exist: 404.")
async def test_unknown_namespaces_are_404(probe: Probe) -> None:
    """PATCH and DELETE of a namespace that does not exist are 404 not_found."""
    name = probe.names.new()
    probe.expect(await probe.patch(name, metadata={"a": 1}), NOT_FOUND, code="not_found")
    probe.expect(await probe.delete(name), NOT_FOUND, code="not_found")


@case("1.1 DELETE", mend="Delete a namespace's memories with it (on delete cascade); leave every other one alone.")
async def test_delete_takes_the_memories(probe: Probe) -> None:
    """DELETE is 204, then 404; the memories are gone for good, those of other namespaces stay."""
    name, other = await probe.namespace(), await probe.namespace()
    await probe.remember(name)
    await probe.remember(other)
    probe.expect(await probe.delete(name), NO_CONTENT)
    gone = await probe.found(name, other)
    seen = [one["namespace"] for one in gone]
    probe.judge_last(f"the memory of {other} alone", holds=seen == [other], saw=f"memories of {seen}")
    probe.expect(await probe.write(name), NOT_FOUND, code="not_found")
    probe.expect(await probe.delete(name), NOT_FOUND, code="not_found")
    probe.expect(await probe.put(name, kind="custom"), OK)
    again = await probe.found(name)
    probe.judge_last("no memory in the namespace made anew", holds=again == [], saw=f"{len(again)} memories")


def _judge_metadata(probe: Probe, answer: PluginReply, expected: object) -> None:
    probe.judge(answer, f"`metadata` {as_text(expected)}", holds=same_json(answer.get("metadata"), expected))


def _judge_expiry(probe: Probe, answer: PluginReply, expected: str) -> None:
    holds = parse_instant(answer.get("expires_at")) == parse_instant(expected)
    probe.judge(answer, f"`expires_at` {expected}", holds=holds)
