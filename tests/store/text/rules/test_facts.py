import pytest

from store.text.rules import ExtractedFact, MessageText, Tier, TurnText, extract_turn
from tests.tables import each_row


def _facts(text: str, *, role: str = "user", name: str | None = None) -> list[ExtractedFact]:
    found = extract_turn(TurnText((MessageText(role, text, name),))).facts
    return [fact for fact in found if not fact.denied]


@each_row(
    "text,contracted",
    [
        ("My name is Alice.", ("user_name", "name", "name", "Alice", Tier.L0, 0.95)),
        ("I prefer short answers!", ("user_preference", "preference", "prefer", "short answers", Tier.L0, 0.92)),
        ("I like green tea, really", ("user_like", "like", "like", "green tea", Tier.L2, 0.85)),
        ("Today I need to ship it", ("today_task", "today_task", "today-task", "to ship it", Tier.L1, 0.80)),
        ("This week I need a form\nand", ("weekly_task", "weekly_task", "week-task", "a form", Tier.L2, 0.82)),
    ],
)
def test_the_contracted_rules_find_their_facts(text: str, contracted: tuple[str, str, str, str, Tier, float]) -> None:
    (fact,) = _facts(text)
    assert (fact.fact_id, fact.key, fact.slug, fact.value, fact.tier, fact.confidence) == contracted


@each_row(
    "text,fact_id,key,value",
    [
        ("I live in Cape Town with two dogs.", "user_home", "home", "Cape Town"),
        ("We've just moved to Łódź!", "user_home", "home", "Łódź"),
        ("I moved from Porto to Braga.", "user_home", "home", "Braga"),
        ("I grew up in São Paulo.", "user_origin", "origin", "São Paulo"),
        ("I work at the city library in Ghent.", "user_employer", "employer", "the city library"),
        ("I work as a sound engineer.", "user_job", "job", "a sound engineer"),
        ("My birthday is on 3 April, by the way.", "user_birthday", "birthday", "3 April"),
        ("I\u2019m allergic to penicillin.", "user_allergy", "allergy", "penicillin"),
        ("I'm a vegetarian for good now.", "user_diet", "diet", "vegetarian"),
        ("I don't like coriander.", "user_dislike", "dislike", "coriander"),
        ("I love hiking in the rain.", "user_like", "like", "hiking in the rain"),
        ("My favourite dish is goulash.", "user_favourite", "dish", "goulash"),
        ("My sister Maud is here.", "user_sister", "maud", "Maud"),
        ("I have my sister Maud here.", "user_sister", "maud", "Maud"),
        ("My dentist is called Dr Nys.", "user_dentist", "nys", "Dr Nys"),
        ("Our cat's name is Biscuit.", "user_cat", "biscuit", "Biscuit"),
        ("I live in St. Louis. It rains.", "user_home", "home", "St. Louis"),
        ("My dentist is Dr. Nys.", "user_dentist", "nys", "Dr. Nys"),
        ("I moved to Lisbon. Before that I moved to Berlin, in 2010.", "user_home", "home", "Lisbon"),
        ('My favourite film is "Alien".', "user_favourite", "film", '"Alien"'),
    ],
)
def test_common_durable_facts_are_found(text: str, fact_id: str, key: str, value: str) -> None:
    (fact,) = _facts(text)
    assert (fact.fact_id, fact.key, fact.value) == (fact_id, key, value)


