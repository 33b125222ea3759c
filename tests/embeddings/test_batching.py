"""Batches of like lengths."""

from hypothesis import given
from hypothesis import strategies as st

from embeddings.batching import SLACK, STRETCH, group_by_length

lengths = st.lists(st.integers(1, 256))


@given(lengths, st.integers(1, 1024))
def test_every_text_is_in_exactly_one_batch(lengths: list[int], size: int) -> None:
    assert sorted(i for batch in group_by_length(lengths, size) for i in batch) == list(range(len(lengths)))


@given(lengths, st.integers(1, 1024))
def test_a_batch_with_its_padding_stays_within_its_tokens(lengths: list[int], size: int) -> None:
    for batch in group_by_length(lengths, size):
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= size


@given(lengths)
def test_padding_never_outweighs_the_text(lengths: list[int]) -> None:
    for batch in group_by_length(lengths, 512):
        inside = [lengths[i] for i in batch]
        assert max(inside) <= min(inside) * STRETCH + SLACK
