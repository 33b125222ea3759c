"""How the time of reading a text grows with the text: a square would show on any machine."""

import time
from collections.abc import Callable, Iterable

#: Characters of a long text, and how many times as long it is as the one it is compared with.
LONG, TIMES = 8_192, 16

#: Pieces that texts are made of which a careless rule reads again and again.
PIECES = (
    *("a", "A ", "1 ", "1. ", "@", "a@a.", "www.", "http://a/www.", "a's ", "'", "O'", '"', "`", "<", "&lt;", "{", "["),
    *(" ", "\n", "\n \n", "\t", ". ", "? ", "! ", "a? ", "a?\n", "...", "a-", "-", "_", "\\", "\u2028"),
    *("may ", "april ", "in may ", "3 ", "since ", "two weeks before ", "last ", "2020-", "1/", "20", "ago "),
    *(
        "I ",
        "my ",
        "tell me ",
        "did you ",
        "how many ",
        "when ",
        "i said ",
        "Anna and ",
        "De La ",
        "University of the ",
    ),
    *("Zoë ", "é", "ß", "İ", "ﬁ", "\ufdfa", "中", "한", "ไทย", "😀", "und ", "il y a ", "\u0627\u0644"),
    *("\u0308", "\u0301\u0323", "a\u0301\u0323", "\uff9e\u0301", "\u0345\u0301", "\u200d", "\u00a0"),
    *("<memory_reference>", "<memory_reference>{}</memory_reference>", "</memory_reference>", "<memory_directives>"),
    *("ing", "ation", "ness", "lich", "ement", "issimo", "ovať", "\u043e\u0433\u043e", "kataya"),
)


def grows_with_its_text(read: Callable[[str], object], piece: str, *, long: int = LONG) -> bool:
    """Say whether TIMES the text takes nothing like TIMES² as long.

    Linear reading takes 16 times as long, quadratic 256 times; no machine is so uneven that they meet. An eighth of a
    millisecond is allowed for what every reading costs.
    """

    def seconds(length: int) -> float:
        text = (piece * (1 + length // len(piece)))[:length]
        started = time.process_time()
        read(text)
        return time.process_time() - started

    seconds(long // TIMES // TIMES)
    short = 0.000125 + min(seconds(long // TIMES) for _ in range(2))
    return any(seconds(long) < short * 4 * TIMES for _ in range(3))


def outgrowing(read: Callable[[str], object], pieces: Iterable[str] = PIECES, *, long: int = LONG) -> list[str]:
    """Return the pieces of which a text takes longer than in proportion to its length."""
    return [piece for piece in pieces if not grows_with_its_text(read, piece, long=long)]
