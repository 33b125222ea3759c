"""Tokens end in a checksum: what was mistyped, cut off or made up at random is known for it without a query."""

import string

from hypothesis import given, strategies

from store.tenancy.tokens import DIGITS, is_well_formed, new_token, token_checksum

PREFIXES = strategies.sampled_from(["at_", "uk_"])


@given(PREFIXES)
def test_what_is_made_is_well_formed_and_long_enough_not_to_be_guessed(prefix: str) -> None:
    token = new_token(prefix)
    assert is_well_formed(token)
    assert token.startswith(prefix)
    assert len(token) == 3 + 43 + 6


@given(PREFIXES, strategies.integers(0, 51), strategies.sampled_from(string.ascii_letters + string.digits + "-_"))
def test_one_wrong_character_anywhere_is_seen(prefix: str, place: int, character: str) -> None:
    token = new_token(prefix)
    wrong = token[:place] + character + token[place + 1 :]
    assert is_well_formed(wrong) == (wrong == token)


@given(strategies.text(max_size=60))
def test_any_text_is_judged_and_none_is_a_token_by_chance(text: str) -> None:
    assert not is_well_formed(text)
    assert not is_well_formed("at_" + text)


def test_the_checksum_is_the_documented_one() -> None:
    assert token_checksum("at_" + "A" * 43) == "0GoeEA"
    assert len(DIGITS) == 62
