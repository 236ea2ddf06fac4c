import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.values.arithmetic import is_derived
from proxy.language.dates import date_agrees, read_dates, read_times
from proxy.language.number_words import run_value
from proxy.language.quantities import Quantity, agrees, read_quantities


def only(text: str, language: str = "en") -> Quantity:
    (quantity,) = read_quantities(text, language).numbers
    return quantity


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,234.5", (1234.5,)),
        ("1.234,5", (1234.5,)),
        ("1 234,5", (1234.5,)),
        ("1\u202f234,5", (1234.5,)),
        ("1.234", (1234.0, 1.234)),
        ("0.125", (0.125,)),
        ("1,234,567", (1234567.0,)),
        ("٣٤", (34.0,)),
        ("−5", (-5.0,)),
    ],
)
def test_digits_are_read_in_every_way_their_marks_allow(text: str, values: tuple[float, ...]) -> None:
    assert values == only(text).values


@pytest.mark.parametrize(
    ("text", "language"),
    [("It is 2000 metres high.", "en"), ("La montaña mide 1990 metros.", "es"), ("Es kostet 1999 Euro.", "de"), ("It costs $1999.", "en")],
)
def test_a_number_that_could_be_a_year_is_an_amount_with_its_unit(text: str, language: str) -> None:
    found = read_quantities(text, language)
    assert (1, ()) == (len(found.numbers), found.dates)


@pytest.mark.parametrize("text", ["En 1990 l'équipe a gagné.", "Ab 1990 an wurde gebaut.", "It opened in 1990 in Rome."])
def test_a_year_stays_a_year_whatever_word_comes_next(text: str) -> None:
    assert 1990 == read_quantities(text).dates[0].readings[0][0]


@pytest.mark.parametrize("text", ["2.5.1", "COVID-19", "F16", "a4b", "3D", "9" * 20_000])
def test_digits_that_are_no_amount_are_passed_over(text: str) -> None:
    assert () == read_quantities(text).numbers


@pytest.mark.parametrize(
    ("language", "text", "value"),
    [
        ("en", "twenty-one", 21),
        ("en", "two hundred and five", 205),
        ("en", "three million", 3e6),
        ("de", "einundzwanzig", 21),
        ("pt", "quatrocentos e trinta e um", 431),
        ("it", "duecentocinquantaquattro", 254),
        ("fr", "cinq cent vingt et un mille six cent vingt-cinq", 521_625),
        ("es", "trescientos mil cuatrocientos dos", 300_402),
        ("de", "dreihundertfünfundzwanzig", 325),
        ("de", "zweitausend", 2000),
        ("es", "treinta y uno", 31),
        ("es", "dos mil millones", 2e9),
        ("fr", "quatre-vingt-dix-sept", 97),
        ("fr", "soixante-dix", 70),
        ("en", "a dozen", 12),
        ("en", "the third", 3),
        ("de", "der dritte", 3),
    ],
)
def test_number_words(language: str, text: str, value: float) -> None:
    assert (value,) == only(text, language).values


def test_words_that_do_not_belong_together_are_two_numbers() -> None:
    assert (2.0, 1) == run_value(["two", "three"], "en")


@pytest.mark.parametrize(
    ("language", "text", "dimension", "value"),
    [
        ("en", "$5.2 million", "USD", 5.2e6),
        ("en", "£5m", "GBP", 5e6),
        ("en", "30 percent", "ratio", 0.3),
        ("de", "3,5 Mio. Euro", "EUR", 3.5e6),
        ("es", "3 millones de euros", "EUR", 3e6),
        ("fr", "5 milliards d'euros", "", 5e9),
        ("en", "5 km/h", "speed", 5),
        ("en", "100 °C", "temperature", 100),
        ("en", "212 °F", "temperature", 100),
        ("en", "2 GB", "data", 2e9),
    ],
)
def test_units_and_magnitudes(language: str, text: str, dimension: str, value: float) -> None:
    quantity = only(text, language)
    assert (dimension, pytest.approx(value)) == (quantity.dimension, quantity.base_values()[0])


@pytest.mark.parametrize(
    "text", ["2024-03-05", "5 March 2024", "March 5, 2024", "5. März 2024", "5 de marzo de 2024", "5 mars 2024", "05.03.2024"]
)
def test_a_date_is_the_same_however_written(text: str) -> None:
    (date,) = read_dates(text)
    assert (2024, 3, 5) in date.readings


def test_a_numeric_date_is_read_in_both_orders() -> None:
    (date,) = read_dates("03/05/2024")
    assert {(2024, 3, 5), (2024, 5, 3)} == set(date.readings)


