"""Capability `fts`: a query arrives. How a plugin matches is its own choice; that it matches is not."""

from uuid import uuid4

from producers.contract_kit.cases.clause import case
from producers.contract_kit.findings import as_text
from producers.contract_kit.probe import OK, Probe, memory_contents, memory_ids

#: Signs that mean something to one search engine or another.
SYNTAX = ('"', '"aardvark', "'", "aardvark AND", "NOT", "OR OR", "(", "aardvark)", "*", "aard*", "content:aardvark")
MORE_SYNTAX = ("\\", "a & | ! b", "-", "--", "<->", "^2", "~", "aardvark/", "[", "{}", "$$", "%%", "__", "+", "?")


@case("1.3, 1.4 (2)", "fts", mend="Match the query against the content and return the best match first.")
async def test_finds_by_word(probe: Probe) -> None:
    """A query returns the memory that has its word before all others, an old one, too."""
    namespace = await probe.namespace()
    wanted = await probe.remember(namespace, "The aardvark sleeps in the cellar.")
    await probe.remember(namespace, "Breakfast is served at eight.")
    await probe.remember(namespace, "The invoice was paid on Monday.")
    for query in ("aardvark", "Aardvark"):
        seen = memory_ids(await probe.found(namespace, query=query, limit=1))
        probe.judge_last(f"{wanted}, the memory with the aardvark", holds=seen == [wanted.lower()], saw=seen)


@case("1.2, 1.4", "fts", mend="Filter by namespace and kind in the text search as in the listing, before the limit.")
async def test_keeps_the_filters(probe: Probe) -> None:
    """A search by text returns nothing of other namespaces and of no other kind."""
    namespace, other = await probe.namespace(), await probe.namespace()
    wanted = await probe.remember(namespace, "An aardvark", kind="summary")
    await probe.remember(namespace, "The aardvark, aardvark, aardvark", kind="fact")
    await probe.remember(other, "The aardvark, aardvark, aardvark", kind="summary")
    seen = memory_ids(await probe.found(namespace, query="aardvark", kinds=["summary"]))
    probe.judge_last(f"{wanted} alone", holds=seen == [wanted.lower()], saw=seen)


@case("1.4 (3)", "fts", mend="A query of one letter is a search, too: by substring, without regard to case.")
async def test_finds_by_one_letter(probe: Probe) -> None:
    """A query of one byte finds the memory that has it as a word, in either case."""
    namespace = await probe.namespace()
    wanted = await probe.remember(namespace, "Plan Q is approved.")
    await probe.remember(namespace, "The tea is here.")
    for query in ("q", "Q"):
        seen = memory_ids(await probe.found(namespace, query=query))
        probe.judge_last(f"{wanted}, 'Plan Q'", holds=wanted.lower() in seen, saw=seen)


@case("1.4", "fts", mend="Escape %, _ and the escape character before a query reaches LIKE (or do not use LIKE).")
async def test_wildcards_are_letters(probe: Probe) -> None:
    """The queries `%` and `_` find no memory that does not have the sign."""
    namespace = await probe.namespace()
    await probe.remember(namespace, "a discount of 50 % on snake_case")
    await probe.remember(namespace, "nothing of the kind")
    for query in ("%", "_"):
        seen = memory_contents(await probe.found(namespace, query=query))
        probe.judge_last(f"no memory without {query!r}", holds="nothing of the kind" not in seen, saw=seen)


@case("1.4", "fts", mend="Where nothing is left of a query after stop words, search for the words as they are.")
async def test_finds_by_stop_words(probe: Probe) -> None:
    """A query made of nothing but stop words finds the memory that has exactly these."""
    namespace = await probe.namespace()
    wanted = await probe.remember(namespace, "To be, or not to be")
    seen = memory_ids(await probe.found(namespace, query="to be or not to be"))
    probe.judge_last(f"{wanted}, 'To be, or not to be'", holds=seen == [wanted.lower()], saw=seen)


@case("1.4", "fts", mend="Languages without blanks need substrings or n-grams; one character is three bytes there.")
async def test_finds_by_one_cjk_character(probe: Probe) -> None:
    """A query of one Chinese or Japanese character, or of a word in a sentence, finds the memory that has it."""
    namespace = await probe.namespace()
    wanted = await probe.remember(namespace, "来週の会議は東京で行われる")
    for query in ("東", "会議"):
        seen = memory_ids(await probe.found(namespace, query=query))
        probe.judge_last(f"{wanted}, the memory with {query}", holds=seen == [wanted.lower()], saw=seen)


@case("1.4", "fts", mend="Trim the query; where nothing is left of it, list the memories.")
async def test_blank_query_is_none(probe: Probe) -> None:
    """A query of nothing but white space is as good as absent: the memories are listed."""
    namespace = await probe.namespace()
    written = sorted([(await probe.remember(namespace)).lower() for _ in range(2)])
    for query in ("  ", " \t\n "):
        seen = sorted(memory_ids(await probe.found(namespace, query=query)))
        probe.judge_last("both memories", holds=seen == written, saw=seen)


@case("1.4", "fts", mend="A query is text, not your search engine's language: quote it, or use its plain parser.")
async def test_query_is_no_language(probe: Probe) -> None:
    """No sign of a query makes a search fail, and beside the word it still finds it."""
    namespace = await probe.namespace()
    wanted = await probe.remember(namespace, "The aardvark sleeps in the cellar.")
    for query in (*SYNTAX, *MORE_SYNTAX, "aardvark " * 100):
        probe.expect(await probe.search(namespace, query=query), OK)
    for query in ('"aardvark"', "aardvark?", "(aardvark)"):
        seen = memory_ids(await probe.found(namespace, query=query))
        probe.judge_last(f"{wanted}, the aardvark", holds=wanted.lower() in seen, saw=seen)


@case("1.1 POST search", "fts", mend="Refuse with 400 what the store cannot look for, or find nothing: never a 5xx.")
async def test_unusual_query_is_no_failure(probe: Probe) -> None:
    """NUL or half a surrogate pair in a query is 200 or 400: never a 5xx."""
    namespace = await probe.namespace()
    for query in (rb"a\u0000b", rb"\u0000", rb"a\ud800b"):
        body = b'{"namespaces": ["' + namespace.encode() + b'"], "query": "' + query + b'"}'
        probe.expect_no_failure(await probe.send("POST", "/v1/search", body), OK)


@case("1.4", "fts", mend="End the order by rank with created_at and the id: equal ranks otherwise change places.")
async def test_order_is_stable(probe: Probe) -> None:
    """The same query again has the same order, also among memories that match equally well."""
    namespace = await probe.namespace()
    for answer in await probe.together(*(probe.write(namespace, "aardvark", id=str(uuid4())) for _ in range(12))):
        probe.require(answer, 201)
    first = memory_ids(await probe.found(namespace, query="aardvark"))
    probe.judge_last("all twelve", holds=len(first) == 12, saw=f"{len(first)} memories")  # noqa: PLR2004 - it wrote twelve
    for _ in range(4):
        again = memory_ids(await probe.found(namespace, query="aardvark"))
        probe.judge_last(f"the order {as_text(first)}", holds=again == first, saw=again)
