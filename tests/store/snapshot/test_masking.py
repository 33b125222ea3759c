"""What a mark replaces, and what stays."""

import time

from store.snapshot.masking import Masker
from tests.tables import each_row

KEY = b"k" * 32


@each_row(
    "private",
    [
        "Grimpenmire",
        "ana.souza@example.org",
        "@ana_souza",
        "+351 912 345 678",
        "4711",
        "sk-proj-abcdefghijklmnopqrstuvwx0123456789",
        "Жуковский",
        "東京",
    ],
)
def test_a_private_value_is_replaced_by_the_same_mark_each_time(private: str) -> None:
    masker = Masker(KEY)
    once = masker.mask_text(f"We know {private} well.")
    assert private not in once
    assert once.startswith("We know [")
    assert once == masker.mask_text(f"We know {private} well.")
    assert once != Masker(b"l" * 32).mask_text(f"We know {private} well.")


def test_a_common_word_is_marked_where_it_is_a_known_name() -> None:
    masker = Masker(KEY, ["Mark", "Read Moon", "Zelda Mark"])
    assert "mark" not in masker.mask_text("I met mark").lower()
    assert masker.mask_text("read the moon") == "read the moon"
    assert "read moon" not in masker.mask_text("I like Read Moon").lower()


def test_a_name_has_one_mark_in_a_text_and_in_a_field() -> None:
    masker = Masker(KEY)
    data = masker.mask_data({"content": "I know Zelda", "canonicalName": "zelda", "unitId": "x", "unknown": "Zelda"})
    assert data["content"] == f"I know {data['canonicalName']}"
    assert data["unitId"] == "x"
    assert "unknown" not in data


def test_json_of_callers_is_masked_in_names_texts_and_numbers() -> None:
    masked = Masker(KEY).mask_data({"metadata": {"Grimpen": ["Zelda", 4711, True, None, {"deep": 1.5}]}})
    assert "Grimpen" not in str(masked)
    assert "4711" not in str(masked)
    assert next(iter(masked["metadata"].values()))[2:4] == [True, None]


def test_masking_again_changes_nothing_and_a_hostile_text_takes_linear_time() -> None:
    masker = Masker(KEY)
    once = masker.mask_text("Zelda has 4711 at zelda@example.org and @zelda")
    assert masker.mask_text(once) == once
    begun = time.process_time()
    for hostile in ("a" * 200_000, "1." * 100_000, "@" * 100_000, "a@" * 100_000, "1 " * 100_000):
        masker.mask_text(hostile)
    assert time.process_time() - begun < 60
