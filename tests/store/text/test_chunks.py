"""Cutting documents: nothing lost, nothing blank, nothing longer than it may be."""

import hypothesis.strategies as st
from hypothesis import given

from store.text.chunks import split_chunks

texts = st.text(alphabet=st.sampled_from("ab .!?\n\t"), max_size=400)


@given(texts, st.integers(5, 60))
def test_every_sign_is_in_one_chunk_in_order_and_no_chunk_is_too_long_or_blank(text: str, most: int) -> None:
    chunks = split_chunks(text, most)
    assert "".join("".join(chunks).split()) == "".join(text.split())
    assert all(chunk.strip() and len(chunk) <= most for chunk in chunks)


def test_paragraphs_share_a_chunk_while_there_is_room() -> None:
    assert split_chunks("one\n\ntwo\n\n\n three four five", 10) == ["one\n\ntwo", "three four", "five"]


def test_a_sentence_is_not_cut_where_it_fits() -> None:
    assert split_chunks("Short one. Another one. Third.", 14) == ["Short one.", "Another one.", "Third."]