@each_row(
    "text,fact_id,statement",
    [
        ("I bought a red kettle at the market.", "user_bought", "Ann bought red kettle."),
        ("We've just ordered the desk I was looking at!", "user_bought", "Ann bought desk."),
        ("I finally bought a cello.", "user_bought", "Ann bought cello."),
        ("My sister and I went to Granada in March.", "user_visited", "Ann visited Granada."),
        ("I just got back from Aarhus.", "user_visited", "Ann visited Aarhus."),
        ("We visited the museum of glass.", "user_visited", "Ann visited museum of glass."),
        ("I went to a pride parade last Friday.", "user_visited", "Ann visited pride parade."),
        ("I read The Waves, half of it.", "user_read", "Ann read Waves."),
        ("I play the sitar since I was nine.", "user_plays", "Ann plays sitar."),
        ("I go climbing with Kim.", "user_goes", "Ann goes climbing."),
        ("I enjoy baking on rainy days.", "user_like", "Ann loves baking on rainy days."),
        ("I baked banana bread this morning.", "user_baked", "Ann baked banana bread."),
        ("I fixed my mother's radio.", "user_repaired", "Ann repaired mother's radio."),
        ("Last week I bought a phone.", "user_bought", "Ann bought phone."),
        ("The market was open and I bought some milk.", "user_bought", "Ann bought milk."),
        ("She told me that it rains, so I bought an umbrella.", "user_bought", "Ann bought umbrella."),
        ("In 2019 we sold the blue car, Kim.", "user_sold", "Ann sold blue car."),
        ("Guess what? I won a car!", "user_won", "Ann won car."),
        ("I was tired after I painted the shed.", "user_painted", "Ann painted shed."),
        ("We hired a lawyer \u2013 the best one.", "user_hired", "Ann hired lawyer."),
        ("I was in Porto on Sunday.", "user_visited", "Ann visited Porto."),
        ("I travelled to Porto.", "user_visited", "Ann visited Porto."),
        ("We traveled to Oslo last year.", "user_visited", "Ann visited Oslo."),
        ("We went to the museum of glass.", "user_visited", "Ann visited museum of glass."),
        ("I took up knitting in May.", "user_goes", "Ann goes knitting."),
        ("I play chess and I am good at it.", "user_plays", "Ann plays chess."),
        ("I collect old stamps.", "user_collects", "Ann collects old stamps."),
        ("On Sundays I go bouldering with Kim.", "user_goes", "Ann goes bouldering."),
        ("I play a bit of piano.", "user_plays", "Ann plays piano."),
        ("I own a little boat.", "user_owns", "Ann owns little boat."),
        ("Last Saturday we went to the Rijksmuseum.", "user_visited", "Ann visited Rijksmuseum."),
        ("I own two bikes.", "user_owns", "Ann owns bikes."),
        ("I speak fluent Dutch.", "user_speaks", "Ann speaks Dutch."),
        ("I still drink oat milk.", "user_drinks", "Ann drinks oat milk."),
    ],
)
def test_what_people_did_and_do_is_a_fact_of_its_kind(text: str, fact_id: str, statement: str) -> None:
    (fact,) = _facts(text, name="Ann")
    assert (fact.fact_id, fact.statement) == (fact_id, statement)


@each_row(
    "text",
    [
        "If I bought a boat, I would sail.",
        "Should I have bought the red one?",
        "The goulash I cooked lasted three days.",
        "The telescope I ordered has arrived.",
        "I made it, and we made a real difference.",
        "I've made strong connections with people there.",
        "I lost my job.",
        "I picked up on that.",
        "She bought a kettle, and just visited Ghent.",
        "I went to bed.",
        "I went to Python from Perl.",
        "I own up to it.",
        "I read.",
    ],
)
def test_what_is_only_like_a_deed_is_no_fact(text: str) -> None:
    assert _facts(text) == []


@each_row(
    "text",
    [
        "Just read the config file first.",
        "Finally visited Porto.",
        "Please help. Just fixed the radio.",
        "Just ordered the desk.",
    ],
)
def test_an_order_is_no_deed(text: str) -> None:
    assert _facts(text, name="Ann") == []


@each_row(
    "text",
    [
        "Have I visited Porto, do you remember?",
        "Have I visited Porto, I wonder.",
        "Not once have I visited Porto.",
        "Neither Kim nor I visited Porto.",
        "Is it true that I sold the car, Kim?",
        "Had I bought the red one, I would be glad.",
        "Had Kim and I bought the red one, all would be well.",
        "I won the fight, or did I?",
        "I won a car, or did I?",
        "I am not sure I bought milk.",
        "It's not true that I sold the car.",
        "I bought no milk.",
        "I bought neither.",
        "I bought none of it.",
        "I bought nothing new.",
        "I bought almost nothing.",
        "I was in Porto never.",
        "I've never been to Porto.",
        "I hope we sold the car.",
        "I wish I bought the car.",
        "I visited Porto, didn't I?",
        "Maybe I bought milk.",
        "Not today I sold the car.",
        "I bought a boat in my head.",
        "I bought a boat tomorrow.",
        "I bought milk, I think.",
        "I sold the car, if I remember well.",
        "If Kim pays and I sold the car, we are rich.",
        "Imagine a war, and I won a medal.",
    ],
)
def test_what_is_asked_denied_or_supposed_is_no_deed(text: str) -> None:
    assert _facts(text, name="Ann") == []


