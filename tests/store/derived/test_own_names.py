"""Under which names a user speaks: those that are stated, those of the id, or the only one that speaks alone."""

from store.derived.own_names import SpokenName, choose_own_names
from tests.tables import each_row


def spoken(alone: str = "", among: str = "") -> list[SpokenName]:
    return [SpokenName(name, alone=name in alone.split("|")) for name in filter(None, f"{alone}|{among}".split("|"))]


@each_row(
    "user, stated, names, own",
    [
        ("ann-3f2a", [], spoken(among="ann|bo"), {"ann"}),
        ("ann.lima@example.org", [], spoken(alone="bo", among="ann lima"), {"ann lima"}),
        ("u-17", ["zoe"], spoken(among="zoe|bo"), {"zoe"}),
        ("u-17", ["zoe lund"], spoken(alone="bo", among="zoe"), {"zoe"}),
        ("u-17", [], spoken(alone="ann|ann lima", among="bo"), {"ann", "ann lima"}),
        ("u-17", [], spoken(alone="ann|bo"), set()),
        ("u-17", [], spoken(among="bo"), set()),
        ("anna", [], spoken(among="ann"), set()),
        (None, [], spoken(alone="ann"), {"ann"}),
        ("", [], [], set()),
        ("---", ["'"], spoken(among="'"), set()),
    ],
)
def test_the_names_of_a_user(user: str | None, stated: list[str], names: list[SpokenName], own: set[str]) -> None:
    assert choose_own_names(user, stated, names) == own
