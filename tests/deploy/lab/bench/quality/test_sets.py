"""Several sets are measured in one run; each is named by its format and file."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.cli.app import build_cli
from deploy.cli.quality import QualityOptions, build_gains_table
from deploy.lab.bench.quality.figures import CategoryMeans
from deploy.lab.bench.quality.material import UnreadableData
from deploy.lab.bench.quality.run import QualityReport
from tests.tables import each_row


def _options(file: Path | None, kind: str, *more: str) -> QualityOptions:
    return QualityOptions(file, kind, None, ablate=False, more=more)


def test_sets_are_the_file_and_those_added() -> None:
    one, two = ("locomo one", (Path("a/one.json"), "locomo")), ("beam chats", (Path("b/chats"), "beam"))
    assert dict([one]) == _options(Path("a/one.json"), "locomo").list_sets()
    assert dict([one, two]) == _options(Path("a/one.json"), "locomo", "beam=b/chats").list_sets()
    assert dict([one, two]) == _options(None, "", "locomo=a/one.json", "beam=b/chats").list_sets()


@each_row("more", [(), ("locomo",), ("locomo=",), ("unknown=a.json",), ("=a.json",)])
def test_what_is_no_set_is_refused_with_the_formats(more: tuple[str, ...]) -> None:
    with pytest.raises(UnreadableData, match=r"--set F=FILE; F: locomo\|"):
        _options(None, "", *more).list_sets()


def test_the_gain_of_a_rule_is_told_for_each_set_and_in_the_mean() -> None:
    def report(with_it: float, without_it: float) -> QualityReport:
        every, other = (CategoryMeans("all", 4, {"recall@10": mean}) for mean in (with_it, without_it))
        return QualityReport(9, [every], {"speaker": [other]}, (), (), 0, p50_ms=1.0, p95_ms=2.0)

    table = build_gains_table({"a": report(0.9, 0.8), "b": report(0.5, 0.52)})
    assert [list(map(str, column.cells)) for column in table.columns] == [
        ["speaker"],
        ["+0.100"],
        ["-0.020"],
        ["+0.040"],
    ]


def test_the_command_says_what_it_needs() -> None:
    done = CliRunner().invoke(build_cli("bench"), ["bench", "recall", "--quality", "--set", "locomo"])
    assert done.exit_code == 2
    assert "--set F=FILE" in done.output.replace("\n", " ")
