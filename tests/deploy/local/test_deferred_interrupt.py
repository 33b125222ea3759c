"""An interrupt never splits what is counted."""

import signal

import pytest

from deploy.local.deferred_interrupt import defer_interrupt


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    counted = []
    with pytest.raises(KeyboardInterrupt), defer_interrupt():
        signal.raise_signal(signal.SIGINT)
        counted.append(1)
    assert counted == [1]


def test_a_block_without_an_interrupt_leaves_the_handler_as_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    with defer_interrupt():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_of_the_block_goes_out_and_the_handler_is_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="counted wrong"), defer_interrupt():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("counted wrong")
    assert signal.getsignal(signal.SIGINT) is before
