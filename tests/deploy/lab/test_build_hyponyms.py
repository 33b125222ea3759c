"""The table of kinds is made from WordNet's files."""

from pathlib import Path

from deploy.lab.build_hyponyms import build_rows

LICENCE = "  1 a licence stands at the head of each file\n"
NOUNS = """\
00000001 03 n 01 sport 0 002 ~ 00000002 n 0000 ~i 00000004 n 0000 | a game
00000002 03 n 02 racket_game 0 racketing 1 002 @ 00000001 n 0000 ~ 00000003 n 0000 | with rackets
00000003 03 n 01 tennis 0 001 @ 00000002 n 0000 | over a net
00000004 03 n 01 judo 0 001 @i 00000001 n 0000 | on a mat
00000005 03 n 01 serve 0 000 | what begins it
"""
INDEX = {
    "noun": "sport n 1 1 ~ 1 1 00000001\nracketing n 1 1 ~ 1 0 00000002\n"
    "tennis n 1 1 @ 1 1 00000003\njudo n 1 1 @ 1 0 00000004\nserve n 1 0 1 1 00000005\n",
    "verb": "sport v 1 0 1 0 00000009\n",
    "adj": "",
    "adv": "",
}
COUNTS = "sport%1:04:00:: 1 9\ntennis%1:04:00:: 1 3\n"


def _wordnet(folder: Path) -> Path:
    (folder / "data.noun").write_text(LICENCE + NOUNS)
    for part, lines in INDEX.items():
        (folder / f"index.{part}").write_text(LICENCE + lines)
    (folder / "cntlist.rev").write_text(COUNTS)
    return folder


def test_kinds_are_found_however_far_down_the_commonest_first(tmp_path: Path) -> None:
    found = dict(
        row.split("\t") for row in build_rows(_wordnet(tmp_path), ["judo", "sport", "tenni", "racket", "serv"])
    )
    assert found == {"sport": "judo tenni racket", "racket": "tenni"}


def test_only_words_that_matter_are_in_it(tmp_path: Path) -> None:
    assert list(build_rows(_wordnet(tmp_path), ["sport", "tenni"])) == ["sport\ttenni"]
