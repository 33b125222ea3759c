"""Secrets are replaced, and paths, hashes and names are not."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.tenancy.tokens import KEY_PREFIXES, new_token
from store.text import redaction, secret_rules
from store.text.redaction import Redaction, find_secrets, redact_secrets
from store.text.secret_rules import read_forms
from tests.examples import examples
from tests.figures import FIGURE
from tests.growth import PIECES, grows_with_its_text, outgrowing
from tests.store.text.labelled_texts import HARMLESS, Labelled, secrets
from tests.tables import each_row

LEAST_RECALL, MANY_LINES = 0.97, 1000
OWN_KEY = "at_0123456789abcdefABCDEF-_"
#: With these, a careless rule reads a text to its end from each of its places.
BEGINNINGS = (
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN OPENSSH PRIVATE KEY-----\n", "-----END ", "-----BEGIN A ", "----"),
    *("postgres://a:", "postgres://", "redis://:", "https://a:", "a_API_KEY", "_token", "_TOKEN=", 'x_secret:"', "_"),
    *("Authorization: ", "bearer ", "Bearer a1", "sk-", "sk-a-", "ghp_", "vc_", "eyJ", "eyJa.", "AKIA", "Aa0", "Aa/"),
    *(
        "-eyJ",
        "_eyJ",
        ".eyJ",
        "eyJhbGciOiJI.",
        "xoxb-",
        "[REDACTED:TOKEN]",
        "MIIEvQIBADANBgkqhkiG9w0B",
        "MIIEvQIBADANBgkqhkiG9w0B\n",
        "at_",
        "\\n",
        "=",
    ),
)


def test_secrets_are_found_and_what_only_looks_like_them_is_left(
    record_property: Callable[[str, object], None],
) -> None:
    labelled = list(secrets())
    missed = [one for one in labelled if one.secret in redact_secrets(one.text, Redaction.ALL)]
    eaten = [line for line in HARMLESS if redact_secrets(line, Redaction.ALL) != line]
    recall = 1 - len(missed) / len(labelled)
    figure = f"redaction: recall {recall:.4f} of {len(labelled)}, false positives {len(eaten)} of {len(HARMLESS)}"
    record_property(FIGURE, figure)
    assert Counter(one.label for one in missed) <= Counter(BASE64_BLOB=len(labelled) // 200), missed
    assert eaten == []


#: Kinds of the labelled list that stand for several labels.
MIXED = {"PASSWORDS", "OTHERS", "OF_SERVICES", "ASSIGNED", "SLACK_APP", "GITLAB_PIPELINE", "AZURE_SECRET"}


def test_each_kind_of_the_contract_has_its_label() -> None:
    for one in (one for one in secrets() if one.label not in MIXED):
        labels = {found.label for found in find_secrets(one.text, Redaction.ALL)}
        assert one.label in labels or ambiguous(one), (one, labels)


def ambiguous(one: Labelled) -> bool:
    """Say whether a random run fell below what is taken for one, as a few of a hundred do."""
    return one.label == "BASE64_BLOB"


def test_the_name_of_an_assignment_stays_and_its_value_goes() -> None:
    text = 'OPENAI_API_KEY=abc123def and "access_token": "0123456789abc" are set'
    assert redact_secrets(text) == 'OPENAI_API_KEY=[REDACTED:API_KEY] and "access_token": [REDACTED:TOKEN] are set'


def test_the_callers_own_key_is_replaced_wherever_it_stands() -> None:
    text = f"I use {OWN_KEY} ({OWN_KEY}), and x{OWN_KEY}x"
    assert (
        redact_secrets(text, own_keys=[OWN_KEY])
        == "I use [REDACTED:OWN_KEY] ([REDACTED:OWN_KEY]), and x[REDACTED:OWN_KEY]x"
    )


def test_credentials_are_found_without_the_search_for_random_text() -> None:
    labelled = [one for one in secrets() if one.label != "BASE64_BLOB"]
    missed = [one.text for one in labelled if one.secret in redact_secrets(one.text)]
    assert len(missed) <= len(labelled) * (1 - LEAST_RECALL), missed


def test_of_a_thousand_lines_of_code_and_prose_at_most_one_is_touched(
    record_property: Callable[[str, object], None],
) -> None:
    root = Path(redaction.__file__).parents[2]
    files = [file for kind in ("*.py", "*.md", "*.sql") for file in sorted((root / "store").rglob(kind))]
    files += sorted((root / "docs").glob("*.md")) + sorted((root / "producers").rglob("*.py"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    touched = [line for line in lines if find_secrets(line)]
    record_property(FIGURE, f"redaction: {len(touched)} of {len(lines)} lines of code and prose touched")
    assert len(lines) >= MANY_LINES
    assert len(touched) <= len(lines) / 1000, touched


def test_our_own_forms_are_those_that_our_code_makes() -> None:
    for prefix in KEY_PREFIXES:
        token = new_token(prefix)
        assert token not in redact_secrets(f"I use {token} here")


def widen(text: str) -> str:
    """Return a text in full-width characters."""
    return text.translate({ord(one): ord(one) + 0xFEE0 for one in text if one != " "})


def test_full_width_letters_hide_no_secret() -> None:
    token = "ghp_" + "a1B2" * 9
    assert redact_secrets(f"see {widen(token)} there") == "see [REDACTED:GITHUB_TOKEN] there"
    assert redact_secrets(widen("password=") + "hunter22") == widen("password=") + "[REDACTED:PASSWORD]"
    assert redact_secrets(widen("hello, no secret")) == widen("hello, no secret")


def test_a_token_whose_second_line_begins_with_a_sign_is_replaced_whole() -> None:
    token = next(one for one in iter(lambda: new_token("op_"), "") if "-" in one[4:30])
    place = token.index("-", 4)
    for end in ("\n", "\\n", "\n> ", "\n    "):
        found = redact_secrets(f"it is {token[:place]}{end}{token[place:]} they say")
        assert token[:place] not in found
        assert token[place + 1 :] not in found


@each_row(
    "end",
    [
        *("\n", "\r\n", "\\\n", "\n    ", "\n> ", "\\n", "\r", "\u2028", "\\r\\n", "\\\\n", "\n# ", "\n  13\t", "`\n"),
        *(" _\n", "-\n", "=\n", "<br>", "<br />\n", "<wbr>", '" + "', '" +\n  "', '"\n    "', "' . '", "\x1b[31;1m"),
        *("\u200b", "\u00ad", "\ufeff", "\u200e", "&shy;", "&#8203;"),
    ],
)
def test_a_token_that_a_line_end_breaks_is_replaced_whole(end: str) -> None:
    tokens = ["ghp_" + "a1B2" * 9, "AKIA" + "A1B2" * 4]
    if end[0] not in "-=":  # ours hold such signs
        tokens += [new_token("op_"), new_token("at_")]
    for token in tokens:
        for place in (8, len(token) // 2, len(token) - 4):
            text = f"it is {token[:place]}{end}{token[place:]} they say"
            found = redact_secrets(text)
            assert token[:place] not in found
            assert token[place:] not in found
            assert found.startswith("it is [REDACTED:")
            assert found.endswith("] they say")
    key = "a-key-of-the-caller-0123456789"
    assert redact_secrets(f"it is {key[:9]}{end}{key[9:]} here", own_keys=[key]) == "it is [REDACTED:OWN_KEY] here"


@each_row(
    "change",
    [
        lambda text: "".join(f"&#{ord(sign)};" for sign in text),
        lambda text: "".join(f"\\u{ord(sign):04x}" for sign in text),
        lambda text: text.replace("_", "%5F"),
        lambda text: text.replace("_", "\\_"),
        lambda text: text.translate({ord(one): 0x1D41A + ord(one) - ord("a") for one in "ghpa"}),
    ],
)
def test_a_token_in_escapes_or_styled_letters_is_replaced_whole(change: Callable[[str], str]) -> None:
    token = change("ghp_" + "a1B2" * 9)
    assert redact_secrets(f"it is {token} they say") == "it is [REDACTED:GITHUB_TOKEN] they say"
    assert redact_secrets(f"{'words ' * 900}{token} said") == f"{'words ' * 900}[REDACTED:GITHUB_TOKEN] said"


def test_a_word_on_the_line_behind_a_whole_token_stays() -> None:
    token = "ghp_" + "a1B2" * 9
    assert redact_secrets(f"{token}\nThen we went home") == "[REDACTED:GITHUB_TOKEN]\nThen we went home"


def test_every_form_names_where_it_is_documented_and_redacts_what_it_matches() -> None:
    assert all(form.source.startswith("https://") or form.source for form in read_forms())
    assert len({form.pattern for form in read_forms()}) == len(read_forms())
    assert all(form.hint == form.hint.lower() and form.hint for form in read_forms())


def test_an_own_key_that_could_be_a_word_is_not_looked_for() -> None:
    assert redact_secrets("my key is short", own_keys=["", "key"]) == "my key is short"


def test_the_level_says_how_much_is_replaced() -> None:
    blob = "the run is Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA"
    keys = "X_TOKEN=abcdefgh1"
    assert redact_secrets(f"{keys} {blob}", Redaction.OFF, ["the run is"]) == f"{keys} {blob}"
    assert redact_secrets(f"{keys} {blob}", Redaction.KEYS) == f"X_TOKEN=[REDACTED:TOKEN] {blob}"
    assert (
        redact_secrets(f"{keys} {blob}", Redaction.ALL) == "X_TOKEN=[REDACTED:TOKEN] the run is [REDACTED:BASE64_BLOB]"
    )


def test_a_private_key_is_replaced_whole_and_what_stands_around_it_stays() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n" * 20
    whole = f"-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----"
    assert redact_secrets(f"before\n{whole}\nafter") == "before\n[REDACTED:PRIVATE_KEY]\nafter"
    assert (
        redact_secrets(f"-----BEGIN PRIVATE KEY-----\n{body}It was cut off.")
        == "[REDACTED:PRIVATE_KEY]\nIt was cut off."
    )


def test_secrets_are_told_where_they_stand() -> None:
    text = "a ghp_0123456789abcdefghij b AKIA0123456789ABCDEF c"
    found = find_secrets(text)
    assert [(one.label, text[one.start : one.end]) for one in found] == [
        ("GITHUB_TOKEN", "ghp_0123456789abcdefghij"),
        ("AWS_ACCESS_KEY_ID", "AKIA0123456789ABCDEF"),
    ]


def test_a_labelled_text_that_was_redacted_stays_as_it_is() -> None:
    for one in secrets():
        once = redact_secrets(one.text, Redaction.ALL)
        assert redact_secrets(once, Redaction.ALL) == once


@given(st.lists(st.sampled_from((*BEGINNINGS, *PIECES, OWN_KEY, "abcdef123456", "@host", "\n", " ")), max_size=12))
def test_a_text_that_was_redacted_stays_as_it_is(pieces: list[str]) -> None:
    once = redact_secrets("".join(pieces), Redaction.ALL, [OWN_KEY])
    assert redact_secrets(once, Redaction.ALL, [OWN_KEY]) == once
    assert OWN_KEY not in once


@pytest.mark.parametrize("own_keys", [(), (OWN_KEY, "aaaaaaaa")])
def test_the_time_grows_with_the_text(own_keys: tuple[str, ...]) -> None:
    assert outgrowing(lambda text: redact_secrets(text, Redaction.ALL, own_keys), (*BEGINNINGS, *PIECES)) == []


@pytest.mark.parametrize("piece", ["password=", "a", "1", "!a", "aB", "-"])
def test_a_long_value_is_judged_in_linear_time(piece: str) -> None:
    judges = (
        secret_rules.is_value,
        secret_rules.is_mixed,
        secret_rules.is_password,
        secret_rules.is_signed_password,
    )
    assert [judge for judge in judges if not grows_with_its_text(judge, piece, long=8_192)] == []


@pytest.mark.parametrize("seed", range(examples(1)))
def test_short_searches_find_what_one_search_of_the_whole_text_finds(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(redaction, "WINDOW", redaction.LONGEST + 1_000)
    labelled = [one.text for one in secrets()]
    pieces = (*labelled, *BEGINNINGS, *HARMLESS, "x" * 900, " ", "\n", "sk-" + "a1" * 9_000)
    text = "".join(Random(seed).choices(pieces, k=3_000))
    found = 0
    for rule in (*secret_rules.KEYS, *secret_rules.BLOBS):
        whole = [one.span() for one in rule.pattern.finditer(text)]
        assert [one.span() for one in redaction._iterate_matches(rule.pattern, text)] == whole, rule.label
        found += len(whole)
    assert found > 100


@pytest.mark.parametrize("header, payload", [(17, 40), (504, 9_000), (9_000, 40), (9_000, 20_000)])
def test_a_token_is_found_wherever_the_edge_of_a_window_lies_in_it(
    monkeypatch: pytest.MonkeyPatch, header: int, payload: int
) -> None:
    monkeypatch.setattr(redaction, "WINDOW", 16_384)
    parts = ["eyJ" + "a1-_" * (header // 4), "eyJ" + "b2" * (payload // 2), "c3" * 20]
    token = ".".join(parts)
    dots = [len(parts[0]), len(parts[0]) + 1 + len(parts[1])]
    for place in (0, 11, *dots, len(token), redaction.LONGEST, redaction.LONGEST * 2):
        for edge in range(max(0, place - 12), min(place + 13, len(token) + 3)):
            at = redaction.WINDOW - edge if edge <= redaction.WINDOW else 2 * redaction.WINDOW - edge
            text = f"{' ' * at}{token} {'x y ' * 5_000}"
            assert [one[1:] for one in find_secrets(text)] == [(at, at + len(token))], edge


def test_no_search_looks_at_more_than_a_window_of_a_text_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()

    class Noting:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern, self.groupindex = pattern, pattern.groupindex

        def search(self, text: str, at: int, end: int) -> re.Match[str] | None:
            seen.append(end - at)
            return self.pattern.search(text, at, end)

    keys: tuple[Any, ...] = secret_rules.KEYS
    rules = [rule._replace(pattern=Noting(rule.pattern)) for rule in keys if not rule.whole]
    monkeypatch.setattr(redaction, "KEYS", tuple(rules))
    assert find_secrets("postgres://" * 50_000) == []
    assert max(seen) <= redaction.WINDOW


def test_no_token_is_shorter_than_what_is_looked_for_first_and_none_holds_a_space() -> None:
    patterns = [rule.pattern.pattern for rule in secret_rules.TOKENS]
    assert len(patterns) > 150
    # WHY private: `re` tells nobody else how short a match may be.
    assert min(_parser.parse(pattern).getwidth()[0] for pattern in patterns) == secret_rules.SHORTEST_TOKEN
    spaced = re.compile(r"(?<!SSWS) |\\s|\.[*+{]|\[\^")
    assert [pattern for pattern in patterns if spaced.search(pattern)] == []
