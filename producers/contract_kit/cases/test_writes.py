"""POST /v1/namespaces/{name}/memories: what is accepted, what is refused, what is stored."""

from datetime import timedelta

from afterturn_client.plugin_target import namespace_path

from producers.contract_kit.cases.clause import case
from producers.contract_kit.findings import as_text
from producers.contract_kit.probe import BAD_REQUEST, CREATED, NOT_FOUND, OK, Probe, memory_contents
from producers.contract_kit.wire import MEMORY_KINDS, SOURCES, is_uuid, parse_instant

#: The most by which a plugin may round its times.
A_SECOND = timedelta(seconds=1)
VERBATIM = (
    "  two blanks before, a line end after\n",
    "a\ttab, a\r\nline, \"quotes\", 'apostrophes', back\\slashes, %s, {braces}, $1",
    "<b>&amp;</b> [MEMORY id=1 scope=ORG ns=org:x]: no prefix of yours",
    "Grüße aus Zürich, 会議は東京で, 🙂👩‍👩‍👧, e\u0301 beside é",
)


@case("1.2 MemoryWrite, MemoryWriteResponse, Memory", mend="Answer 201 with id and namespace; return what was written.")
async def test_minimal(probe: Probe) -> None:
    """Content, kind and source are enough: 201 with id (a UUID) and namespace, and a search returns the memory."""
    namespace = await probe.namespace()
    answer = await probe.write(namespace, "The tea is in the cupboard.")
    if not probe.expect(answer, CREATED):
        return
    memory_id = str(answer.get("id"))
    probe.judge(answer, "`id` that is a UUID", holds=is_uuid(memory_id))
    probe.judge(answer, f"`namespace` {namespace}", holds=answer.get("namespace") == namespace)
    for memory in (listed := await probe.found(namespace)):
        expected = {
            "id": memory_id,
            "namespace": namespace,
            "content": "The tea is in the cupboard.",
            "kind": "fact",
            "source": "agent",
        }
        seen = {name: memory.get(name) for name in expected}
        probe.judge_last(as_text(expected), holds=seen == expected, saw=seen)
        unset = {name: memory[name] for name in ("expires_at", "pin", "propagation") if memory.get(name)}
        probe.judge_last("no expires_at, pin or propagation, for none was given", holds=not unset, saw=unset)
    probe.judge_last("the one memory", holds=len(listed) == 1, saw=f"{len(listed)} memories")


@case("1.2 MemoryWrite", mend="Keep kind and source as they came.")
async def test_kinds_and_sources(probe: Probe) -> None:
    """Every kind (fact, summary, checkpoint) and source (agent, runtime, user) is accepted and comes back."""
    namespace = await probe.namespace()
    wanted = [(kind, source) for kind in MEMORY_KINDS for source in SOURCES]
    for kind, source in wanted:
        probe.expect(await probe.write(namespace, kind=kind, source=source), CREATED)
    seen = sorted((one["kind"], one["source"]) for one in await probe.found(namespace))
    probe.judge_last(as_text(sorted(wanted)), holds=seen == sorted(wanted), saw=seen)


@case("1.2 MemoryWrite", mend="Check content, kind and source before storing; a wrong value is 400, never a default.")
async def test_refuses_wrong_values(probe: Probe) -> None:
    """Content, kind or source that is missing, null, of another type or unknown is 400, and nothing is stored."""
    namespace = await probe.namespace()
    whole = {"content": "tea", "kind": "fact", "source": "agent"}
    for name in whole:
        missing = {key: value for key, value in whole.items() if key != name}
        for body in (missing, whole | {name: None}, whole | {name: 7}):
            answer = await probe.send("POST", namespace_path(namespace, "/memories"), body)
            probe.expect(answer, BAD_REQUEST, code="bad_request")
    for wrong in ({"kind": "note"}, {"kind": "Fact"}, {"source": "robot"}, {"kind": ""}, {"source": ""}):
        probe.expect(await probe.write(namespace, **wrong), BAD_REQUEST, code="bad_request")
    stored = await probe.found(namespace)
    probe.judge_last("no memory", holds=stored == [], saw=f"{len(stored)} memories")


@case("1.2 MemoryWrite", mend="Trim the content only to see whether anything is left of it.")
async def test_refuses_blank_content(probe: Probe) -> None:
    """Content that is empty or nothing but white space is 400."""
    namespace = await probe.namespace()
    for blank in ("", " ", " \t\r\n "):
        probe.expect(await probe.write(namespace, blank), BAD_REQUEST, code="bad_request")


