"""Times in texts: each form of expression, and what is none."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from store.text.calendars import DAYS, load_calendars
from store.text.language_detection import detect_language
from store.text.times import DAY, YEARS, TimeSpan, find_spans
from tests.tables import each_row

#: A Sunday.
TODAY = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)


def _span(text: str) -> TimeSpan:
    begin, _, end = text.partition("..")
    return TimeSpan(*(datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (begin, end)))


@each_row(
    "text, span",
    [
        ("What happened on 8 May 2023?", "2023-05-08..2023-05-09"),
        ("on the 8th of May, 2023", "2023-05-08..2023-05-09"),
        ("was it on May 8th, 2023?", "2023-05-08..2023-05-09"),
        ("2023-05-08", "2023-05-08..2023-05-09"),
        ("2023/05/08 (Mon) 14:20", "2023-05-08..2023-05-09"),
        ("am 8.5.2023", "2023-05-08..2023-05-09"),
        ("signed on 05/20/2023", "2023-05-20..2023-05-21"),
        ("signed on 20/5/2023", "2023-05-20..2023-05-21"),
        ("either on 05/06/2023", "2023-01-01..2024-01-01"),
        ("what was bought in 2023-05?", "2023-05-01..2023-06-01"),
        ("in May 2023", "2023-05-01..2023-06-01"),
        ("in Sept 2023", "2023-09-01..2023-10-01"),
        ("December of 2022", "2022-12-01..2023-01-01"),
        ("in 2021", "2021-01-01..2022-01-01"),
        ("yesterday", "2026-11-21..2026-11-22"),
        ("the day before yesterday", "2026-11-20..2026-11-21"),
        ("tonight", "2026-11-22..2026-11-23"),
        ("tomorrow", "2026-11-23..2026-11-24"),
        ("last week", "2026-11-09..2026-11-16"),
        ("this week", "2026-11-16..2026-11-23"),
        ("next week", "2026-11-23..2026-11-30"),
        ("last month", "2026-10-01..2026-11-01"),
        ("next month", "2026-12-01..2027-01-01"),
        ("last year", "2025-01-01..2026-01-01"),
        ("this weekend", "2026-11-21..2026-11-23"),
        ("last weekend", "2026-11-14..2026-11-16"),
        ("on Friday", "2026-11-20..2026-11-21"),
        ("last Sunday", "2026-11-15..2026-11-16"),
        ("next Friday", "2026-11-27..2026-11-28"),
        ("last May", "2026-05-01..2026-06-01"),
        ("next March", "2027-03-01..2027-04-01"),
        ("last summer", "2026-06-01..2026-09-01"),
        ("in the summer of 2022", "2022-06-01..2022-09-01"),
        ("last winter", "2025-12-01..2026-03-01"),
        ("three days ago", "2026-11-19..2026-11-20"),
        ("2 weeks ago", "2026-11-05..2026-11-12"),
        ("a couple of weeks ago", "2026-11-05..2026-11-12"),
        ("over the last three days", "2026-11-19T09:30..2026-11-23T09:30"),
        ("the week before August 3, 2023", "2023-07-24..2023-07-31"),
        ("two days after 8 May 2023", "2023-05-10..2023-05-11"),
        ("since June 2025", "2025-06-01..2026-11-23T09:30"),
        ("before 2024", "0001-01-01..2024-01-01"),
    ],
)
def test_a_time_is_a_span_of_the_calendar(text: str, span: str) -> None:
    found = find_spans(text, TODAY)
    rounded = [TimeSpan(*(_to_day(moment, text) for moment in (one.begin, one.end))) for one in found]
    assert rounded == [_span(span)]


#: The same day and the same week in each language that has a calendar.
SPOKEN = {
    "de": [
        ("Was war am 8. Mai 2023?", "2023-05-08..2023-05-09"),
        ("Wohin sind wir im März 2024 gefahren?", "2024-03-01..2024-04-01"),
        ("Was habe ich gestern gekauft?", "2026-11-21..2026-11-22"),
        ("Wer war vorgestern hier?", "2026-11-20..2026-11-21"),
        ("Was haben wir letzte Woche gemacht?", "2026-11-09..2026-11-16"),
        ("Wer kommt nächsten Freitag?", "2026-11-27..2026-11-28"),
        ("Was geschah vor drei Tagen?", "2026-11-19..2026-11-20"),
        ("Wo waren wir letzten Sommer?", "2026-06-01..2026-09-01"),
        ("Was ist seit Juni 2025 anders?", "2025-06-01..2026-11-23T09:30"),
        ("Wo habe ich vor 2024 gewohnt?", "0001-01-01..2024-01-01"),
    ],
    "fr": [
        ("Que s'est-il passé le 8 mai 2023 ?", "2023-05-08..2023-05-09"),
        ("Où étions-nous en août 2024 ?", "2024-08-01..2024-09-01"),
        ("Qu'est-ce que j'ai acheté hier ?", "2026-11-21..2026-11-22"),
        ("Qui est venu avant-hier ?", "2026-11-20..2026-11-21"),
        ("Qu'avons-nous fait la semaine dernière ?", "2026-11-09..2026-11-16"),
        ("Qui vient vendredi prochain ?", "2026-11-27..2026-11-28"),
        ("Que s'est-il passé il y a trois jours ?", "2026-11-19..2026-11-20"),
        ("Où étions-nous l'été dernier ?", "2026-06-01..2026-09-01"),
        ("Qu'est-ce qui a changé depuis juin 2025 ?", "2025-06-01..2026-11-23T09:30"),
        ("Où ai-je habité avant 2024 ?", "0001-01-01..2024-01-01"),
    ],
    "es": [
        ("¿Qué pasó el 8 de mayo de 2023?", "2023-05-08..2023-05-09"),
        ("¿Dónde estuvimos en agosto de 2024?", "2024-08-01..2024-09-01"),
        ("¿Qué compré ayer?", "2026-11-21..2026-11-22"),
        ("¿Quién vino anteayer?", "2026-11-20..2026-11-21"),
        ("¿Qué hicimos la semana pasada?", "2026-11-09..2026-11-16"),
        ("¿Quién viene el próximo viernes?", "2026-11-27..2026-11-28"),
        ("¿Qué pasó hace tres días?", "2026-11-19..2026-11-20"),
        ("¿Dónde estuvimos el verano pasado?", "2026-06-01..2026-09-01"),
        ("¿Qué ha cambiado desde junio de 2025?", "2025-06-01..2026-11-23T09:30"),
        ("¿Dónde viví antes de 2024?", "0001-01-01..2024-01-01"),
    ],
    "pt": [
        ("O que aconteceu em 8 de maio de 2023?", "2023-05-08..2023-05-09"),
        ("Onde estávamos em março de 2024?", "2024-03-01..2024-04-01"),
        ("O que eu comprei ontem?", "2026-11-21..2026-11-22"),
        ("Quem veio anteontem?", "2026-11-20..2026-11-21"),
        ("O que fizemos na semana passada?", "2026-11-09..2026-11-16"),
        ("Quem vem na próxima sexta-feira?", "2026-11-27..2026-11-28"),
        ("O que aconteceu há três dias?", "2026-11-19..2026-11-20"),
        ("Onde estávamos no verão passado?", "2026-06-01..2026-09-01"),
        ("O que mudou desde junho de 2025?", "2025-06-01..2026-11-23T09:30"),
        ("Onde eu morava antes de 2024?", "0001-01-01..2024-01-01"),
    ],
    "it": [
        ("Che cosa è successo l'8 maggio 2023?", "2023-05-08..2023-05-09"),
        ("Dove eravamo nell'agosto 2024?", "2024-08-01..2024-09-01"),
        ("Che cosa ho comprato ieri?", "2026-11-21..2026-11-22"),
        ("Chi è venuto l'altro ieri?", "2026-11-20..2026-11-21"),
        ("Che cosa abbiamo fatto la settimana scorsa?", "2026-11-09..2026-11-16"),
        ("Chi viene venerdì prossimo?", "2026-11-27..2026-11-28"),
        ("Che cosa è successo tre giorni fa?", "2026-11-19..2026-11-20"),
        ("Dove eravamo l'estate scorsa?", "2026-06-01..2026-09-01"),
        ("Che cosa è cambiato dal giugno 2025?", "2025-06-01..2026-11-23T09:30"),
        ("Dove abitavo prima del 2024?", "0001-01-01..2024-01-01"),
    ],
    "nl": [
        ("Wat gebeurde er op 8 mei 2023?", "2023-05-08..2023-05-09"),
        ("Waar waren we in maart 2024?", "2024-03-01..2024-04-01"),
        ("Wat heb ik gisteren gekocht?", "2026-11-21..2026-11-22"),
        ("Wie was hier eergisteren?", "2026-11-20..2026-11-21"),
        ("Wat hebben we vorige week gedaan?", "2026-11-09..2026-11-16"),
        ("Wie komt er volgende vrijdag?", "2026-11-27..2026-11-28"),
        ("Wat gebeurde er drie dagen geleden?", "2026-11-19..2026-11-20"),
        ("Waar waren we afgelopen zomer?", "2026-06-01..2026-09-01"),
        ("Wat is er sinds juni 2025 veranderd?", "2025-06-01..2026-11-23T09:30"),
        ("Waar woonde ik voor 2024?", "0001-01-01..2024-01-01"),
    ],
}


@each_row("language", sorted(SPOKEN))
def test_a_time_is_understood_in_its_language(language: str) -> None:
    asked = {text: [_span(span)] for text, span in SPOKEN[language]}
    assert {text: detect_language(text) for text in asked} == dict.fromkeys(asked, language)
    assert {text: find_spans(text, TODAY) for text in asked} == asked


@each_row("language", sorted(load_calendars()))
def test_a_calendar_is_whole(language: str) -> None:
    calendar = load_calendars()[language]
    assert (len(calendar.months), len(calendar.weekdays), sorted(calendar.seasons.values())) == (12, 7, [3, 6, 9, 12])
    assert {"day", "week", "month", "year"} <= set(calendar.units.values()) <= DAYS.keys()
    assert {-2, -1, 0} <= set(calendar.days.values())
    assert set(range(1, 13)) == set(calendar.numbers.values()) >= set(calendar.vague.values())


def _to_day(moment: datetime, text: str) -> datetime:
    """Round what lies units before or after a time: its middle is a day's middle."""
    if "week before" not in text and "weeks ago" not in text:
        return moment
    return moment.replace(hour=0)