@each_row(
    "text",
    [
        "She says I broke the vase.",
        "She says I sold the vase.",
        "My boss claims I broke the printer.",
        "My boss claims we sold the printer.",
        "He told me I won a car.",
        "You said I bought a kettle.",
        "You said that I bought a kettle.",
        "I dreamt I won the lottery.",
        "I dreamed that I visited Porto.",
        "In my dream, I won the lottery.",
        "She said she was home and I sold the car.",
        "I sold the car, she says.",
        "I sold the vase, according to Kim.",
        "Kim: I bought a kettle.",
        "Translate this:\nI bought a kettle.",
        "Translate to Dutch, I bought a kettle.",
        "In the game, I bought a boat.",
    ],
)
def test_what_another_says_or_a_dream_tells_is_no_deed(text: str) -> None:
    assert _facts(text, name="Ann") == []


@each_row(
    "text",
    [
        "The woman I hired left.",
        "The house we built stands in Ghent.",
        "Everything I made burned.",
        "Everything I baked burned.",
        "Ann bought what I sold Kim.",
        "All I bought was milk.",
        "The guitar I play is old.",
        "The tea that I drink is green.",
        "The man who I hired left.",
        "The people we visited Porto with are kind.",
        "It is a language I speak Dutch with.",
    ],
)
def test_a_clause_that_describes_a_thing_is_no_deed(text: str) -> None:
    assert _facts(text, name="Ann") == []


@each_row(
    "text",
    [
        "I picked up the kids from school.",
        "I picked up the phone.",
        "I picked up a cold.",
        "I ordered my thoughts.",
        "I ordered Kim to leave.",
        "I ordered the files by date.",
        "I drew a conclusion.",
        "I drew attention to it.",
        "I completed the form.",
        "I practise law.",
        "I play devil's advocate.",
        "I play the victim.",
        "I lost my temper.",
        "I lost interest.",
        "I lost count.",
        "I made a huge mistake.",
        "I made Ann cry.",
        "I made an appointment.",
        "I grow old.",
        "I grow tired of this.",
        "I own my mistakes.",
        "I own the problem.",
        "I collect my thoughts.",
        "I collect the kids.",
        "I broke even.",
        "I broke my promise.",
        "I go missing.",
        "I went looking for the key.",
        "I went crying to her.",
        "I took up nothing.",
        "I went to the bathroom.",
        "I went to the extra mile.",
        "I bought time.",
        "I bought you a coat.",
        "I sold Kim the car.",
        "We built trust.",
        "We adopted a new approach.",
        "We fixed a date.",
        "I won the argument.",
        "I speak slowly.",
        "I speak up.",
        "I drink too much.",
        "I drink to that.",
        "I visited the website.",
        "I was in Marketing.",
        "I visited St. Ives.",
        "I joined Doctors Without Borders.",
        "I read Pride and Prejudice.",
        "I bought 3.5 of them.",
        "I bought Kim flowers.",
        "I watched Kim leave.",
        "I fixed the wrong thing.",
        "We went to Kim's.",
        "I went to Kim.",
        "I visited hell.",
        "I play a poker face.",
    ],
)
def test_a_verb_in_another_sense_is_no_deed(text: str) -> None:
    assert _facts(text, name="Ann") == []


@pytest.mark.parametrize(
    "text,slugs",
    [
        ("I visited Porto. We went to Porto.", ["visited-porto"]),
        ("We went to Porto. I've been to Ghent. I visited Porto.", ["visited-porto", "visited-ghent"]),
        ("I ordered a lamp. I bought the lamp.", ["bought-lamp"]),
    ],
)
def test_what_two_rules_find_is_one_fact(text: str, slugs: list[str]) -> None:
    assert [fact.slug for fact in _facts(text)] == slugs


@each_row(
    "text",
    [
        "Neither Kim nor I live in Porto.",
        "Is it true that I live in Porto, Kim?",
        "She says I live in Porto.",
        "He told me that I work at Google.",
        "I dreamt I moved to Porto.",
        "I am not sure I moved to Porto.",
    ],
)
def test_what_is_not_told_as_true_is_no_trait(text: str) -> None:
    assert _facts(text) == []


