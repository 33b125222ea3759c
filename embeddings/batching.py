"""Batches texts of similar length, because padding costs as much as text."""

from collections.abc import Iterator, Sequence

#: A batch's longest text may be this much longer than its shortest, plus SLACK tokens.
STRETCH = 1.25
SLACK = 4


def group_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Yield batches as lists of indexes into `lengths`, shortest texts first; every index is in one batch.

    `lengths` are token counts; a batch holds at most `max_tokens` with its padding, or one text. On real
    conversation turns unsorted batches were slower than no batches, and so were large batches of long texts,
    whose memory also grows with the square of the length.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batch: list[int] = []
    for index in order:
        full = lengths[index] * (len(batch) + 1) > max_tokens
        if batch and (full or lengths[index] > lengths[batch[0]] * STRETCH + SLACK):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
