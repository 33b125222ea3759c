"""Stores a plain-text or Markdown file as one document."""

from dataclasses import dataclass
from typing import BinaryIO

from afterturn_client import Afterturn
from afterturn_client.answers import DocumentReceipt

from deploy.cli.bounded_lines import BOM
from deploy.cli.formats import LONGEST_LINE
from deploy.cli.ingest_sources import register_document
from deploy.cli.parsed import BadLine
from deploy.cli.turn_sender import SentCounts


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """One file, what it is called in memory, and the bank it goes to."""

    stream: BinaryIO
    title: str
    bank: str

    def feed(self, client: Afterturn, patience_s: float) -> tuple[SentCounts, DocumentReceipt | None]:
        """Send the file and count what came of it; None for one that is no text. Raises GaveUp, AfterturnError."""
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
