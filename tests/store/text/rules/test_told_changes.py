"""A change that is told in other words than what held before takes its place, and nothing beside it."""

import tomllib
from itertools import permutations

from deploy.lab.bench.quality.changes import FILE
from store.text.rules.changes import read_statement, takes_place
from tests.tables import each_row

TALKS = tomllib.loads(FILE.with_name("changes_paraphrased.toml").read_text(encoding="utf-8"))["talks"]


def replaces(later: str, earlier: str) -> bool:
    return takes_place(read_statement(later), read_statement(earlier))


def test_most_paraphrased_changes_are_seen() -> None:
    missed = [row for talk in TALKS for row in talk["changes"] if not replaces(row[3], row[2])]
    assert sum(len(talk["changes"]) for talk in TALKS) == 48
    assert len(missed) <= 4, missed


def test_no_truths_beside_each_other_are_taken_for_a_change() -> None:
    pairs = [row[1:] for talk in TALKS for row in talk["parallel"]]
    assert len(pairs) == 40
    assert [pair for one in pairs for pair in permutations(one) if replaces(*pair)] == []


def test_no_statement_takes_the_place_of_one_on_another_subject() -> None:
    """What is said later against all that was said first, but its own other side."""
    for talk in TALKS:
        sides = [row[2:] for row in talk["changes"]] + [row[1:] for row in talk["parallel"]]
        wrong = [
            (later, earlier)
            for (earlier, _), (_, later) in permutations(sides, 2)
            if [earlier, later] not in sides and replaces(later, earlier)
        ]
        assert wrong == []


@each_row(
    "earlier, later",
    [
        ("We use Slack for the team chat.", "We ended up going with Teams for the team chat."),
        ("I drive a Golf.", "I swapped the Golf for a Leaf."),
        ("My favourite restaurant is Luigi's.", "My favourite restaurant turned out to be Casa Pepe."),
        ("I write in Word.", "I've moved on from Word."),
        ("I write my notes in Evernote.", "These days it's Obsidian for my notes."),
        ("My boss is Henry.", "My boss used to be Henry."),
        ("The wedding is on June 5.", "The wedding ended up being on June 12."),
        ("We are planning the trip to Spain.", "We ended up going to Italy for the trip."),
        ("I take the tram to work.", "I used to take the tram to work, these days I cycle."),
        ("The colour of the car is red.", "The colour of the car turned out to be orange."),
        ("I am vegan.", "I used to be vegan."),
        ("I play the violin.", "I traded the violin for a cello."),
        ("Our plumber is Joe.", "We replaced Joe with Bill."),
        ("We host the site on AWS.", "We've migrated the site from AWS to Hetzner."),
        ("We host the site on AWS.", "We moved off AWS."),
        ("My phone is a Pixel.", "My phone is an iPhone these days."),
        ("Our meeting is on Tuesdays.", "It's Thursdays now for our meeting."),
        ("I'm using React for the frontend.", "I went with Vue for the frontend in the end."),
        ("The password manager we use is Bitwarden.", "We dropped Bitwarden for 1Password."),
        ("The team lead is Sara.", "Tom has taken over from Sara as team lead."),
        ("I run marathons.", "I gave up running marathons."),
        ("I have a subscription to Netflix.", "I cancelled my subscription to Netflix."),
        ("I'm studying law.", "I switched from law to medicine."),
        ("The key is in the kitchen.", "The key turned out to be in the car."),
        ("We stay at the Hilton.", "We ended up staying at the Marriott."),
        ("I use Chrome.", "I ditched Chrome for Firefox."),
        ("My doctor is Dr. Smith.", "I've moved on from Dr. Smith to Dr. Jones."),
        ("I shop at Aldi.", "I used to shop at Aldi, it's Lidl these days."),
        ("The project is called Apollo.", "The project was renamed from Apollo to Zeus."),
        ("We use tabs.", "We've gone from tabs to spaces."),
        ("I weigh 80 kilos.", "It turns out I weigh 83 kilos."),
        ("I work as a waiter.", "I used to work as a waiter."),
        ("I'm learning French.", "I gave up on French and moved on to Spanish."),
        ("I'm with Vodafone.", "I changed from Vodafone to O2."),
        ("Jane is my therapist.", "I replaced Jane with Kate."),
        ("I'm on the morning shift.", "I swapped the morning shift for the late shift."),
        ("Our CI runs on Jenkins.", "Our CI runs on GitHub Actions these days."),
    ],
)
def test_what_takes_the_place(earlier: str, later: str) -> None:
    assert replaces(later, earlier)


