"""What follows from the evidence in one step."""

import json
import random

import pytest

from proxy.grounding.values import arithmetic
from proxy.grounding.values.arithmetic import EVERY, hits, is_derived
from proxy.grounding.values.calculation import calculation
from proxy.grounding.values.stated import follows
from proxy.language.quantities import read_quantities
from tests.cost import below

ORDERS = json.dumps(
    {"orders": [{"id": i, "total": total, "status": s} for i, (total, s) in enumerate([(10, "open"), (20, "open"), (45, "paid")])]}
)


def follows_from(claim: str, *texts: str, language: str = "en", asked: str = "") -> bool:
    """Whether the claim's first number can be worked out of `texts`."""
    number = read_quantities(claim, language).numbers[0]
    return is_derived(number, claim, asked, read_quantities("\n".join(texts), any_language=True), texts)


@pytest.mark.parametrize(
    ("text", "right", "result"),
    [
        ("2 + 3 = 6", False, "5"),
        ("2 + 3 = 5", True, "5"),
        ("So 120 * 1.5 = 180 euros.", True, "180"),
        ("10 / 4 = 2.5", True, "2.5"),
        ("10 / 3 = 3.33", True, "3.333333333"),
        ("100 - 20 - 5 = 70", False, "75"),
        ("2 + 3 × 4 = 14", True, "14"),
        ("The total of 120 and 80 is 210.", False, "200"),
        ("Die Summe von 120 und 80 ist 200.", True, "200"),
        ("Petrol (Shell, Circle K): €61.00 + €54.50 = €119.50", False, "115.5"),
        ("Travel: €148.60 + €92.40 + €37.80 = €278.80", True, "278.8"),
        ("4 nights × £29 = £116", True, "116"),
        ("8 × 48 € + 30 € = 424 €", False, "414"),
        ("17 Minuten × 0,20 € = 3,40 €", True, "3.4"),
        ("12 × 1.234,50 € = 14.814,00 €", True, "14814"),
        ("1,200 + 300 = 1,500", True, "1500"),
        ("2,400 / 12 = 25", False, "200"),
        ("50% + 10% = 60%", True, "60"),
        ("1.43 × 500 = 716", True, "715"),  # 1.43 may be rounded
        ("9 – 17 = 8", True, "-8"),
        ("140500 + 62000 = 203000", True, "202500"),
        ("2 + 2 = 4, and 2 + 3 = 6.", False, "5"),
        ("4 nights × £29 = £117", False, "116"),
        ("12 × 15 = 1800", False, "180"),
        ("2 × 6 eggs = 13 eggs", False, "12"),
        ("210 ÷ 7/3 = 90", True, "90"),
        ("210 / 7/3 = 10", True, "10"),
        ("210 ÷ 7/3 = 95", False, "10"),
        ("The mean is 5 + 8 + 12 / 3 = 8.33.", True, "17"),  # its brackets are missing
        ("3 + 4 × 2 = 14", True, "11"),
        ("3 + 4 × 2 = 12", False, "11"),
        ("A total of 20 + 30 = 60 chairs.", False, "50"),
    ],
)
def test_a_calculation_is_checked(text: str, right: bool, result: str) -> None:
    found = calculation(text)
    assert found is not None
    assert (right, result) == (found.right, found.result)


@pytest.mark.parametrize(
    "text",
    [
        "x = 5",
        "f(2 + 3) = 6",
        "In 2 + 3 days",
        "1 / 0 = 3",
        "1 h + 30 min = 90 min",
        "60 km/h × 2 h = 120 km",
        "3 adults + 2 children = 6 people",
        "100 + 19 % = 119",
        "2x + 3 = 7",
        "2m + 3 = 11",
        "10^2 + 5 = 105",
        "(4 + 5) × 3 = 27",
        "Hotel 280 CHF = 249,00 €",
        "64-70-67-69=270",
        "7 days × 24 hours = 168 hours",
        "5 × 200 thousand = 1 million",
        "۵ × ۲۰۰ هزار = ۱ میلیون",
        "5 × 200 тысяч = 1 миллион",
        "1.5 million + 500,000 = 2 million",
        "2 lakh + 50,000 = 2.5 lakh",
        "5 × 1024 = 5K",
        "3 dozen × 2 = 72",
        "4 × 25 cents = 1 dollar",
        "1 Std 30 + 15 = 1 Std 45",
        "$1.2 + $500 = $1.7",  # of a list in millions and thousands
        "Half of 10 + 2 = 7",
        "2 times 3 + 4 = 10",
        "20 divided by 4 + 1 = 6",
        "Die Hälfte von 10 + 2 = 7",
        "3 squared + 9 = 18",
        "In base 8, 7 + 1 = 10",
        "In hex, 9 + 8 = 11",
        "0x10 + 1 = 17",
        "ln 1 + 5 = 5",
        'In Orwell\'s novel he must say "2 + 2 = 5".',
    ],
)
def test_what_can_be_read_in_two_ways_is_no_calculation(text: str) -> None:
    assert calculation(text) is None