@each_row("text", ["in May", "in July", "on 8 May", "April 10", "this was every March"])
def test_without_a_year_it_is_that_of_any_of_the_last_years(text: str) -> None:
    found = find_spans(text, TODAY)
    assert [span.begin.year for span in found] == list(range(TODAY.year - YEARS + 1, TODAY.year + 1))


@each_row(
    "text",
    [
        *("", "She may come", "They march on", "I fall down", "at 3 pm", "31 February 2020", "room 2", "0000-13-45"),
        *("the weak and the strong", "a daydream", "12345", "May I?", "1 2 3 4 5"),
    ],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert find_spans(text, TODAY) == []


def test_two_times_are_two_spans_in_order() -> None:
    assert find_spans("more in 2024 than in 2023?", TODAY) == [
        _span("2023-01-01..2024-01-01"),
        _span("2024-01-01..2025-01-01"),
    ]


def test_what_is_read_as_a_date_is_not_read_again_as_its_month() -> None:
    assert find_spans("on 8 May 2023", TODAY) == [_span("2023-05-08..2023-05-09")]


def test_days_are_those_of_universal_time() -> None:
    late = datetime.fromisoformat("2026-11-22T01:00:00+03:00")
    assert find_spans("today", late) == [_span("2026-11-21..2026-11-22")]


PIECES = (
    *("last", "next", "this", "May", "8", "2023", "Friday", "weekend", "ago", "999", "years", "before", "since"),
    *("until", "after", "summer", "two", "weeks", "the", "in", "31", "February", "-", ",", "yesterday", "in the past"),
)


@given(
    st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map(" ".join)),
    st.integers(-12_000, 24_000),
)
def test_any_text_has_times_that_begin_before_they_end(text: str, days: int) -> None:
    found = find_spans(text, TODAY + days * DAY)
    assert found == sorted(set(found))
    assert all(span.length > timedelta(0) for span in found)


@given(st.integers(0, 36_524))
def test_every_day_is_found_as_it_is_written(days: int) -> None:
    begin = datetime(2000, 1, 1, tzinfo=UTC) + days * DAY
    for written in (f"{begin:%d %B %Y}", f"{begin:%B %d, %Y}", f"{begin:%Y-%m-%d}", f"{begin.day} {begin:%b %Y}"):
        assert find_spans(written, TODAY) == [TimeSpan(begin, begin + DAY)], written