@each_row(
    "earlier, later",
    [
        ("I use Chrome at work.", "I ditched Chrome for Firefox at home."),
        ("My sister drives a Golf.", "I swapped the Golf for a Leaf."),
        ("I like the violin.", "I traded the violin for a cello."),
        ("I have two dogs.", "I gave up smoking."),
        ("I met Joe on Monday.", "We replaced Joe with Bill."),
        ("Joe is my cousin.", "We replaced Joe with Bill."),
        ("I play golf.", "I swapped the Golf for a Leaf."),
        ("Our site has a shop.", "We've migrated the site from AWS to Hetzner."),
        ("The blog runs on AWS.", "We moved the shop from AWS to Hetzner."),
        ("I work at Aldi.", "I used to shop at Aldi."),
        ("My boss is Henry.", "My neighbour used to be Henry."),
        ("My flight to Rome is at 9:40.", "My flight to Oslo turned out to be at 11:05."),
        ("The key of the house is in the kitchen.", "The key of the car turned out to be in the garage."),
        ("The wedding is on June 5.", "The party ended up being on June 12."),
        ("I stay at the Hilton in Rome.", "I ended up staying at the Marriott in Oslo."),
        ("I'm learning French.", "My son gave up on French."),
        ("We use tabs in Python.", "We went from tabs to spaces in Go."),
        ("I take the tram to work.", "I used to take the tram to school."),
        ("The hotel is near the beach.", "The hotel turned out to be noisy."),
        ("The movie is about a war.", "The movie turned out to be great."),
        ("I have a meeting with Sara.", "Tom has taken over from Sara as team lead."),
        ("I love Dr. Smith.", "I've moved on from Dr. Smith to Dr. Jones."),
        ("I cook on Sundays.", "I ended up cooking for six."),
        ("We go to the lake in summer.", "We ended up going to the cinema."),
        ("I paint landscapes.", "I ended up painting the fence."),
        ("We play tennis on Sundays.", "We ended up playing cards all night."),
        ("I'm buying a bike.", "I ended up buying a cake."),
        ("I eat lunch at noon.", "I ended up eating lunch with Tom."),
        ("The soup is hot.", "The soup turned out to be salty."),
        ("My phone is a Pixel.", "My old phone used to be a Nokia."),
        ("I use Figma for mockups.", "I decided to use Sketch for icons."),
        ("I teach maths.", "I gave up on the crossword."),
        ("I drink coffee with Anna.", "I gave up coffee with sugar."),
        ("My coffee machine is a Jura.", "I gave up coffee."),
        ("I take sugar in my tea.", "I gave up sugar in coffee."),
        ("The coffee is in the cupboard.", "I gave up coffee."),
        ("I live with Tom.", "We replaced Tom with Bill in the band."),
        ("We eat at six.", "We decided to eat at the Krone."),
        ("I read the Times.", "I ended up reading the letter."),
        ("I call my mum on Sundays.", "I ended up calling the bank."),
        ("I used to live in Rome.", "I live in Oslo."),
        ("It's very good", "It's pretty good actually"),
        ("We meet at the Adler after the game.", "We no longer meet at the Krone after the game."),
        ("I use Chrome.", "I will switch from Chrome to Firefox."),
        ("I use Chrome.", "I never switched from Chrome to Firefox."),
        ("We drink tea and coffee.", "We gave up coffee."),
    ],
)
def test_what_does_not(earlier: str, later: str) -> None:
    assert not replaces(later, earlier)
    assert not replaces(earlier, later)
