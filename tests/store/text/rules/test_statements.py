"""What a message states of its author, what it denies, and what it only asks, supposes, repeats or quotes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from store.text.rules import MessageText
from store.text.rules.endings import find_endings
from store.text.rules.facts import find_facts
from store.text.rules.repeated import find_repeated
from tests.figures import FIGURE
from tests.growth import grows_with_its_text
from tests.tables import each_row

#: One sentence a line and what it states: `fact id=value`, with `!` what it denies. The statements and denials are of
#: few kinds, in many contexts; the everyday sentences tell of a life in the words that people use, beside look-alikes.
#: A denial without a value ends all facts of its kind.
SETS = {"statements": 400, "everyday": 190, "denials": 270, "chats": 600}
PRECISION, RECALL = 0.97, 0.95
#: The first 300 chats were labelled before the rules saw them; of these the last 150 were held out.
RECALL_OF_CHATS = 0.9


def read_labels(name: str) -> list[tuple[str, set[str]]]:
    rows = (
        line.partition("\t")
        for line in (Path(__file__).parent / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    )
    return [
        (said.replace("\\n", "\n"), {one.strip() for one in wanted.split(";") if one.strip()})
        for said, _, wanted in rows
    ]


def stated(text: str, name: str | None = None) -> set[str]:
    message = MessageText("user", text, name)
    found = {f"{'!' if one.denied else ''}{one.fact_id}={one.value}" for one in find_facts(message, 0)}
    return found | {
        f"!{kind}={one.value}" if one.value else f"!{kind}"
        for one in find_endings(message, 0)
        for kind in (() if one.keeps else one.kinds)
        if one.value is None or len(one.kinds) == 1
    }


@pytest.mark.parametrize("name,least", SETS.items())
def test_only_what_is_stated_or_denied_is_found(
    name: str, least: int, record_property: Callable[[str, object], None]
) -> None:
    rows = read_labels(name)
    assert len(rows) >= least
    assert len({said for said, _ in rows}) == len(rows)
    found = [(wanted, stated(said)) for said, wanted in rows]
    right = sum(len(wanted & ours) for wanted, ours in found)
    precision = right / sum(len(ours) for _, ours in found)
    recall = right / sum(len(wanted) for wanted, _ in found)
    record_property(FIGURE, f"{name}: precision {precision:.3f}, recall {recall:.3f} on {len(rows)} sentences")
    assert precision >= PRECISION
    assert recall >= (RECALL_OF_CHATS if name == "chats" else RECALL)


def test_a_line_with_the_authors_own_name_is_the_authors() -> None:
    assert stated("Ann: I live in Bonn.", "Ann") == {"user_home=Bonn"}
    assert stated("Kim: I live in Bonn.", "Ann") == set()


def test_a_letter_that_another_person_signed_is_not_the_authors() -> None:
    letter = "Hi Ann,\n\nI moved to Rome last week.\n\nBest regards,\nKim"
    assert stated(letter) == stated(letter, "Bo") == set()
    assert stated(letter, "Kim") == {"user_home=Rome"}


def test_what_stands_beside_a_quotation_is_the_authors() -> None:
    assert stated("```\nI live in Rome\n```\nI live in Bonn.") == {"user_home=Bonn"}
    assert stated("> I live in Rome\n\nI live in Bonn.") == {"user_home=Bonn"}
    assert stated('Rewrite this: "I live in Rome". I live in Bonn.') == {"user_home=Bonn"}


PIECES = (
    *('"a ', " 'a", "<a>", "<code>", "[quote]", "Kim: I\n", "text: ", "On a wrote:\n", "aError:", "I like "),
    *("<<<<<<< a\n", "\\begin{a}", "Given a\n", "this poem ", "translate the ", "INT. A\n"),
    *("\u201e", "    a\n\n", "translate x ", "-a\n+b\n", "pretend ", "said: ", "Hi Kim,\n", "a_b: x\n"),
    *(
        "i no longer work at ",
        "not and I like x ",
        "just kidding, ",
        "I like x. jk\n",
        "haha lol oh well no, ",
        ", not really",
    ),
)


@each_row("piece", PIECES)
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    assert grows_with_its_text(find_repeated, piece)
    assert grows_with_its_text(lambda text: find_facts(MessageText("user", f"{text} I like it"), 0), piece)


@each_row(
    "text",
    [
        "There is no way I like opera.",
        "Hardly anyone knows I like whisky, because I don't.",
        "I told him that I live in Paris, but that was a lie.",
        "$ echo I like bash\nI like bash",
        "name,bio\nKim,I live in Rome\nBo,I like olives",
        "1\n00:00:01,000 --> 00:00:04,000\nI live in Rome",
        "WEBVTT\n\n00:01.000 --> 00:04.000\nI live in Rome",
        "kim@host:~$ cat bio.txt\nI live in Rome\nI like golf",
        "PS C:\\Users\\kim> type bio.txt\nI live in Rome",
        "thread 'main' panicked at src/main.rs:1:1:\nI live in Rome",
        "web_1  | I live in Rome\nweb_1  | I like golf",
        "I1127 10:00:00.000000       1 main.go:12] I live in Rome",
        "[10:00, 5/5/2024] Kim: I live in Rome\n[10:01, 5/5/2024] Bo: I like golf",
        "Kim \u2014 Today at 10:00 AM\nI live in Rome",
        "\\section{Bio} I live in Rome",
        "\u5f7c\u306f\u300cI live in Rome\u300d\u3068\u8a00\u3063\u305f",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\n\nI live in Rome",
        "RT @kim: I live in Rome",
        "Je ne crois pas que j'habite \u00e0 Lyon.",
        "Il dit que j'habite \u00e0 Lyon.",
        "No es verdad que vivo en Madrid.",
        "Si vivo en Madrid, ir\u00e9.",
        "Er sagt, ich heisse Petra.",
        "Angenommen, ich wohne in Ulm.",
        "Im Roman hei\u00dft es: Ich wohne in Ulm.",
        "Tu so, als ob du Anna w\u00e4rst: Ich wohne in Ulm.",
        "kim@laptop ~ % cat bio.txt\nI live in Rome",
        "### Instruction:\nI live in Rome\n### Response:\nok",
        "My grandmother wrote in her diary: I live in Rome and I work at the mill.",
        "Chapter 1\n\nI live in Rome. My name is Livia.",
        "Limerick time: my name is Lou and I live in Peru",
        "Spell check: i lvie in rome, i work at bosch",
        "Make this more formal: I live in Rome and I love it",
        "Give me three sentences like I live in Rome",
        "They wrongly list that I work at Bosch.",
        "Wohne ich in Ulm?",
        "Ich bin nach Ulm gefahren.",
        "Meine Schwester ist nach Ulm gezogen.",
        "INT. KITCHEN - DAY\n\nANNA\nI live in Rome.",
        "E    AssertionError: x\nE      - I live in Oslo\nE      + I live in Rome",
        "postgres=# select bio from users;\n    bio\n-----------\n I live in Rome\n(1 row)",
        "^3f2a1bc9 (Kim 2026-03-03 10:00:00 +0000 1) I live in Rome",
        "src/bio.txt:12:I live in Rome\nsrc/bio.txt:13:I like olives",
        "<<<<<<< HEAD\nI live in Rome\n=======\nI live in Oslo\n>>>>>>> main",
        'def bio\n  "x"\nend\nputs bio # I like rubies',
        "\\documentclass{article}\n\\begin{document}\nI live in Rome.\n\\end{document}",
        "In [3]: f()\nOut[3]: I live in Rome",
        "What is this poem about?\n\nI live in Rome,\nand I like the bee,",
        "Soup\n\nIngredients:\n- 2 carrots\n- I like thyme",
        "You are Anna. Answer as her: I am a baker and I live in Rome.",
        "For the sake of argument, I live in Rome.",
        "Case study: I am a teacher. I live in Rome. What would you advise?",
        "I live in Rome and I like cheese.\n\nTranslate the above into Spanish.",
        "Make flashcards from these: I live in Rome; I have two cats",
        "Customer wrote - I live in Rome, can you deliver?",
        "Given I live in Rome\nWhen I search for bread\nThen I see bakers",
        "Dictation exercise: I live in Rome. I like apples.",
        "Great, I love delays.",
        "I love people who listen.",
        "I love version 2, this is it.",
        "I live in Leeds, I think.",
        "Ich wohne in Ulm, glaube ich.",
        "Ich bin mit meinem Job verheiratet.",
        "Ich bin allergisch gegen Dummheit.",
        "Ich liebe Anna.",
        "Ich mag kein Fleisch mehr essen.",
        "I work for a living.",
        "I work at a snail's pace.",
        "In the game I'm a nurse.",
        "As a user, I live in Rome so that I can test.",
        "Test: I live in Rome",
        "Lucky me, I love queues.",
        "I like jazz as much as a toothache.",
        "Kim wrote:\n\nI live in Rome.",
        "&gt; I live in Rome",
        "<|im_start|>user\nI live in Rome<|im_end|>",
        "user> I live in Rome",
        "This book is not for me.",
        "The gift isn't for me, it's for my sister.",
        "Dinner isn't for me, I already ate.",
        "Kim says opera is my thing.",
        "Is sushi not for me?",
        "Leeds is where my brother lives.",
        "Downtown is where I work.",
        "Ghent is where I work.",
        "I don't go by bus any more.",
        "I've never liked how they treat us.",
        "Once I live in Rome, I'll visit.",
        "I live in Rome, no wait, Ostia.",
        "- I live in Rome\n- I like olives",
        "Ich arbeite bei Nacht.",
        "Ich arbeite bei Anna im Garten.",
        "Ich arbeite bei der Renovierung mit.",
        "Ich arbeite als Erstes die Mails ab.",
        "Ich arbeite nicht mehr als Anna.",
        "Er sagt, ich arbeite bei Bosch.",
        "Wenn ich bei Bosch arbeite, bin ich m\u00fcde.",
        "Ich w\u00e4re gern Vegetarierin.",
        "Ich koche heute vegetarisch.",
        "Ich mag dich.",
        "Ich mag meinen Job.",
        "Ich mag Ihre Idee.",
        "Ich glaube, ich mag Jazz.",
        "Na toll, ich liebe Montage.",
        "Ich mag Jazz, oder?",
        "lol i work at the circus apparently",
        "Forget that I live in Bonn.",
        "please forget my address, I live in Essen no more",
        "delete the fact that I work at Nordea",
        "Don't remember that my name is Paula.",
        "Stop remembering that I am vegan.",
        "Forget what I said about my dog Rex.",
        "Erase the note that my wife is Clara.",
        "I joined the standup late.",
        "Forget about my sister Maud.",
        "Please delete the memory that I'm vegan",
        "I want you to forget that I work at Bosch.",
        "Never remember that I am divorced.",
        "I live in Basel no more.",
        "I joined the Zoom as a viewer.",
        "I joined the call from Lisbon.",
        "Trabajo en Madrid.",
        "No soy al\u00e9rgico a los gatos.",
        "Bin ich Lehrer?",
        "Ich bin Beifahrer.",
    ],
)
def test_what_is_taken_back_typed_or_pasted_states_nothing(text: str) -> None:
    assert stated(text) == set()


@each_row(
    "text, wanted",
    [
        ("I used to be vegetarian.", "!user_diet=vegetarian"),
        ("I'm not a nurse any more.", "!user_job=a nurse"),
        ("I used to be a nurse.", "!user_job=a nurse"),
        ("I'm not married any more.", "!user_marriage=married"),
        ("We are no longer engaged.", "!user_marriage=engaged"),
        ("I hate golf now.", "user_dislike=golf"),
        ("I like golf these days.", "user_like=golf"),
        ("Ich bin letzte Woche nach Ulm gezogen.", "user_home=Ulm"),
        ("Seit Mai wohne ich in Ulm.", "user_home=Ulm"),
        ("Ich bin neu hier und wohne in Ulm.", "user_home=Ulm"),
        ("I love pizza but I don't love mornings.", "user_like=pizza"),
        ("Opera isn't my thing.", "user_dislike=Opera"),
        ("Sushi is not for me.", "user_dislike=Sushi"),
        ("Opera isn't my thing any more.", "!user_like=Opera"),
        ("I don't go by Ana any more.", "!user_name=Ana"),
        ("Not Bonn, Cologne is where I live.", "user_home=Cologne"),
        ("Cologne is not where I live any more.", "!user_home=Cologne"),
        ("Nordwind is where I work.", "user_employer=Nordwind"),
        ("I've never liked opera.", "user_dislike=opera"),
        ("Contrary to what Kim says, I live in Bonn.", "user_home=Bonn"),
        ("I live in Bonn and you?", "user_home=Bonn"),
        ("1. I live in Bonn", "user_home=Bonn"),
        ("PSA: I'm vegan now.", "user_diet=vegan"),
        ("Ich bin nicht verheiratet.", "!user_marriage=married"),
        ("Ich hab bei Bosch gek\u00fcndigt.", "!user_employer=Bosch"),
        ("Ich arbeite seit drei Jahren bei Bosch.", "user_employer=Bosch"),
        ("Ich bin bei Bosch angestellt.", "user_employer=Bosch"),
        ("Ich arbeite bei einer Versicherung in K\u00f6ln.", "user_employer=einer Versicherung"),
        ("Ich arbeite nicht mehr bei Bosch.", "!user_employer=Bosch"),
        ("Ich habe bei Bosch gek\u00fcndigt.", "!user_employer=Bosch"),
        ("Ich arbeite als freie Journalistin.", "user_job=freie Journalistin"),
        ("Ich bin seit zehn Jahren Vegetarierin.", "user_diet=vegetarian"),
        ("Ich bin keine Vegetarierin mehr.", "!user_diet=vegetarian"),
        ("Ich mag klassische Musik.", "user_like=klassische Musik"),
        ("Ich mag keinen Jazz.", "user_dislike=Jazz"),
        ("Ich mag Jazz nicht.", "user_dislike=Jazz"),
        ("Ich mag Jazz nicht mehr.", "!user_like=Jazz"),
        ("Ich trinke gern Tee.", "user_like=Tee"),
        ("Ich bin nicht mehr allergisch gegen N\u00fcsse.", "!user_allergy=N\u00fcsse"),
        ("Ich habe eine Katzenallergie.", "user_allergy=Katzen"),
        ("Ich bin in Ulm geboren.", "user_origin=Ulm"),
        ("Mein Hund hei\u00dft Rex.", "user_dog=Rex"),
        ("Ich hei\u00dfe nicht Uwe, sondern Udo.", "user_name=Udo"),
        ("Don't forget that I live in Bonn.", "user_home=Bonn"),
        ("dont forget im allergic to bees", "user_allergy=bees"),
        ("Before I forget: I'm allergic to bees.", "user_allergy=bees"),
        ("Forget the pasta, I'm vegan.", "user_diet=vegan"),
        ("I keep forgetting to tell you that I live in Bonn.", "user_home=Bonn"),
        ("I like sushi \U0001f363", "user_like=sushi"),
        ("I'm not into golf anymore \U0001f634", "!user_like=golf"),
        ("Our dog died \U0001f622", "!user_dog"),
        ("Ich mag Tee \u2615", "user_like=Tee"),
        ("Hallo, hier ist Petra.", "user_name=Petra"),
        ("I'm not a nurse anymore.", "!user_job=a nurse"),
        ("Ich bin keine Lehrerin mehr.", "!user_job=Lehrerin"),
    ],
)
def test_what_is_said_in_other_words_states_or_ends_the_fact(text: str, wanted: str) -> None:
    assert stated(text) == {wanted}


@each_row(
    "text, wanted",
    [
        ("J'habite \u00e0 Lyon.", "user_home=Lyon"),
        ("Oui, et j'habite \u00e0 Lyon.", "user_home=Lyon"),
        ("Vivo en Madrid.", "user_home=Madrid"),
        ("Hallo, ich heisse Petra.", "user_name=Petra"),
        ("a | b\nI live in Bonn.", "user_home=Bonn"),
        ("Mail kim@host.org: I live in Bonn.", "user_home=Bonn"),
        ("At 10:00 today I live in Bonn.", "user_home=Bonn"),
    ],
)
def test_what_only_resembles_another_s_words_is_the_authors(text: str, wanted: str) -> None:
    assert stated(text) == {wanted}


def test_commas_of_one_line_and_of_prose_make_no_table() -> None:
    assert stated("I live in Bonn,but I like Ghent") == {"user_home=Bonn", "user_like=Ghent"}
    assert stated("Well, I live in Bonn.\nAnd yes, I like Ghent.") == {"user_home=Bonn", "user_like=Ghent"}