@each_row(
    "text",
    [
        "Humidity dislikes me: ai like you",
        "If I moved to Porto, would you come?",
        "When I live in Porto, all will be well.",
        "I love you.",
        "I work at night.",
        "I live in a dream.",
        "My birthday is coming up.",
        "My sister is happy.",
        "I'm allergic to what?",
        "I like",
        "I like !",
        "my name is",
        "Suppose I live in Lisbon, or let's say I work at Google.",
        "Imagine that I live in Lisbon.",
        "I thought I moved to Rome.",
        "I don't think I live in Rome any more.",
        "We moved to Slack, then I moved to React and to Python.",
        "I'm from Marketing.",
        "My sister is Anna's friend.",
        "I work as hard as I can.",
        "I hate to bother you. I don't like this answer.",
        "My favourite colour is not blue.",
    ],
)
def test_what_only_sounds_like_a_fact_is_none(text: str) -> None:
    assert _facts(text) == []


def test_case_is_kept_and_the_opening_phrase_may_have_any() -> None:
    assert [fact.value for fact in _facts("MY NAME IS McKenzie")] == ["McKenzie"]


def test_a_value_ends_where_the_next_clause_begins() -> None:
    assert [fact.value for fact in _facts("My name is Ana and I live in Ghent")] == ["Ana", "Ghent"]


def test_a_long_value_is_cut_between_characters_at_128_bytes() -> None:
    (fact,) = _facts("I like " + "ä" * 200)
    assert fact.value == "ä" * 64
    (fact,) = _facts("I like x" + "ä" * 200)
    assert len(fact.value.encode()) == 127


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
def test_only_what_people_say_is_mined(role: str) -> None:
    assert _facts("I like tea. My name is Juniper.", role=role) == []


def test_the_first_of_a_kind_counts_and_relations_count_each() -> None:
    facts = _facts("I like tea. I like rum. My sister Maud and my brother Joost and my sister Ida.")
    assert [(fact.slug, fact.value) for fact in facts] == [
        ("like", "tea"),
        ("relation-sister-maud", "Maud"),
        ("relation-brother-joost", "Joost"),
        ("relation-sister-ida", "Ida"),
    ]


@each_row(
    "text",
    [
        'My friend said "I live in Porto" and left.',
        "He told me: \u201cmy name is Karl\u201d.",
        "> I live in Porto",
        "Translate `I like tea`, please:\n```\nmy name is Karl\n```",
    ],
)
def test_what_a_message_only_repeats_is_nothing_its_speaker_said(text: str) -> None:
    assert _facts(text) == []


def test_facts_come_in_the_order_they_were_said_what_was_long_ago_first() -> None:
    """So that of two homes the one that holds is the later fact."""
    for text in (
        "I moved to Berlin, and now I live in Lisbon.",
        "I live in Lisbon; I moved to Berlin in 2010, and back.",
    ):
        assert [fact.value for fact in _facts(text)] == ["Berlin", "Lisbon"]


def test_of_what_there_may_be_many_each_counts_and_else_what_was_said_last() -> None:
    facts = _facts("I'm allergic to nuts. I'm allergic to cats. I live in Porto. No, I live in Braga.")
    assert [(fact.slug, fact.value) for fact in facts] == [
        ("allergy", "nuts"),
        ("allergy-cats", "cats"),
        ("home", "Braga"),
    ]


def test_a_fact_is_said_of_its_speaker() -> None:
    (fact,) = _facts("I live in Ghent.", name="Ines")
    assert (fact.subject, fact.statement) == ("Ines", "Ines lives in Ghent.")
    (fact,) = _facts("I live in Ghent.")
    assert (fact.subject, fact.statement) == (None, "The user lives in Ghent.")


@each_row(
    "text, wanted",
    [
        ("I live in **Leeds** and I'm *vegan*.", {"Leeds", "vegan"}),
        ("I'm a *school* nurse.", {"a school nurse"}),
        ("so i'm a nurse at the hospital you know and i live in leeds", {"a nurse", "the hospital", "leeds"}),
        ("The customer: I live in Leeds", set()),
        ("hi my name is anna i live in leeds i have a dog called rex", {"anna", "leeds", "rex"}),
    ],
)
def test_marks_fillers_and_labels_are_no_part_of_a_fact(text: str, wanted: set[str]) -> None:
    assert {fact.value for fact in _facts(text)} == wanted