@pytest.mark.parametrize(
    "text",
    ["Storno 06.04., Erstattung", "06.04. storniert", "bis 06.04.", "vom 06.04. – 08.05.2026", "annullato il 06/04", "desde el 06/04"],
)
def test_a_day_and_a_month_in_figures_are_a_date_where_they_can_be_nothing_else(text: str) -> None:
    assert (None, 4, 6) in read_dates(text)[0].readings


@pytest.mark.parametrize(
    "text", ["Ubuntu 22.04. Then", "v06.04., new", "09/10 tests", "del 06.04 %", "al 10.05 €", "bis 12.10 Uhr", "10.04.2"]
)
def test_other_figures_are_no_day(text: str) -> None:
    assert [] == read_dates(text)


@pytest.mark.parametrize(
    ("claim", "evidence", "agree"),
    [
        ("in 1889", "on 31 March 1889", True),
        ("bis zum 30.06.2026", "15.06.2026", True),
        ("a partire dal 1.6.2026", "15.06.2026", True),
        ("fino al 1.6.2026", "15.06.2026", False),
        ("in March 1889", "on 31 March 1889", True),
        ("on 30 March 1889", "on 31 March 1889", False),
        ("in the 1980s", "in 1984", True),
        ("in the 1980s", "in 1994", False),
        ("before 1990", "in 1984", True),
        ("nach 1990", "1984", False),
    ],
)
def test_dates_agree_with_what_follows_from_them(claim: str, evidence: str, agree: bool) -> None:
    assert agree is date_agrees(read_dates(claim)[0], read_dates(evidence)[0])


@pytest.mark.parametrize("text", ["1150 milliers d'euros", "1150 k€", "order OA-2081", "1900 thousand pounds", "12.2020"])
def test_an_amount_or_part_of_a_name_is_no_year(text: str) -> None:
    assert [] == read_dates(text)


def test_times_of_day() -> None:
    assert [(870,), (870,), (840,), (120, 840)] == [time.minutes for time in read_times("2:30 pm, 14h30, 14 Uhr, 2:00")]
    assert [(580, 1300), (1230,), (570, 1290), (580,)] == [
        time.minutes for time in read_times("a las 9.40, las 20.30, alle 9.30, 9.40 am, 9.40")
    ]


@pytest.mark.parametrize(
    ("claim", "evidence", "agree"),
    [
        ("about 300", "297", True),
        ("about 300", "250", False),
        ("300", "297", False),
        ("1.2 million", "1,234,567", True),
        ("1.2 million", "1,334,567", False),
        ("4.5", "4.53", True),
        ("5 miles", "8 km", True),
        ("5 km", "5 kg", False),
        ("half", "50%", True),
        ("more than 50 people", "56", True),
        ("more than 50 people", "46", False),
        ("at most 3 kg", "2,500 g", True),
        ("rund 300", "297", True),
        ("alrededor de 300", "297", True),
        ("environ 300", "297", True),
    ],
)
def test_amounts_agree_rounded_converted_and_within_bounds(claim: str, evidence: str, agree: bool) -> None:
    def read(text: str) -> Quantity:
        return next(q for language in ("en", "de", "es", "fr") for q in read_quantities(text, language).numbers)

    assert agree is agrees(read(claim), read(evidence))


@pytest.mark.parametrize(
    ("claim", "evidence", "derived"),
    [
        ("15 people in total", "10 men and 5 women", True),
        ("15 people", "10 men and 5 women", False),
        ("Insgesamt 15 Personen", "10 Männer und 5 Frauen", True),
        ("au total 15 personnes", "10 hommes et 5 femmes", True),
        ("en total 15 personas", "10 hombres y 5 mujeres", True),
        ("sales rose 20%", "from $100 million to $120 million", True),
        ("sales rose 30%", "from $100 million to $120 million", False),
        ("it lasted 6 years", "from 1939 to 1945", True),
    ],
)
def test_arithmetic_counts_only_where_the_claim_hints_at_it(claim: str, evidence: str, derived: bool) -> None:
    found = read_quantities(evidence)
    years = [date.readings[0][0] or 0 for date in found.dates]
    assert derived is is_derived(only(claim), claim, "", found, years=years)


@given(st.integers(0, 10**9))
def test_a_number_agrees_with_itself_in_either_grouping(n: int) -> None:
    english, continental = f"{n:,} items", f"{n:,} items".replace(",", ".")
    assert agrees(only(english), only(continental))


@given(st.text(max_size=300), st.sampled_from(["en", "de", "es", "fr", "ja"]))
def test_places_are_where_the_text_stands(text: str, language: str) -> None:
    found = read_quantities(text, language)
    assert all(text[q.start : q.end] == q.text or q.spelled for q in found.numbers)
    assert all(text[d.start : d.end] == d.text for d in found.dates)
