"""Errors of the curated files. No message and no repr shows an entry's text.

CuratedError (an AfterturnError)
├── EntryRefused           the content may not be stored as it is
│   ├── EntryBlank             there is nothing in it
│   ├── EntrySeparator         a line of it would separate entries
│   ├── EntryInvisible         it holds invisible characters: `code_point` of the first
│   └── EntrySuspicious        it reads like prompt injection or exfiltration: `rule`
├── OverLimit              the file would pass its limit: `state` as it is, `characters` it would have had
├── NoMatch                old_text is in no entry: `candidates` are all of them
├── SeveralMatches         old_text is in several entries: `candidates` are those
├── MemoryBusy             another process has held the lock for too long; nothing was changed
└── MemoryUnreadable       a file is not UTF-8 text; it is left alone
"""

from afterturn_client.curated.entries import Entries, MemoryState
from afterturn_client.errors import AfterturnError


class CuratedError(AfterturnError):
    """A curated file could not be read or changed; it is unchanged."""

    code = "memory_error"


class EntryRefused(CuratedError):
    """The content may not be stored as it is."""

    code = "refused"


class EntryBlank(EntryRefused):
    """There is nothing in it."""

    code = "blank"


class EntrySeparator(EntryRefused):
    """A line of it would separate entries."""

    code = "separator"


class EntryInvisible(EntryRefused):
    """It holds an invisible character."""

    code = "invisible_character"

    def __init__(self, code_point: int) -> None:
        super().__init__(f"the content holds a character that cannot be seen (U+{code_point:04X})")
        self.code_point = code_point


class EntrySuspicious(EntryRefused):
    """It reads like prompt injection or exfiltration."""

    code = "suspicious"

    def __init__(self, rule: str) -> None:
        super().__init__(f"the content reads like an attack ({rule}); memory holds facts, not instructions")
        self.rule = rule


class OverLimit(CuratedError):
    """The file would pass its limit."""

    code = "over_limit"

    def __init__(self, state: MemoryState, characters: int) -> None:
        super().__init__(
            f"it would hold {characters:,} characters, its limit is {state.limit:,}; "
            "nothing was stored: shorten or remove entries first"
        )
        self.state = state
        self.characters = characters


class NoMatch(CuratedError):
    """old_text is in no entry."""

    code = "no_match"

    def __init__(self, candidates: Entries) -> None:
        super().__init__("old_text is in no entry")
        self.candidates = candidates


class SeveralMatches(CuratedError):
    """old_text is in several entries."""

    code = "several_matches"

    def __init__(self, candidates: Entries) -> None:
        super().__init__(f"old_text is in {len(candidates)} entries; give more of the one that is meant")
        self.candidates = candidates


class MemoryBusy(CuratedError):
    """Another process has held the lock for too long."""

    code = "busy"


class MemoryUnreadable(CuratedError):
    """A file is not UTF-8 text."""

    code = "unreadable"