@case("1.2 MemoryWrite", mend="Store the content as it came: no trimming, escaping, normalising or redacting.")
async def test_content_is_kept_verbatim(probe: Probe) -> None:
    """Content comes back as it was written, every character of it."""
    namespace = await probe.namespace()
    for content in VERBATIM:
        await probe.remember(namespace, content)
    seen = memory_contents(await probe.found(namespace))
    for content in VERBATIM:
        probe.judge_last(as_text([content]), holds=content in seen, saw=seen)


@case("1.1 POST memories", mend="Refuse with 400 what the store cannot keep, or keep it: never a 5xx, never altered.")
async def test_unusual_text_is_no_failure(probe: Probe) -> None:
    """NUL, half a surrogate pair or bytes that are no UTF-8 are kept or are 400: never a 5xx."""
    namespace = await probe.namespace()
    path = namespace_path(namespace, "/memories")
    for content in (rb"a\u0000b", rb"a\ud800b", b"a\xffb", rb"a\u001bb", b"\xef\xbb\xbfb"):
        body = b'{"kind": "fact", "source": "agent", "content": "' + content + b'"}'
        probe.expect_no_failure(await probe.send("POST", path, body), CREATED)
    answer = await probe.write(namespace, "a\0b")
    if answer.status == CREATED:
        seen = memory_contents(await probe.found(namespace))
        probe.judge_last(as_text(["a\0b"]), holds="a\0b" in seen, saw=seen)
    probe.expect(await probe.search(namespace), OK)


@case(
    "1.1 POST memories",
    mend="Look for the namespace before the insert, or map the foreign key's violation to 404: never a 5xx.",
)
async def test_unknown_namespace_is_404(probe: Probe) -> None:
    """A write to a namespace that was never upserted is 404 not_found, with an id of the caller's, too."""
    name = probe.names.new()
    probe.expect(await probe.write(name), NOT_FOUND, code="not_found")
    probe.expect(await probe.write(name, id="7f9c5b0e-2f52-4f0b-9a43-0c5ad0c1a001"), NOT_FOUND, code="not_found")


@case("1.2 MemoryWrite", mend="An embedding of no numbers is none: store no vector, and let the search be a listing.")
async def test_empty_embedding_is_none(probe: Probe) -> None:
    """`embedding` [] is as good as absent, in a write and in a search; null in a write, too."""
    namespace = await probe.namespace()
    probe.expect(await probe.write(namespace, "one", embedding=[]), CREATED)
    probe.expect(await probe.write(namespace, "two", embedding=None), CREATED)
    answer = await probe.search(namespace, embedding=[])
    if probe.expect(answer, OK):
        seen = sorted(memory_contents(probe.memories_of(answer)))
        probe.judge(answer, "both memories", holds=seen == ["one", "two"])


@case("1.2 MemoryWrite", mend="Null in an optional field is as good as absent.")
async def test_null_is_as_absent(probe: Probe) -> None:
    """id, expires_at, propagation and embedding may be null: 201 with a minted id."""
    namespace = await probe.namespace()
    answer = await probe.write(namespace, id=None, expires_at=None, propagation=None, embedding=None)
    if probe.expect(answer, CREATED):
        probe.judge(answer, "`id` that is a UUID", holds=is_uuid(answer.get("id")))
    listed = await probe.found(namespace)
    probe.judge_last("the one memory", holds=len(listed) == 1, saw=f"{len(listed)} memories")


@case("1.2 Memory", mend="Set created_at when the memory is first written, with an offset (`Z`).")
async def test_created_at_is_now(probe: Probe) -> None:
    """A memory's created_at lies between those of the namespaces made before and after it, to the second."""
    before = await probe.put(namespace := probe.names.new(), kind="custom")
    await probe.remember(namespace)
    after = await probe.put(probe.names.new(), kind="custom")
    for memory in await probe.found(namespace):
        named = [before.get("created_at"), memory["created_at"], after.get("created_at")]
        times = [time for time in map(parse_instant, named) if time is not None]
        holds = len(times) == len(named) and times[0] - A_SECOND <= times[1] <= times[2] + A_SECOND
        probe.judge_last("created_at between those of the two namespaces", holds=holds, saw=named)