@pytest.mark.parametrize(
    ("claim", "texts", "language"),
    [
        ("In total it is 330 euros.", ("The flight is 300 euros.", "The bag is 30 euros."), "en"),
        ("Zusammen sind es 330 Euro.", ("Der Flug kostet 300 Euro.", "Der Koffer kostet 30 Euro."), "de"),
        ("En total son 330 euros.", ("El vuelo cuesta 300 euros.", "La maleta cuesta 30 euros."), "es"),
        ("Au total cela fait 330 euros.", ("Le vol coûte 300 euros.", "La valise coûte 30 euros."), "fr"),
        ("There are 3 orders.", (ORDERS,), "en"),
        ("2 orders are open.", (ORDERS,), "en"),
        ("It is 25% of the total.", ("It sold 50 of 200.",), "en"),
        ("It takes 90 minutes.", ("It starts at 10:00 and ends at 11:30.",), "en"),
        ("It is 2 kg lighter than the other.", ("One weighs 5 kg, the other 7 kg.",), "en"),
        ("The list has 3 points.", ("- a\n- b\n- c",), "en"),
    ],
)
def test_a_result_follows(claim: str, texts: tuple[str, ...], language: str) -> None:
    assert follows_from(claim, *texts, language=language)


@pytest.mark.parametrize("claim", ["It costs 330 euros.", "The flight is 299 euros.", "In total it is 340 euros."])
def test_a_result_without_a_word_that_asks_for_it_does_not(claim: str) -> None:
    assert not follows_from(claim, "The flight is 300 euros.", "The bag is 30 euros.")


def test_the_question_may_ask_for_it() -> None:
    assert follows_from("It is 330 euros.", "The flight is 300 euros.", "The bag is 30 euros.", asked="How much is it in total?")


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("No results were found.", "[]"),
        ("I found no matching entries.", '{"results": [], "page": 1}'),
        ("Es gibt keine Treffer.", '{"items": []}'),
        ("No hay resultados.", "No results found."),
        ("Aucun résultat n'a été trouvé.", "0 results"),
        ("All tests pass.", "12 passed, 0 failed in 3.2s"),
        ("Alle Tests sind bestanden.", "12 passed in 3.2s"),
        ("Todas las pruebas pasan.", "12 passed"),
        ("Tous les tests passent.", "12 passed"),
    ],
)
def test_nothing_found_and_all_passed_follow(claim: str, text: str) -> None:
    assert follows(claim, [text])


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("All tests pass.", "11 passed, 1 failed"),
        ("No results were found.", '{"results": [{"id": 1}]}'),
        ("The tower is in Paris.", "[]"),
    ],
)
def test_what_does_not_follow(claim: str, text: str) -> None:
    assert not follows(claim, [text])


@pytest.mark.parametrize("seed", range(5))
def test_looking_results_up_finds_what_going_through_all_of_them_finds(seed: int) -> None:
    r = random.Random(seed)
    said = " ".join(f"{r.randint(1, 90)}{r.choice(('', ' km', ' euros', '%'))}," for _ in range(30))
    quantities = read_quantities(said)
    claim = " ".join(
        f"{r.choice(('', 'about ', 'at least ', 'at most '))}{r.choice((r.randint(1, 200), round(r.random() * 90, 1)))}{r.choice(('', ' km', '%'))};"
        for _ in range(60)
    )
    for number in read_quantities(claim).numbers:
        values, every_one = (arithmetic._operands(quantities.numbers, number, alike=alike) for alike in (True, False))
        results = arithmetic._results(EVERY, values, every_one, arithmetic.share_of(number))
        every = any(hits(number, made) for made in results)
        assert every == any(hits(number, made) for made in arithmetic._near(number, results))


@pytest.mark.cost
def test_a_list_of_numbers_costs_no_more_than_its_length() -> None:
    r = random.Random(5)
    said = read_quantities(", ".join(str(round(r.uniform(1, 99), 1)) for _ in range(400)))
    claim = "In total, on average and by difference " + ", ".join(str(r.randint(100, 9999)) for _ in range(800))
    numbers = read_quantities(claim).numbers
    with below(2.0):
        for number in numbers:
            is_derived(number, claim, "What is the total share?", said, [], [])
