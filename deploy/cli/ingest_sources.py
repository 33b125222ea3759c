"""Registers an ingested file as a document: its turns refer to it, or its text is the document's content."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from afterturn_client import Afterturn
from afterturn_client.contract.receipts import DocumentReceipt

from deploy.cli.turn_sender import PATIENCE_S, SentCounts, call_with_retry, retry_after_s
from deploy.ingest_formats.bounded_lines import BOM
from deploy.ingest_formats.formats import LONGEST_LINE
from deploy.ingest_formats.parsed import BadLine, Parsed, ParsedTurn

#: Bytes of `"doc_id":"<36 characters>",` in a request.
_NAMED_BYTES = 48
TITLE_BYTES = 256


@dataclass
class SourceRegistrar:
    """Registers a file as a document in each bank, when the first turn goes to that bank."""

    client: Afterturn
    file: Path
    bank: str
    patience_s: float = PATIENCE_S
    _named: dict[str, UUID] = field(default_factory=dict)
    _digest: str = ""

    def mark(self, items: Iterable[Parsed]) -> Iterator[Parsed]:
        """Yield the parsed items, each turn with the id of the file's document."""
        for item in items:
            if not isinstance(item, ParsedTurn):
                yield item
                continue
            turn = replace(item.turn, doc_id=self._ensure_document(item.turn.bank or self.bank))
            yield replace(item, turn=turn, size=item.size + _NAMED_BYTES)

    def _ensure_document(self, bank: str) -> UUID:
        if bank not in self._named:
            self._digest = self._digest or hash_file(self.file)
            self._named[bank] = self._register_document(bank)
        return self._named[bank]

    def _register_document(self, bank: str) -> UUID:
        title = derive_title(self.file)
        return register_document(
            lambda: self.client.add_document(content_hash=self._digest, title=title, bank=bank), self.patience_s
        ).doc_id


def register_document(ask: Callable[[], DocumentReceipt], patience_s: float) -> DocumentReceipt:
    """Register a document, with retries for `patience_s` seconds, and return its receipt.

    Raises ServiceUnresponsive, and the AfterturnError of a refusal.
    """
    return call_with_retry(ask, retry_after_s, patience_s)


def hash_file(file: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def derive_title(file: Path) -> str:
    """Return the document title of a file: its name, cut to TITLE_BYTES bytes."""
    name = file.name.encode(errors="replace").decode()
    return name.encode()[:TITLE_BYTES].decode(errors="ignore") or "file"


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file, its title as a document, and its bank."""

    stream: BinaryIO
    title: str
    bank: str

    def feed(self, client: Afterturn, patience_s: float) -> tuple[SentCounts, DocumentReceipt | None]:
        """Send the file as a document; return the counts and its receipt, None for a file that cannot be sent.

        Raises ServiceUnresponsive, AfterturnError.
        """
        raw = self.stream.read(LONGEST_LINE + 1)
        try:
            content = raw.removeprefix(BOM).decode()
        except UnicodeDecodeError:
            return _report_bad_file("not UTF-8 text"), None
        if len(raw) > LONGEST_LINE:
            return _report_bad_file(f"longer than {LONGEST_LINE} bytes, the most that one request can hold"), None
        if not content.strip():
            return _report_bad_file("there is no text in it"), None
        receipt = register_document(lambda: client.add_document(content, title=self.title, bank=self.bank), patience_s)
        known = int(receipt.duplicate)
        return SentCounts(accepted=1 - known, duplicates=known, position=receipt.position, last_line=1), receipt


def _report_bad_file(problem: str) -> SentCounts:
    return SentCounts(bad_lines=[BadLine(1, problem)])
