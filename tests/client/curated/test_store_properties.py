"""The curated files against a list: whatever is stored comes back, in any order of changes, within the limit."""

import tempfile
from pathlib import Path

import pytest
from afterturn_client.curated import (
    Entries,
    EntryRefused,
    Limits,
    MemoryStore,
    NoMatch,
    OverLimit,
    SeveralMatches,
    Target,
)
from afterturn_client.curated.entries import parse_entries, render_entries, tidy_entry
from afterturn_client.curated.screen import screen_entry
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.client.curated.conftest import entries
from tests.examples import examples

ROOMY = Limits(memory=100_000, user=100_000)


def admissible(content: str) -> bool:
    try:
        screen_entry(content)
    except EntryRefused:
        return False
    return True


texts = st.text(max_size=120).map(tidy_entry).filter(admissible)


@given(st.lists(texts, max_size=8, unique=True))
@settings(deadline=None)
def test_arbitrary_entries_come_back_as_they_were_stored(contents: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = MemoryStore(Path(folder), ROOMY)
        for content in contents:
            store.add(Target.MEMORY, content)
        assert entries(MemoryStore(Path(folder))) == contents


@given(st.lists(texts, max_size=8, unique=True))
def test_parsing_undoes_rendering(contents: list[str]) -> None:
    assert parse_entries(render_entries(contents)) == Entries(contents)


@given(st.text(st.sampled_from("a§ \n\r\t\u2028"), max_size=60))
def test_parsing_any_text_and_rendering_it_settles_at_once(text: str) -> None:
    once = parse_entries(text)
    assert parse_entries(render_entries(once)) == once


class StoreMachine(RuleBasedStateMachine):
    """The store against a list: adds, replacements and removals in any order, within the limit."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.store = MemoryStore(Path(self.home.name), Limits(memory=60))
        self.model: list[str] = []

    def fits(self, after: list[str]) -> bool:
        return len(render_entries(after)) <= 60

    @rule(content=st.sampled_from(["tea", "tea at four", "rye", "a" * 30, "b" * 30, "x" * 61]))
    def add(self, content: str) -> None:
        after = self.model if content in self.model else [*self.model, content]
        if self.fits(after):
            assert self.store.add(Target.MEMORY, content).changed is (after != self.model)
            self.model = after
        else:
            with pytest.raises(OverLimit):
                self.store.add(Target.MEMORY, content)

    @rule(old=st.sampled_from(["tea", "ea", "rye", "a", "zz"]), content=st.sampled_from(["tea", "milk", "c" * 50]))
    def replace(self, old: str, content: str) -> None:
        found = [old] if old in self.model else [one for one in self.model if old in one]
        if len(found) != 1:
            with pytest.raises((NoMatch, SeveralMatches)):
                self.store.replace(Target.MEMORY, old, content)
            return
        after = self.model if content in self.model else [content if e == found[0] else e for e in self.model]
        if self.fits(after):
            self.store.replace(Target.MEMORY, old, content)
            self.model = after
        else:
            with pytest.raises(OverLimit):
                self.store.replace(Target.MEMORY, old, content)

    @rule(old=st.sampled_from(["tea", "ea", "rye", "a", "milk"]))
    def remove(self, old: str) -> None:
        found = [old] if old in self.model else [one for one in self.model if old in one]
        if len(found) == 1:
            self.store.remove(Target.MEMORY, old)
            self.model = [one for one in self.model if one != found[0]]

    @invariant()
    def the_file_is_the_model(self) -> None:
        assert entries(self.store) == self.model

    def teardown(self) -> None:
        self.home.cleanup()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=examples(25), stateful_step_count=30, deadline=None)
