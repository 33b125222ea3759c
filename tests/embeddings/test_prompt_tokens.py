# ruff: noqa: RUF001 - words of many scripts
"""What a prompt pays is never told too low: estimates are held to two public tokenizers, over texts of many scripts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embeddings import prompt_tokens
from embeddings.errors import EmbeddingError
from embeddings.prompt_tokens import ESTIMATE, OwnTokens, choose_counter
from producers.service.framing import frame_message
from tests.public_tokenizers import load_tokenizers, one_process
from tests.tables import each_row

pytestmark = one_process

#: The same two sentences in languages of many scripts, and what else agents remember.
TEXTS = (
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
    "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
    "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "😀 🎉🇩🇪 ❤️ 👍🏽 👨‍👩‍👧‍👦",
    "def add(a: int, b: int) -> int:\n    return a + b  # TODO(x): 0x7fff_ffff == 2147483647\n",
    '{"id": "0b7c1f5e-52a7-5a3e-8d51-3f6a1c9b7e20", "score": 0.8312, "ok": true, "tags": []}',
    "ERROR 2026-03-02T09:30:17.123456Z worker-3 [pool] GET /api/v1/units?bank=x&limit=100 -> 503 (1,204 ms)",
    "| a | b |\n|---|---|\n| 1 | 2 |\n" + "=" * 60 + "\n" + "-" * 77,
    "SHOUTING ALL DAY LONG ABOUT UNBELIEVABLE CIRCUMSTANCES",
    "dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHRoZSBsYXp5IGRvZw== qxzjvkwpt",
)


def count(text: str) -> int:
    """Return the tokens by the tokenizer that makes more of them."""
    return max(len(tokenizer.encode(text, disallowed_special=())) for tokenizer in load_tokenizers().values())


@each_row("text", TEXTS)
def test_no_text_of_a_script_has_more_tokens_than_estimated(text: str) -> None:
    [estimated] = ESTIMATE.count_tokens([text])
    assert count(text) <= estimated <= 30 + 3 * count(text)


@given(
    st.lists(st.sampled_from([part for text in TEXTS for part in text.split(" ")]), max_size=60),
    st.sampled_from(["", " "]),
)
def test_words_of_all_of_them_together_have_not_either(words: list[str], between: str) -> None:
    text = between.join(words)
    [estimated] = ESTIMATE.count_tokens([text])
    assert count(text) <= estimated


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=30))
def test_a_block_has_not_more_tokens_than_the_frame_and_its_lines_were_estimated(texts: list[str]) -> None:
    message = frame_message([{"text": text, "role": "user", "time": "2026-03-02T09:30:00+00:00"} for text in texts])
    assert message is not None
    lines = message["content"].split("\n")
    assert count(message["content"]) <= sum(ESTIMATE.count_tokens([f"{line}\n" for line in lines]))


def test_a_block_costs_sixty_tokens_and_an_item_twelve_besides_its_text() -> None:
    for size in (1, 10, 60):
        said = "The ferry to the island leaves at seven."
        items = [
            {"text": said, "name": "Ana", "time": f"2026-{1 + n % 12:02}-{1 + n // 12:02}T09:30:00+00:00"}
            for n in range(size)
        ]
        message = frame_message(items)
        assert message is not None
        for tokenizer in load_tokenizers().values():
            text = len(tokenizer.encode(said))
            assert len(tokenizer.encode(message["content"])) <= 60 + size * (12 + text)


def test_english_is_estimated_at_most_a_quarter_too_high() -> None:
    text = Path(__file__).parents[1].joinpath("producers/forty_turns/chat.txt").read_text(encoding="utf-8")
    [estimated] = ESTIMATE.count_tokens([text])
    assert count(text) <= estimated <= 1.25 * count(text)


def test_a_models_own_tokenizer_counts_where_it_is_known(tmp_path: Path) -> None:
    words = {"[UNK]": 0, "the": 1, "ferry": 2}
    model = f'"model": {{"type": "WordLevel", "vocab": {str(words).replace(chr(39), chr(34))}, "unk_token": "[UNK]"}}'
    nothing = '"truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "decoder": null'
    (tmp_path / "tokenizer.json").write_text(
        f'{{"version": "1.0", {nothing}, "pre_tokenizer": {{"type": "Whitespace"}}, "post_processor": null, {model}}}'
    )
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert choose_counter(path).count_tokens(["the ferry left", ""]) == [3, 0]
    assert choose_counter(None) is ESTIMATE
    with pytest.raises(EmbeddingError, match=r"recall\.tokenizer"):
        OwnTokens(tmp_path / "elsewhere")


@given(
    st.lists(
        st.one_of(
            st.sampled_from(TEXTS),
            st.text(max_size=20),
            st.from_regex(r"['.a\d _=-]{1,20}"),
            st.from_regex(r"(\n|\[\d{1,5}\]|\. ?| a){1,12}"),
        ),
        max_size=6,
    )
)
def test_a_text_that_is_counted_in_pieces_and_lines_has_the_same_tokens(some: list[str]) -> None:
    text = "".join(some)
    [whole] = ESTIMATE.count_tokens([text])
    assert whole == prompt_tokens._count_parts(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prompt_tokens, "PIECE_CHARACTERS", 3)
        pieces = list(prompt_tokens._cut_pieces(text))
        assert "".join(pieces) == text
        assert ESTIMATE.count_tokens([text]) == [whole]


@each_row("text", ["plan 7 of Ana. ", "word\n", "12345", "(a, b); ", "寿司と酒。"])
def test_no_piece_of_a_long_text_is_long(text: str) -> None:
    pieces = prompt_tokens._cut_pieces(text * 20_000)
    assert max(map(len, pieces)) < prompt_tokens.PIECE_CHARACTERS + 20
